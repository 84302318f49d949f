import { X509Certificate } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import { InternalCa } from '../../src/certificates/internal-ca.ts';
import { readChain } from '../../src/certificates/x509.ts';
import { HandClock } from '../support/hand-clock.ts';
import { openssl } from './tls-kit.ts';

const dayMs = 86_400_000;
const start = Date.UTC(2026, 5, 1, 12);

/** A clock that begins in 2026, so that dates look like dates. */
class Calendar extends HandClock implements Clock {
  /** By how much it is wrong. */
  aheadMs = 0;

  override now(): number {
    return start + super.now() + this.aheadMs;
  }
}

const made: string[] = [];
afterEach(() => {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true });
});

function newDirectory(): string {
  const parent = mkdtempSync(join(tmpdir(), 'turnpike-ca-'));
  made.push(parent);
  return join(parent, 'certs', 'internal');
}

const at = (path: string): string => readFileSync(path, 'utf8');

/** openssl's opinion of a leaf with its chain, at a moment of the calendar. */
function verify(directory: string, chain: string, now: number, ...args: readonly string[]): Promise<string> {
  const [leaf, ...issuers] = readChain(chain);
  const write = (name: string, certificates: readonly X509Certificate[]): string => {
    const path = join(directory, '..', name);
    writeFileSync(path, certificates.map(String).join(''));
    return path;
  };
  return openssl([
    ...['verify', '-x509_strict', '-purpose', 'sslserver', '-attime', String(Math.floor(now / 1000))],
    ...['-CAfile', join(directory, 'root.pem'), '-untrusted', write('chain.pem', issuers), ...args],
    write('leaf.pem', [leaf!]),
  ]);
}

describe('the internal CA', () => {
  it('signs leaves that openssl accepts with nothing but the root', async () => {
    const directory = newDirectory();
    const clock = new Calendar();
    const ca = await InternalCa.open(directory, clock);
    for (const [name, flag, asked] of [
      ['a.test', '-verify_hostname', 'a.test'],
      ['*.w.test', '-verify_hostname', 'q.w.test'],
      ['printer.local', '-verify_hostname', 'printer.local'],
      ['localhost', '-verify_hostname', 'localhost'],
      ['192.168.1.9', '-verify_ip', '192.168.1.9'],
      ['[fd00::9]', '-verify_ip', 'fd00:0::9'],
    ] as const) {
      const leaf = await ca.leafFor(name);
      expect(leaf).toMatchObject({ source: 'internal', names: [name] });
      expect(await verify(directory, leaf.chain, clock.now(), flag, asked), name).toMatch(/: OK/);
      expect(readChain(leaf.chain).length).toBe(2);
    }
  });

  it('keeps root 10 years, intermediate 1 year, leaves 7 days, all backdated by 5 minutes', async () => {
    const clock = new Calendar();
    const ca = await InternalCa.open(newDirectory(), clock);
    const [leaf, intermediate] = readChain((await ca.leafFor('a.test')).chain);
    const root = new X509Certificate(ca.rootPem);
    const days = (certificate: X509Certificate) => (certificate.validToDate.getTime() - start) / dayMs;
    expect([days(root), days(intermediate!), days(leaf!)]).toEqual([3650, 365, 7]);
    for (const each of [root, intermediate!, leaf!]) expect(start - each.validFromDate.getTime()).toBe(5 * 60_000);
    for (const each of [root, intermediate!, leaf!]) {
      expect(each.publicKey.asymmetricKeyDetails?.namedCurve).toBe('prime256v1');
    }
  });

  it('keeps its files to itself', async () => {
    const directory = newDirectory();
    await InternalCa.open(directory, new Calendar());
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    const files = readdirSync(directory).sort();
    expect(files).toEqual(['intermediate.key', 'intermediate.pem', 'root.key', 'root.pem']);
    for (const name of files) expect(statSync(join(directory, name)).mode & 0o777, name).toBe(0o600);
    expect(readdirSync(join(directory, '..'))).toEqual(['internal']);
  });

  it('begins anew after a crash in its first minute, and leaves no key lying about', async () => {
    const directory = newDirectory();
    const parent = join(directory, '..');
    mkdirSync(join(parent, '.internal-abc'), { recursive: true });
    writeFileSync(join(parent, '.internal-abc', 'root.key'), 'half a pair');
    await InternalCa.open(directory, new Calendar());
    expect(readdirSync(parent)).toEqual(['internal']);
  });

  it('is the same after a restart', async () => {
    const directory = newDirectory();
    const first = await InternalCa.open(directory, new Calendar());
    const intermediate = at(join(directory, 'intermediate.pem'));
    const second = await InternalCa.open(directory, new Calendar());
    expect(second.rootFingerprint).toBe(first.rootFingerprint);
    expect(at(join(directory, 'intermediate.pem'))).toBe(intermediate);
  });

  it('has a root that can be told from the root of another installation', async () => {
    const roots = await Promise.all(
      [newDirectory(), newDirectory()].map((each) => InternalCa.open(each, new Calendar())),
    );
    const [a, b] = roots.map((ca) => new X509Certificate(ca.rootPem).subject);
    expect(a).not.toBe(b);
  });
});

