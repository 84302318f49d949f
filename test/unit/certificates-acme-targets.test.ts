import { describe, expect, it } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { FencedDocument } from '../../src/certificates/acme/fenced-document.ts';
import { SharedChallenges } from '../../src/certificates/acme/shared-challenges.ts';
import { StoredAccounts } from '../../src/certificates/acme/stored-accounts.ts';
import { targetsOf } from '../../src/certificates/acme/targets.ts';
import type { DeclaredAcme } from '../../src/config/declared-acme.ts';
import type { Certificate, ChallengesPart } from '../../src/model/snapshot.ts';
import { HandClock } from '../support/hand-clock.ts';
import { MemoryStore } from '../support/memory-store.ts';
import { entrypoint, host, noChallenges } from '../support/routing.ts';

const le = 'https://acme-v02.api.letsencrypt.org/directory';

function declared(names: readonly string[], over: Partial<DeclaredAcme> = {}): DeclaredAcme {
  const place = { file: '', line: 0, column: 0, key: '' };
  return {
    directories: [{ url: le, eab: null, profile: null, preferredChain: null, ca: null }],
    email: null,
    challenge: 'auto',
    keyType: 'p256',
    ari: true,
    resolvers: [],
    dns: null,
    targets: names.map((name) => ({ name, origin: '', place })),
    ...over,
  };
}

const dns = {
  provider: { kind: 'exec', command: ['hook'], timeoutMs: 1 },
  propagationTimeoutMs: 1,
  propagationDelayMs: 0,
} as const;
const entrypoints = [entrypoint('web', { port: 80 }), entrypoint('s', { protocol: 'https', port: 443 })];
const certificateOf = (...names: string[]): Certificate => ({
  id: 'c',
  source: 'static',
  origin: '',
  names,
  notBefore: 0,
  notAfter: 0,
  chain: '',
  key: '',
});

describe('the targets', () => {
  it('are what the file declares and hosts of apps, less what the operator has a certificate for', () => {
    const hosts = [
      host('file.example.com', [], { entrypoints: ['web', 's'] }),
      host('internal-only.example.com', [], { entrypoints: ['s'] }),
      host('app.example.com', [], { entrypoints: ['s'] }),
      host('plain.example.com', [], { entrypoints: ['s'], tls: 'never' }),
      host('nowhere.example.com', [], { entrypoints: ['web'] }),
      host('port.example.com', [], { entrypoints: ['s'], tls: 'either' }),
      host('app.local', [], { entrypoints: ['s'] }),
      host('*', [], { entrypoints: ['s'] }),
    ];
    const ofFile = new Set(['file.example.com', 'internal-only.example.com', '*']);
    const of = (own: readonly Certificate[]) =>
      targetsOf(declared(['file.example.com']), { hosts, entrypoints }, ofFile, own).map(({ names }) => names[0]);
    expect(of([])).toEqual(['file.example.com', 'app.example.com']);
    expect(of([certificateOf('*.example.com')])).toEqual([]);
    expect(of([certificateOf('FILE.example.com'.toLowerCase())])).toEqual(['app.example.com']);
  });

  it('say how they are proved, what covers them, and who may sign', () => {
    const own = { url: 'https://ca.internal/acme', eab: null, profile: null, preferredChain: null, ca: 'PEM' };
    const directories = [...declared([]).directories, own];
    const wish = declared(['*.example.com', 'a.example.com', 'b.internal', '192.0.2.7'], { dns, directories });
    const targets = targetsOf(wish, { hosts: [], entrypoints }, new Set(), []);
    expect(targets.map(({ names, challenge, coveredBy }) => [names[0], challenge, coveredBy])).toEqual([
      ['*.example.com', 'dns-01', null],
      ['a.example.com', 'dns-01', '+wildcard.example.com'],
      ['b.internal', 'dns-01', null],
      ['192.0.2.7', 'http-01', null],
    ]);
    expect(targets.map(({ directories: urls }) => urls.length)).toEqual([2, 2, 1, 1]);
    const [wildcard] = targetsOf(declared(['*.example.com']), { hosts: [], entrypoints }, new Set(), []);
    expect(wildcard!.impossible).toContain('dns-01');
  });
});

