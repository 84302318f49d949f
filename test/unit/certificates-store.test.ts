import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { type MintedPair, mintCa } from '../../certs/make-certs.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { Metrics } from '../../src/base/metrics.ts';
import { CertificateStore } from '../../src/certificates/store.ts';
import type { DeclaredCertificate, DeclaredTls } from '../../src/config/declaration.ts';
import type { Certificate, CertificatesPart } from '../../src/model/snapshot.ts';
import { certificateOf, openssl } from './tls-kit.ts';

const ca = mintCa();
const cleanup: (() => void)[] = [];
afterEach(() => {
  for (const clean of cleanup.splice(0).reverse()) clean();
});

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'turnpike-store-'));
  cleanup.push(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

function write(directory: string, name: string, content: string | Buffer, mode = 0o600): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  chmodSync(path, mode);
  return path;
}

let line = 0;
function declared(over: Partial<DeclaredCertificate>): DeclaredCertificate {
  line++;
  return {
    certFile: null,
    keyFile: null,
    pkcs12File: null,
    passphraseFile: null,
    isDefault: false,
    origin: `config.toml:${line}`,
    place: { file: 'config.toml', line, column: 1, key: 'tls.certificate[0]' },
    ...over,
  };
}

function pairIn(directory: string, pair: MintedPair, base = 'site'): DeclaredCertificate {
  const certFile = write(directory, `${base}.pem`, pair.cert, 0o644);
  return declared({ certFile, keyFile: write(directory, `${base}.key`, pair.key) });
}

function tls(certificates: readonly DeclaredCertificate[], over: Partial<DeclaredTls> = {}): DeclaredTls {
  return { certificates, defaultName: null, internalCa: false, acme: null, ...over };
}

function newStore(): { store: CertificateStore; metrics: Metrics; parts: CertificatesPart[] } {
  const metrics = new Metrics();
  const store = new CertificateStore({ clock: systemClock, log: silentLog, metrics, quietMs: 40 });
  const parts: CertificatesPart[] = [];
  store.watch((part) => parts.push(part));
  cleanup.push(() => store.close());
  return { store, metrics, parts };
}

async function loaded(declaration: DeclaredTls) {
  const { store, ...rest } = newStore();
  const result = await store.load(declaration);
  await result.adopt();
  return { store, result, ...rest };
}

/** The sentence about the one pair. */
async function complaint(over: Partial<DeclaredCertificate>): Promise<string> {
  const { result } = await loaded(tls([declared(over)]));
  expect(result.part.certificates).toEqual([]);
  expect(result.problems.length).toBe(1);
  return `${result.problems[0]!.message} (${result.problems[0]!.accepted})`;
}

const ids = (part: CertificatesPart): string[] => part.certificates.map(({ id }) => id);