describe('a leaf', () => {
  it('is the same one until two thirds of its life, also when many ask at once', async () => {
    const clock = new Calendar();
    const ca = await InternalCa.open(newDirectory(), clock);
    const [one, two] = await Promise.all([ca.leafFor('a.test'), ca.leafFor('a.test')]);
    expect(two.id).toBe(one.id);
    clock.advance(4.6 * dayMs);
    expect((await ca.leafFor('a.test')).id).toBe(one.id);
    clock.advance(0.1 * dayMs);
    const next = await ca.leafFor('a.test');
    expect(next.id).not.toBe(one.id);
    expect(next.key).not.toBe(one.key);
  });

  it('never outlives the intermediate, nor the intermediate the root', async () => {
    const directory = newDirectory();
    const clock = new Calendar();
    await InternalCa.open(directory, clock);
    clock.advance(3648 * dayMs);
    const ca = await InternalCa.open(directory, clock);
    const { chain } = await ca.leafFor('a.test');
    const [leaf, intermediate] = readChain(chain);
    expect(intermediate!.validToDate.getTime()).toBe(ca.rootNotAfter);
    expect(leaf!.validToDate.getTime()).toBeLessThanOrEqual(intermediate!.validToDate.getTime());
    expect(await verify(directory, chain, clock.now())).toMatch(/: OK/);
  });

  it('is not signed by a root that has expired: the sentence says when', async () => {
    const directory = newDirectory();
    const clock = new Calendar();
    const ca = await InternalCa.open(directory, clock);
    clock.advance(3651 * dayMs);
    await expect(ca.leafFor('a.test')).rejects.toThrow(/root .* expired on/);
    expect(at(join(directory, 'root.pem'))).toBe(ca.rootPem);
  });

  it('that a clock which ran fast has dated into the future is replaced, and so is its intermediate', async () => {
    const directory = newDirectory();
    const clock = new Calendar();
    await InternalCa.open(directory, clock);
    rmSync(join(directory, 'intermediate.pem'));
    clock.aheadMs = 30 * dayMs;
    const ca = await InternalCa.open(directory, clock);
    const ahead = await ca.leafFor('a.test');
    clock.aheadMs = 0;
    const leaf = await ca.leafFor('a.test');
    expect(leaf.id).not.toBe(ahead.id);
    expect(leaf.notBefore).toBeLessThan(clock.now());
    expect(await verify(directory, leaf.chain, clock.now())).toMatch(/: OK/);
    expect((await ca.leafFor('a.test')).id).toBe(leaf.id);
  });

  it('is not signed again and again while the root itself is of a time to come', async () => {
    const clock = new Calendar();
    clock.aheadMs = 3 * dayMs;
    const ca = await InternalCa.open(newDirectory(), clock);
    clock.aheadMs = 0;
    const leaf = await ca.leafFor('a.test');
    expect((await ca.leafFor('a.test')).id).toBe(leaf.id);
  });

  it('is for a host, a wildcard or an address and for nothing else', async () => {
    const ca = await InternalCa.open(newDirectory(), new Calendar());
    for (const name of ['*', 'a b', 'A.test', 'a.test.', '', 'f*.test']) {
      await expect(ca.leafFor(name), name).rejects.toThrow(/cannot sign/);
    }
  });
});