describe('challenges of processes that share a store', () => {
  const challenges: ChallengesPart = { http: [{ host: 'a.test', token: 't', answer: 't.k' }], alpn: [] };

  async function breathe(): Promise<void> {
    for (let i = 0; i < 30; i++) await new Promise((resolve) => setImmediate(resolve));
  }

  it('are shown by all of them before the CA is told, and by nobody afterwards', async () => {
    const clock = new HandClock();
    const store = new MemoryStore();
    const shown: Record<string, ChallengesPart> = {};
    const nodes = ['one', 'two', 'three'].map((holder) => {
      const publish = async (part: ChallengesPart): Promise<void> => {
        shown[holder] = part;
      };
      return new SharedChallenges({ store, clock, log: silentLog, holder, publish });
    });
    for (const node of nodes) node.start();
    for (let i = 0; i < 12; i++) {
      clock.advance(1000);
      await breathe();
    }
    const [leader] = nodes;
    leader!.leads(7);
    let told = false;
    const publishing = leader!.publish(challenges).then(() => {
      told = true;
    });
    await breathe();
    expect(told).toBe(false);
    for (let i = 0; i < 20 && !told; i++) {
      clock.advance(200);
      await breathe();
    }
    await publishing;
    expect(shown).toEqual({ one: challenges, two: challenges, three: challenges });
    await leader!.publish(noChallenges);
    for (let i = 0; i < 3; i++) {
      clock.advance(1000);
      await breathe();
    }
    expect(shown).toEqual({ one: noChallenges, two: noChallenges, three: noChallenges });
    for (const node of nodes) await node.close();
    expect(await store.list('nodes/')).toEqual([]);
  });

  it('do not wait for a process that is gone', async () => {
    const clock = new HandClock();
    const store = new MemoryStore();
    await store.write('nodes/dead', '{"beat":1,"shows":""}\n');
    const node = new SharedChallenges({ store, clock, log: silentLog, holder: 'one', publish: async () => {} });
    node.start();
    node.leads(1);
    let told = false;
    void node.publish(challenges).then(() => {
      told = true;
    });
    for (let i = 0; i < 60 && !told; i++) {
      clock.advance(200);
      await breathe();
    }
    expect(told).toBe(true);
    for (let i = 0; i < 70; i++) {
      clock.advance(1000);
      await breathe();
    }
    told = false;
    void node.publish(challenges).then(() => {
      told = true;
    });
    await breathe();
    expect(told).toBe(true);
    await node.close();
  });
});

describe('a document of the lease’s holder', () => {
  it('is the one with the highest number, whoever writes last, and older ones are cleared away', async () => {
    const store = new MemoryStore();
    const document = new FencedDocument(store, 'journal');
    expect(await document.read()).toBeNull();
    await document.write(9, 'of nine');
    await document.write(10, 'of ten');
    await document.write(8, 'of one that was replaced');
    expect(await document.read()).toBe('of ten');
    await document.write(11, 'of eleven');
    expect(await store.list('journal.')).toEqual(['journal.0000000011']);
  });
});

describe('accounts', () => {
  it('are kept for each directory, and a damaged one is an error rather than a reason for another account', async () => {
    const store = new MemoryStore();
    const accounts = new StoredAccounts(store);
    const account = { keyPem: 'key', url: 'https://ca.test/acct/1', nextKeyPem: null, contacts: ['ops@example.org'] };
    expect(await accounts.load(le)).toBeNull();
    await accounts.save(le, account);
    expect(await accounts.load(le)).toEqual(account);
    expect(await accounts.load(`${le}/other`)).toBeNull();
    const [name] = await store.list('accounts/');
    expect(name).toMatch(/^accounts\/acme-v02\.api\.letsencrypt\.org-[0-9a-f]{8}\.json$/);
    await store.write(name!, '{');
    await expect(accounts.load(le)).rejects.toThrow(/is damaged/);
  });
});
