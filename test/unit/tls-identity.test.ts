import { describe, expect, it } from 'vitest';
import { certificateIndex } from '../../src/model/certificate-index.ts';
import { compileRoutingTable } from '../../src/model/routing-table.ts';
import type { Certificate, CertificatesPart, Host, RoutingPart } from '../../src/model/snapshot.ts';
import { canonicalServerName, chooseIdentity } from '../../src/tls/identity.ts';
import { entrypoint, host, routing, settings } from '../support/routing.ts';

function certificate(id: string, names: readonly string[]): Certificate {
  return { id, source: 'static', origin: id, names, notBefore: 0, notAfter: 1, chain: '', key: '' };
}

interface Case {
  readonly hosts?: readonly Host[];
  readonly certificates?: readonly Certificate[];
  readonly defaultId?: string;
  readonly internalCa?: boolean;
  readonly routing?: Partial<RoutingPart>;
  readonly name?: string | null;
  readonly local?: string;
}

/** "profile certificate" or "alert N reason". */
function decide(over: Case): string {
  const { hosts = [], certificates = [], defaultId = null, internalCa = false, name = null, local = '10.0.0.1' } = over;
  const part: CertificatesPart = { certificates, defaultId, internalCa, pending: [] };
  const entrypoints = [entrypoint('secure', { protocol: 'https' }), entrypoint('other', { protocol: 'https' })];
  const table = compileRoutingTable(routing({ entrypoints, hosts, ...over.routing }), (text) =>
    Buffer.from(text).toString('hex'),
  );
  const identity = chooseIdentity(table, certificateIndex(part), 'secure', name, local);
  if (identity.kind === 'refuse') return `alert ${identity.alert} ${identity.reason}`;
  const { choice, profile, serverName } = identity;
  const shown = choice.kind === 'certificate' ? choice.certificate.id : `leaf ${choice.name}`;
  return `${serverName} ${profile.id} ${shown}`;
}

const on = (pattern: string, over: Partial<Host> = {}): Host => host(pattern, [], { entrypoints: ['secure'], ...over });

describe('who this server is', () => {
  const a = certificate('A', ['a.test']);

  it('is the host that the client names, in whatever spelling', () => {
    for (const name of ['a.test', 'A.TEST', 'a.test.', 'A.Test.']) {
      expect(decide({ hosts: [on('a.test')], certificates: [a], name })).toBe('a.test default A');
    }
  });

  it('is nobody for a name that is no name', () => {
    for (const name of ['a.test..', 'x'.repeat(300), 'a b', 'a\0.test', '\xe4.test', 'a.test:443', '.', '*.test']) {
      const shown = decide({ hosts: [on('*')], certificates: [a], defaultId: 'A', name });
      expect(shown, JSON.stringify(name)).toBe('alert 112 unknown-name');
    }
  });

  it('is nobody for a host that is never served over TLS, certificate or not', () => {
    const hosts = [on('n.test', { tls: 'never' })];
    const certificates = [certificate('N', ['n.test'])];
    expect(decide({ hosts, certificates, defaultId: 'N', name: 'n.test' })).toBe('alert 112 never-host');
    expect(decide({ hosts, certificates, defaultId: 'N', name: 'N.TEST.' })).toBe('alert 112 never-host');
  });

  it('holds to the policy of a host that only another entrypoint serves', () => {
    const hosts = [on('n.test', { tls: 'never', entrypoints: ['other'] })];
    expect(decide({ hosts, certificates: [certificate('N', ['n.test'])], name: 'n.test' })).toBe(
      'alert 112 never-host',
    );
  });

  it('is nobody for an unknown name, unless a default certificate is configured', () => {
    const hosts = [on('a.test')];
    expect(decide({ hosts, certificates: [a], name: 'x.test' })).toBe('alert 112 unknown-name');
    expect(decide({ hosts, certificates: [a], defaultId: 'A', name: 'x.test' })).toBe('x.test default A');
    expect(decide({ hosts, internalCa: true, name: 'x.test' })).toBe('alert 112 unknown-name');
  });

  it('is the certificate that covers an unknown name: the answer is then a 404', () => {
    expect(decide({ certificates: [certificate('W', ['*.w.test'])], name: 'x.w.test' })).toBe('x.w.test default W');
  });

  it('is an internal leaf for a configured name without a certificate', () => {
    const hosts = [on('a.test'), on('*.w.test'), on('10.1.1.1')];
    expect(decide({ hosts, internalCa: true, name: 'a.test' })).toBe('a.test default leaf a.test');
    expect(decide({ hosts, internalCa: true, name: 'q.w.test' })).toBe('q.w.test default leaf *.w.test');
    expect(decide({ hosts, internalCa: true, name: '10.1.1.1' })).toBe('10.1.1.1 default leaf 10.1.1.1');
  });

  it('wears the TLS profile of the host', () => {
    const hosts = [
      on('a.test'),
      on('m.test', { minVersion: '1.3' }),
      on('c.test', { clientAuth: { mode: 'require', ca: 'X' } }),
    ];
    const profileOf = (name: string) => decide({ hosts, internalCa: true, name }).split(' ')[1];
    expect(profileOf('a.test')).toBe('default');
    expect(profileOf('m.test')).toBe('1.3/none');
    expect(profileOf('c.test')).toMatch(/^1\.2\/require:/);
  });

  it('holds nameless and unknown clients to the lowest version of the configuration', () => {
    const modern = { settings: { ...settings, minVersion: '1.3' as const } };
    const table = compileRoutingTable(routing({ entrypoints: [entrypoint('secure')], ...modern }), (text) => text);
    const index = certificateIndex({ certificates: [a], defaultId: 'A', internalCa: false, pending: [] });
    for (const name of [null, 'x.test']) {
      const identity = chooseIdentity(table, index, 'secure', name, '10.0.0.1');
      expect(identity.kind === 'serve' && identity.profile.minVersion).toBe('1.3');
    }
  });
});