describe('the intermediate', () => {
  it('is renewed at two thirds of its year, and old leaves stay good', async () => {
    const directory = newDirectory();
    const clock = new Calendar();
    const ca = await InternalCa.open(directory, clock);
    clock.advance(242 * dayMs);
    const before = await ca.leafFor('a.test');
    clock.advance(2 * dayMs);
    const after = await ca.leafFor('b.test');
    expect(readChain(after.chain)[1]!.fingerprint256).not.toBe(readChain(before.chain)[1]!.fingerprint256);
    expect(await verify(directory, before.chain, clock.now())).toMatch(/: OK/);
    expect(await verify(directory, after.chain, clock.now())).toMatch(/: OK/);
    expect(at(join(directory, 'intermediate.pem'))).toBe(String(readChain(after.chain)[1]));
  });

  it('is replaced when it is missing, cut short, or not of this root', async () => {
    const directory = newDirectory();
    const other = newDirectory();
    const clock = new Calendar();
    const { rootFingerprint } = await InternalCa.open(directory, clock);
    await InternalCa.open(other, clock);
    const damages: (() => void)[] = [
      () => rmSync(join(directory, 'intermediate.pem')),
      () => rmSync(join(directory, 'intermediate.key')),
      () => writeFileSync(join(directory, 'intermediate.pem'), at(join(directory, 'intermediate.pem')).slice(0, 300)),
      () => writeFileSync(join(directory, 'intermediate.key'), at(join(other, 'intermediate.key'))),
      () => {
        for (const name of ['intermediate.pem', 'intermediate.key']) {
          writeFileSync(join(directory, name), at(join(other, name)));
        }
      },
    ];
    for (const damage of damages) {
      damage();
      const ca = await InternalCa.open(directory, clock);
      expect(ca.rootFingerprint).toBe(rootFingerprint);
      expect(await verify(directory, (await ca.leafFor('a.test')).chain, clock.now())).toMatch(/: OK/);
    }
  });
});

describe('the root', () => {
  it('is never made anew when half of it is missing: the start fails and names the file', async () => {
    for (const name of ['root.pem', 'root.key']) {
      const directory = newDirectory();
      await InternalCa.open(directory, new Calendar());
      rmSync(join(directory, name));
      await expect(InternalCa.open(directory, new Calendar())).rejects.toThrow(
        new RegExp(`${name.replace('.', '\\.')} is missing`),
      );
      expect(existsSync(join(directory, name))).toBe(false);
    }
  });

  it('is never made anew beside an intermediate that is left', async () => {
    const directory = newDirectory();
    await InternalCa.open(directory, new Calendar());
    rmSync(join(directory, 'root.pem'));
    rmSync(join(directory, 'root.key'));
    await expect(InternalCa.open(directory, new Calendar())).rejects.toThrow(/is missing/);
  });

  it('is refused when it is broken, mixed up, or open to others', async () => {
    const cases: [RegExp, (directory: string) => void][] = [
      [/cannot be read/, (directory) => writeFileSync(join(directory, 'root.pem'), '')],
      [/cannot be read/, (directory) => writeFileSync(join(directory, 'root.key'), 'x')],
      [
        /not the key of root\.pem/,
        (directory) => writeFileSync(join(directory, 'root.key'), at(join(directory, 'intermediate.key'))),
      ],
      [/chmod 600/, (directory) => chmodSync(join(directory, 'root.key'), 0o640)],
    ];
    for (const [sentence, damage] of cases) {
      const directory = newDirectory();
      await InternalCa.open(directory, new Calendar());
      damage(directory);
      await expect(InternalCa.open(directory, new Calendar())).rejects.toThrow(sentence);
    }
  });
});
