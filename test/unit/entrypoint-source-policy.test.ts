import { BlockList, isIPv4, isIPv6 } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CidrSet, plainAddress, SourcePolicy } from '../../src/entrypoint/source-policy.ts';
import { nobodyLoggedIn } from '../../src/gate/logins.ts';

describe('a set of networks', () => {
  it('holds what lies inside, bounds included', () => {
    const set = new CidrSet(['10.1.0.0/16', '192.0.2.7', '2001:db8::/32', '::1/128']);
    for (const inside of ['10.1.0.0', '10.1.255.255', '192.0.2.7', '2001:db8::', '2001:db8:ffff::1', '::1']) {
      expect(set.has(inside), inside).toBe(true);
    }
    for (const outside of ['10.0.255.255', '10.2.0.0', '192.0.2.8', '192.0.2.6', '2001:db9::', '::2', '0.0.0.1']) {
      expect(set.has(outside), outside).toBe(false);
    }
  });

  it('knows an IPv4 address in its IPv6 clothes, on either side', () => {
    expect(new CidrSet(['10.0.0.0/8']).has('::ffff:10.1.2.3')).toBe(true);
    expect(new CidrSet(['::ffff:10.0.0.0/104']).has('10.1.2.3')).toBe(true);
    expect(new CidrSet(['::ffff:10.0.0.0/104']).has('11.1.2.3')).toBe(false);
    expect(new CidrSet(['::/0']).has('10.1.2.3')).toBe(false);
    expect(new CidrSet(['0.0.0.0/0']).has('::ffff:1.2.3.4')).toBe(true);
  });

  it('ignores a zone index', () => {
    expect(new CidrSet(['fe80::/10']).has('fe80::1%eth0')).toBe(true);
    expect(plainAddress('fe80::1%eth0')).toBe('fe80::1');
  });

  it('takes host bits that are set, and overlapping networks', () => {
    const set = new CidrSet(['10.1.2.3/8', '10.5.0.0/16', '10.0.0.0/9', '9.0.0.0/8']);
    expect(set.has('10.255.0.1')).toBe(true);
    expect(set.has('9.9.9.9')).toBe(true);
    expect(set.has('11.0.0.0')).toBe(false);
  });

  it('is empty when made of nothing, and refuses what is no network', () => {
    expect(new CidrSet([]).has('1.2.3.4')).toBe(false);
    for (const wrong of ['', 'a.test', '10.0.0.0/33', '::/129', '10.0.0.0/-1', '10.0.0/8', '1.2.3.4/8.5']) {
      expect(() => new CidrSet([wrong]), wrong).toThrow(/is not a network/);
    }
  });

  it('agrees with net.BlockList', () => {
    const v4 = fc.ipV4().map(String);
    const v6 = fc.ipV6().filter((text) => isIPv6(text) && !text.includes('.'));
    const near = fc.integer({ min: 0, max: 0xffff }).map((n) => `10.0.${n >> 8}.${n & 255}`);
    const network = fc.oneof(
      fc.tuple(fc.oneof(v4, near), fc.integer({ min: 0, max: 32 })),
      fc.tuple(v6, fc.integer({ min: 0, max: 128 })),
    );
    fc.assert(
      fc.property(
        fc.array(network, { maxLength: 12 }),
        fc.array(fc.oneof(v4, near, v6), { maxLength: 12 }),
        (nets, asked) => {
          const set = new CidrSet(nets.map(([address, bits]) => `${address}/${bits}`));
          for (const isFamily of [isIPv4, isIPv6]) {
            const family = isFamily === isIPv4 ? 'ipv4' : 'ipv6';
            // One list for each family: BlockList takes ::/0 for every IPv4 address as well.
            const list = new BlockList();
            for (const [address, bits] of nets) if (isFamily(address)) list.addSubnet(address, bits, family);
            for (const address of [...asked, ...nets.map(([each]) => each)].filter(isFamily)) {
              expect(set.has(address), address).toBe(list.check(address, family));
            }
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe('a source policy', () => {
  it('lets everyone in when it names nobody', () => {
    expect(new SourcePolicy([]).admits('203.0.113.1')).toBe(true);
    expect(new SourcePolicy(['10.0.0.0/8']).admits('203.0.113.1')).toBe(false);
    expect(new SourcePolicy(['10.0.0.0/8']).admits('10.0.0.1')).toBe(true);
  });

  it('lets in who is logged in where a login is asked for, and nobody else', () => {
    const addresses = ['127.0.0.1', '10.1.2.3', '::1', '::ffff:10.1.2.3', '2001:db8::1'];
    const open = SourcePolicy.of({ trustedCidrs: [], requiresSession: null }, nobodyLoggedIn);
    expect(addresses.filter((each) => open.admits(each))).toEqual(addresses);
    for (const trustedCidrs of [[], ['0.0.0.0/0', '::/0'], ['10.0.0.0/8']]) {
      const closed = SourcePolicy.of({ trustedCidrs, requiresSession: 'blog' }, nobodyLoggedIn);
      expect(addresses.filter((each) => closed.admits(each))).toEqual([]);
    }
    const logins = { isLoggedIn: (app: string, address: string) => app === 'blog' && address === '10.1.2.3' };
    const policy = SourcePolicy.of({ trustedCidrs: [], requiresSession: 'blog' }, logins);
    expect(addresses.filter((each) => policy.admits(each))).toEqual(['10.1.2.3', '::ffff:10.1.2.3']);
    const elsewhere = SourcePolicy.of({ trustedCidrs: ['192.0.2.0/24'], requiresSession: 'blog' }, logins);
    expect(addresses.filter((each) => elsewhere.admits(each))).toEqual([]);
  });
});