describe('a client without a name', () => {
  const d = certificate('D', ['d.test']);

  it('gets the default certificate', () => {
    expect(decide({ certificates: [d], defaultId: 'D' })).toBe('null default D');
  });

  it('gets the leaf of the address that it connected to, when that is a configured host', () => {
    const hosts = [on('10.0.0.1'), on('[2001:db8::1]', { minVersion: '1.3' })];
    expect(decide({ hosts, internalCa: true })).toBe('null default leaf 10.0.0.1');
    expect(decide({ hosts, internalCa: true, local: '2001:db8:0::1' })).toBe('null 1.3/none leaf [2001:db8::1]');
    expect(decide({ hosts, certificates: [certificate('I', ['10.0.0.1'])] })).toBe('null default I');
  });

  it('is refused otherwise', () => {
    expect(decide({ hosts: [on('a.test'), on('*')], internalCa: true })).toBe('alert 109 no-name');
    expect(decide({ hosts: [on('10.0.0.1', { tls: 'never' })], internalCa: true })).toBe('alert 109 no-name');
    expect(decide({ hosts: [on('10.0.0.1')] })).toBe('alert 109 no-name');
  });
});

describe('a server name', () => {
  it('may be an address, which can only mean one host', () => {
    expect(canonicalServerName('::1')).toBe('[::1]');
    expect(canonicalServerName('0:0:0:0:0:0:0:1')).toBe('[::1]');
    expect(canonicalServerName('192.0.2.7')).toBe('192.0.2.7');
    expect(canonicalServerName('fe80::1%eth0')).toBeNull();
  });
});

describe('a port of the gate', () => {
  const anything = on('*', { tls: 'either' });
  const named = {
    hosts: [anything, on('10.0.0.1', { tls: 'either' }), host('a.test', [], { entrypoints: ['other'] })],
  };

  it('has leaves of the internal CA for what this machine is called, and for no other name', () => {
    const leaf = (name: string | null, local = '10.0.0.1') => decide({ ...named, internalCa: true, name, local });
    expect(leaf('a.test')).toBe('a.test default leaf a.test');
    expect(leaf(null)).toBe('null default leaf 10.0.0.1');
    expect(leaf('random.test')).toBe('alert 112 unknown-name');
  });

  it('shows the certificate for the name', () => {
    const certificates = [certificate('W', ['*.wild.test'])];
    expect(decide({ ...named, certificates, name: 'x.wild.test' })).toBe('x.wild.test default W');
  });
});