describe('a certificate of the operator', () => {
  it('is loaded with its names, validity, chain and key', async () => {
    const pair = ca.leaf({ names: ['UPPER.test', '*.W.test', '10.0.0.1'] });
    const directory = newDirectory();
    const chained = { ...pair, cert: pair.cert + ca.cert };
    const { result } = await loaded(tls([pairIn(directory, chained)]));
    expect(result.problems).toEqual([]);
    expect(result.warnings).toEqual([]);
    const [certificate] = result.part.certificates;
    expect(certificate).toMatchObject({ source: 'static', names: ['upper.test', '*.w.test', '10.0.0.1'] });
    expect(certificate!.id).toBe(certificateOf(pair).id);
    expect(certificate!.chain).toBe(pair.cert + ca.cert);
  });

  it('may have an encrypted key with its passphrase in a file', async () => {
    const directory = newDirectory();
    const pair = ca.leaf({ names: ['a.test'] });
    const plain = write(directory, 'plain.key', pair.key);
    const passphraseFile = write(directory, 'site.pass', 'sesam öffne dich\nsecond line\n');
    const keyFile = join(directory, 'site.key');
    await openssl(['pkcs8', '-topk8', '-in', plain, '-out', keyFile, '-passout', `file:${passphraseFile}`]);
    chmodSync(keyFile, 0o600);
    const certFile = write(directory, 'site.pem', pair.cert);
    const { result } = await loaded(tls([declared({ certFile, keyFile, passphraseFile })]));
    expect(ids(result.part)).toEqual([certificateOf(pair).id]);
    expect(result.warnings).toEqual([]);
    chmodSync(passphraseFile, 0o644);
    const open = await loaded(tls([declared({ certFile, keyFile, passphraseFile })]));
    expect(open.result.warnings[0]?.message).toMatch(/site\.pass" is open to everyone/);
    expect(open.result.part.certificates.length).toBe(1);
    expect(await complaint({ certFile, keyFile })).toMatch(/is encrypted \(passphrase_file/);
    const wrong = write(directory, 'wrong.pass', 'sesam');
    expect(await complaint({ certFile, keyFile, passphraseFile: wrong })).toMatch(/does not open with this passphrase/);
  });

  for (const rsa of [false, true]) {
    for (const legacy of [false, true]) {
      it(`may come as PKCS#12 (${rsa ? 'RSA' : 'EC'}, ${legacy ? 'old' : 'new'} algorithms)`, async () => {
        const directory = newDirectory();
        const pair = ca.leaf({ names: ['a.test'], rsa });
        const pkcs12File = join(directory, 'site.p12');
        const passphraseFile = write(directory, 'site.pass', 'secret');
        const said = await openssl([
          ...['pkcs12', '-export', ...(legacy ? ['-legacy'] : []), '-out', pkcs12File],
          ...['-in', write(directory, 'c.pem', pair.cert), '-inkey', write(directory, 'k.pem', pair.key)],
          ...['-certfile', write(directory, 'ca.pem', ca.cert), '-passout', 'pass:secret'],
        ]);
        expect(said).toBe('');
        chmodSync(pkcs12File, 0o600);
        const { result } = await loaded(tls([declared({ pkcs12File, passphraseFile })]));
        expect(result.problems).toEqual([]);
        const [certificate] = result.part.certificates;
        expect(certificate!.id).toBe(certificateOf(pair).id);
        expect(certificate!.chain).toBe(pair.cert + ca.cert);
        await serves(certificate!);
        const wrong = write(directory, 'wrong.pass', 'x');
        expect(await complaint({ pkcs12File, passphraseFile: wrong })).toMatch(/does not open with this passphrase/);
      });
    }
  }

  it('is complained about with the file and what would be right', async () => {
    const directory = newDirectory();
    const [a, b] = [ca.leaf({ names: ['a.test'] }), ca.leaf({ names: ['b.test'] })];
    const cert = write(directory, 'a.pem', a.cert);
    const key = write(directory, 'a.key', a.key);
    const chain = write(directory, 'chain.pem', ca.cert + a.cert);
    const nameless = ca.leaf({ commonName: 'only.test' });
    const with_ = (certFile: string, keyFile: string) => complaint({ certFile, keyFile });
    expect(await with_(cert, write(directory, 'b.key', b.key))).toMatch(/b\.key" is not the key of ".*a\.pem"/);
    expect(await with_(chain, key)).toMatch(/number 2 in .*the leaf first/);
    expect(await with_(write(directory, 'empty.pem', ''), key)).toMatch(/empty\.pem" is empty/);
    expect(await with_(write(directory, 'cut.pem', a.cert.slice(0, 200)), key)).toMatch(/cut\.pem" holds no cert/);
    expect(await with_(key, key)).toMatch(/a\.key" holds no certificate/);
    expect(await with_(cert, cert)).toMatch(/a\.pem" holds no private key/);
    expect(await with_(cert, join(directory, 'gone.key'))).toMatch(/gone\.key" does not exist/);
    expect(await with_(cert, directory)).toMatch(/is a directory|open to everyone/);
    const open = write(directory, 'open.key', a.key, 0o644);
    expect(await with_(cert, open)).toMatch(/open\.key" is open to everyone \(mode 0644\) \(chmod o= /);
    const namelessCert = write(directory, 'nameless.pem', nameless.cert);
    expect(await with_(namelessCert, write(directory, 'nameless.key', nameless.key))).toMatch(/names no host/);
    expect(await complaint({ pkcs12File: write(directory, 'not.p12', 'hello') })).toMatch(/is not a PKCS#12 file/);
  });

  it('is served with a warning when it has expired or its chain is mixed up', async () => {
    const directory = newDirectory();
    const old = pairIn(directory, ca.leaf({ names: ['old.test'], days: -1 }), 'old');
    const pair = ca.leaf({ names: ['a.test'] });
    const mixed = pairIn(directory, { ...pair, cert: pair.cert + mintCa('Other').cert }, 'mixed');
    const { result } = await loaded(tls([old, mixed]));
    expect(result.problems).toEqual([]);
    expect(result.part.certificates.length).toBe(2);
    expect(result.warnings.map(({ message }) => message)).toEqual([
      expect.stringMatching(/old\.pem" expired/),
      expect.stringMatching(/certificate 2 in ".*mixed\.pem" is not the issuer of certificate 1/),
    ]);
  });
});

async function serves({ chain, key }: Certificate): Promise<void> {
  const server = createServer({ cert: chain, key });
  server.listen(0);
  await once(server, 'listening');
  server.close();
}

describe('the default certificate', () => {
  const directory = newDirectoryLater();
  it('is the one that is marked, or the one of the named host', async () => {
    const pairs = [ca.leaf({ names: ['a.test'] }), ca.leaf({ names: ['*.w.test'] })];
    const [a, w] = pairs.map((pair, i) => pairIn(directory(), pair, String(i)));
    const wId = certificateOf(pairs[1]!).id;
    expect((await loaded(tls([a!, { ...w!, isDefault: true }]))).result.part.defaultId).toBe(wId);
    expect((await loaded(tls([a!, w!], { defaultName: 'q.w.test' }))).result.part.defaultId).toBe(wId);
    const { result } = await loaded(tls([a!], { defaultName: 'x.test' }));
    expect(result.problems).toMatchObject([{ file: 'config.toml', key: 'tls.default_certificate' }]);
  });

  it('may be a leaf of the internal CA, which is then part of the snapshot', async () => {
    const { store } = newStore();
    const leaf: Certificate = { ...certificateOf(ca.leaf({ names: ['a.test'] })), source: 'internal' };
    const declaration = tls([], { defaultName: 'a.test', internalCa: true });
    const { part, problems } = await store.load(declaration, { signLeaf: async () => leaf });
    expect(problems).toEqual([]);
    expect(part).toEqual({ certificates: [leaf], defaultId: leaf.id, internalCa: true, pending: [] });
  });

  it('may come from a CA, and is waited for while it is being ordered', async () => {
    const { store } = newStore();
    const acquired: Certificate = { ...certificateOf(ca.leaf({ names: ['a.test'] })), source: 'acme' };
    const declaration = tls([], { defaultName: 'a.test' });
    const none = await store.load(declaration, { acquire: () => ({ certificates: [], pending: ['a.test'] }) });
    expect(none).toMatchObject({ problems: [], part: { defaultId: null, pending: ['a.test'] } });
    const there = await store.load(declaration, { acquire: () => ({ certificates: [acquired], pending: [] }) });
    expect(there).toMatchObject({ problems: [], part: { certificates: [acquired], defaultId: acquired.id } });
  });

  it('is asked of CAs with what files give, and anew when told to look', async () => {
    const pair = pairIn(newDirectory(), ca.leaf({ names: ['own.test'] }), 'own');
    const { store } = newStore();
    let pending = ['a.test'];
    const own: string[] = [];
    const parts: string[][] = [];
    store.watch((part) => parts.push([...part.pending]));
    const acquire = (certificates: readonly Certificate[]) => {
      own.push(...certificates.flatMap(({ names }) => names));
      return { certificates: [], pending };
    };
    await (await store.load(tls([pair]), { acquire })).adopt();
    pending = [];
    await store.look();
    await store.look();
    expect(parts).toEqual([[]]);
    expect(new Set(own)).toEqual(new Set(['own.test']));
    store.close();
  });
});

function newDirectoryLater(): () => string {
  let directory: string | null = null;
  return () => {
    directory ??= newDirectory();
    return directory;
  };
}

describe('files that change', () => {
  it('are noticed when they are written in place, renamed over, or a symlink on their path is swapped', async () => {
    const root = newDirectory();
    const pairs = Array.from({ length: 4 }, () => ca.leaf({ names: ['a.test'] }));
    // As a mounted ConfigMap has it: site.pem → ..data/site.pem, ..data → v1.
    const versions = pairs.slice(0, 2).map((pair, i) => {
      const directory = join(root, `v${i}`);
      mkdirSync(directory);
      pairIn(directory, pair);
      return directory;
    });
    symlinkSync('v0', join(root, '..data'));
    for (const name of ['site.pem', 'site.key']) symlinkSync(join('..data', name), join(root, name));
    const declaration = declared({ certFile: join(root, 'site.pem'), keyFile: join(root, 'site.key') });
    const { parts, result } = await loaded(tls([declaration]));
    const idOf = (i: number) => certificateOf(pairs[i]!).id;
    const latest = () => ids(parts.at(-1) ?? result.part);
    expect(latest()).toEqual([idOf(0)]);
    symlinkSync('v1', join(root, '..new'));
    renameSync(join(root, '..new'), join(root, '..data'));
    await expect.poll(latest, { timeout: 5000 }).toEqual([idOf(1)]);
    pairIn(versions[1]!, pairs[2]!);
    await expect.poll(latest, { timeout: 5000 }).toEqual([idOf(2)]);
    pairIn(root, pairs[3]!, 'incoming');
    renameSync(join(root, 'incoming.pem'), join(root, 'site.pem'));
    renameSync(join(root, 'incoming.key'), join(root, 'site.key'));
    await expect.poll(latest, { timeout: 5000 }).toEqual([idOf(3)]);
  });

  // nginx/njs-acme#52, acmesh-official/acme.sh#292: a key and a certificate that do not match, a file cut short.
  it('never cost the pair in memory while they are broken, and no other pair is affected', async () => {
    const directory = newDirectory();
    const [old, next, other, otherNext] = Array.from({ length: 4 }, () => ca.leaf({ names: ['a.test'] }));
    const site = pairIn(directory, old!);
    const { store, parts, metrics } = await loaded(tls([site, pairIn(directory, other!, 'other')]));
    const oldId = certificateOf(old!).id;
    for (const [name, content, sentence] of [
      ['site.pem', next!.cert, /is not the key of/],
      ['site.pem', '', /is empty/],
      ['site.pem', next!.cert.slice(0, 300), /holds no certificate/],
    ] as const) {
      write(directory, name, content);
      await expect.poll(() => store.result.warnings[0]?.message, { timeout: 5000 }).toMatch(sentence);
      expect(store.result.warnings[0]).toMatchObject({ file: 'config.toml', key: 'tls.certificate[0]' });
      expect(store.result.warnings[0]?.message).toMatch(/the certificate in memory stays in use/);
      expect(ids(store.result.part)).toContain(oldId);
    }
    expect(parts).toEqual([]);
    const failures = metrics.counter('certificate_load_failures_total', '', ['origin']);
    expect(failures.cell(site.origin).value).toBeGreaterThanOrEqual(3);
    pairIn(directory, otherNext!, 'other');
    await expect.poll(() => parts.length, { timeout: 5000 }).toBeGreaterThan(0);
    expect(ids(parts.at(-1)!)).toEqual([oldId, certificateOf(otherNext!).id]);
    pairIn(directory, next!);
    await expect
      .poll(() => ids(store.result.part), { timeout: 5000 })
      .toEqual([certificateOf(next!).id, certificateOf(otherNext!).id]);
    expect(store.result.warnings).toEqual([]);
  });

  it('keep their pair over a reload that finds them broken, and over one that is refused', async () => {
    const directory = newDirectory();
    const pair = ca.leaf({ names: ['a.test'] });
    const site = pairIn(directory, pair);
    const { store } = await loaded(tls([site]));
    await store.load(tls([]));
    write(directory, 'site.key', '');
    const again = await store.load(tls([site]));
    expect(again.problems).toEqual([]);
    expect(again.warnings[0]?.message).toMatch(/site\.key" is empty; the certificate in memory stays in use/);
    expect(ids(again.part)).toEqual([certificateOf(pair).id]);
  });

  it('are not looked at any more once the configuration does not name them', async () => {
    const directory = newDirectory();
    const site = pairIn(directory, ca.leaf({ names: ['a.test'] }));
    const other = pairIn(directory, ca.leaf({ names: ['b.test'] }), 'other');
    const { store, parts } = await loaded(tls([site, other]));
    await (await store.load(tls([other]))).adopt();
    pairIn(directory, ca.leaf({ names: ['a.test'] }));
    const next = ca.leaf({ names: ['b.test'] });
    pairIn(directory, next, 'other');
    await expect
      .poll(() => ids(parts.at(-1) ?? store.result.part), { timeout: 5000 })
      .toEqual([certificateOf(next).id]);
    expect(store.result.part.certificates.length).toBe(1);
  });
});
