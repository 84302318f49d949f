// Which certificate a client gets, and what happens when certificate files change under the running process.
import { copyFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConnectionOptions, connect } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Pair, TestCa } from '../support/certificates.ts';
import { freePorts } from '../support/ports.ts';
import { closeRawClients, RawClient } from '../support/raw-client.ts';
import { Turnpike } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

const ca = new TestCa('Certificate tests');
const wild = ca.leaf(['wild.test', '*.wild.test']);
const sub = ca.leaf(['sub.wild.test', '*.sub.wild.test']);
const api = ca.leaf(['api.wild.test']);
const upper = ca.leaf(['UPPER.test']);
const directory = mkdtempSync(join(tmpdir(), 'turnpike-pairs-'));
const watched = { certFile: join(directory, 'cert.pem'), keyFile: join(directory, 'key.pem') };
let p: Turnpike;
let secure = 0;
let web = 0;

const hosts = [
  '*.wild.test',
  'wild.test',
  'api.wild.test',
  'sub.wild.test',
  '*.sub.wild.test',
  'upper.test',
  'watched.test',
];

function configWith(more = ''): string {
  const pair = ({ certFile, keyFile }: { certFile: string; keyFile: string }, extra = ''): string =>
    `[[tls.certificate]]\ncert_file = "${certFile}"\nkey_file = "${keyFile}"\n${extra}`;
  return `
workers = 2
[entrypoints.web]
address = "127.0.0.1:${web}"
protocol = "http"
[entrypoints.websecure]
address = "127.0.0.1:${secure}"
protocol = "https"
[tls]
redirect = false
${pair(wild, 'default = true')}
${pair(sub)}
${pair(api)}
${pair(upper)}
${pair(watched)}
${hosts.map((host) => `[external_routes."${host}"]\nrespond = { status = 200, body = "ok" }\n`).join('')}
${more}
[log]
format = "json"
`;
}

function install({ certFile, keyFile }: Pair): void {
  copyFileSync(certFile, watched.certFile);
  copyFileSync(keyFile, watched.keyFile);
}

beforeAll(async () => {
  [secure, web] = (await freePorts(2)) as [number, number];
  install(ca.leaf(['watched.test']));
  p = await Turnpike.start({ config: configWith() });
});

afterEach(() => {
  closeRawClients();
  expect(p.bugs).toEqual([]);
});

afterAll(async () => {
  await p?.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** Fingerprint of the certificate a client with this SNI is shown, or the reason why there is none. */
function shown(sni: string, options: ConnectionOptions = {}): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({
      port: secure,
      host: '127.0.0.1',
      servername: sni,
      rejectUnauthorized: false,
      ...options,
    });
    socket.once('secureConnect', () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    socket.once('close', () => resolve('closed'));
  });
}

describe('the certificate for a name', () => {
  // traefik/traefik#7001, #4081, #4132, projectcontour/contour#2842, MDA2AV/ioxide#207: the broader wildcard beat the
  // exact name, or upper case missed.
  it.each([
    ['API.wild.test', api],
    ['api.wild.test', api],
    ['q.wild.test', wild],
    ['q.sub.wild.test', sub],
    ['sub.wild.test', sub],
    ['wild.test', wild],
    ['wild.test.', wild],
    ['upper.test', upper],
    ['UPPER.TEST', upper],
  ])('%s is the most specific one', async (sni, pair) => {
    for (let i = 0; i < 4; i++) expect(await shown(sni)).toBe(pair.fingerprint);
  });

  it('without SNI is the default', async () => {
    expect(await shown('')).toBe(wild.fingerprint);
  });

  it.each(['a.b.wild.test', 'nobody.test', 'x'.repeat(300)])('%s is the default one or an alert', async (sni) => {
    const outcome = await shown(sni);
    expect([wild.fingerprint, 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME', 'closed', 'ERR_SSL_TLS_ALERT_DECODE_ERROR']).toContain(
      outcome,
    );
    expect(await shown('api.wild.test')).toBe(api.fingerprint);
  });

  it('for an address as SNI is the default one or an alert', async () => {
    // RFC 6066 §3 forbids literals; a client that sends one anyway must not break anything.
    const client = await RawClient.connect({ port: secure });
    client.write(clientHello('127.0.0.1'));
    await until('an answer', () => client.received.length > 0 || client.ended);
    // A handshake record (the default certificate) or an alert record.
    if (client.received.length > 0) expect([0x15, 0x16]).toContain(client.received[0]);
  });

  it('a client limited to TLS 1.1 gets protocol_version and nothing crashes', async () => {
    const workers = await p.workerPids();
    const client = await RawClient.connect({ port: secure });
    client.write(clientHello('api.wild.test'));
    await until('an answer', () => client.received.length > 0 || client.ended);
    // Record type alert, fatal, protocol_version (70).
    expect(client.received[0]).toBe(0x15);
    expect([...client.received.subarray(5, 7)]).toEqual([2, 70]);
    expect(await p.workerPids()).toEqual(workers);
  });
});

/** A ClientHello of TLS 1.1 with one server name. */
function clientHello(name: string): Buffer {
  const host = Buffer.from(name);
  const u16 = (value: number): Buffer => Buffer.of(value >> 8, value & 255);
  const serverName = Buffer.concat([u16(host.length + 3), Buffer.of(0), u16(host.length), host]);
  const extensions = Buffer.concat([u16(0), u16(serverName.length), serverName]);
  const body = Buffer.concat([
    Buffer.of(3, 2),
    Buffer.alloc(32, 7),
    Buffer.of(0),
    u16(4),
    Buffer.of(0xc0, 0x09, 0xc0, 0x13),
    Buffer.of(1, 0),
    u16(extensions.length),
    extensions,
  ]);
  const handshake = Buffer.concat([Buffer.of(1, 0), u16(body.length), body]);
  return Buffer.concat([Buffer.of(0x16, 3, 1), u16(handshake.length), handshake]);
}

describe('a ClientHello in pieces', () => {
  it('one byte a packet, or over several records, is the same', async () => {
    const whole = clientHello('api.wild.test');
    const dripped = await RawClient.connect({ port: secure });
    for (const byte of whole) {
      dripped.write(Buffer.of(byte));
      if (byte % 16 === 0) await sleep(1);
    }
    await until('an answer', () => dripped.received.length >= 7);
    expect([...dripped.received.subarray(5, 7)]).toEqual([2, 70]);
    const message = whole.subarray(5);
    const records: Buffer[] = [];
    for (let at = 0; at < message.length; at += 20) {
      const part = message.subarray(at, at + 20);
      records.push(Buffer.of(0x16, 3, 1, 0, part.length), part);
    }
    const split = await RawClient.connect({ port: secure });
    split.write(Buffer.concat(records));
    await until('an answer', () => split.received.length >= 7);
    expect([...split.received.subarray(5, 7)]).toEqual([2, 70]);
  });
});

describe('certificate files that change', () => {
  // traefik/traefik#7001; acmesh-official/acme.sh#292, nginx/njs-acme#52: a key and a certificate that do not match.
  it('are picked up without a reload, and never in a mixture', { timeout: 40_000 }, async () => {
    const before = await shown('watched.test');
    const next = ca.leaf(['watched.test']);
    const seen = new Set<string>();
    let stop = false;
    const watching = (async () => {
      while (!stop) {
        seen.add(await shown('watched.test'));
        await sleep(50);
      }
    })();
    // First the certificate alone, for longer than any debounce: the pair does not match and must not be used.
    copyFileSync(next.certFile, watched.certFile);
    await sleep(1500);
    expect(await shown('watched.test')).toBe(before);
    copyFileSync(next.keyFile, watched.keyFile);
    await until('the new certificate', async () => (await shown('watched.test')) === next.fingerprint, {
      timeoutMs: 8000,
      everyMs: 100,
    });
    stop = true;
    await watching;
    expect([...seen].toSorted()).toEqual([before, next.fingerprint].toSorted());
  });

  it.each([
    ['cut to nothing', () => truncateSync(watched.certFile, 0)],
    ['cut in half', () => truncateSync(watched.certFile, 300)],
    ['not PEM', () => writeFileSync(watched.certFile, 'nonsense\n')],
    ['gone', () => rmSync(watched.certFile)],
  ])('into something %s keep the pair in memory, and status says so', { timeout: 30_000 }, async (_what, damage) => {
    install(ca.leaf(['watched.test']));
    await sleep(1500);
    const before = await shown('watched.test');
    damage();
    await sleep(1500);
    for (let i = 0; i < 6; i++) expect(await shown('watched.test')).toBe(before);
    const reload = await p.reload();
    expect(await shown('watched.test'), `after a reload that ended ${reload.outcome}`).toBe(before);
    const next = ca.leaf(['watched.test']);
    install(next);
    await until('the repaired certificate', async () => (await shown('watched.test')) === next.fingerprint, {
      timeoutMs: 8000,
      everyMs: 100,
    });
  });

  it('a certificate in PKCS#12 serves as well, after a reload', async () => {
    const { spawnSync } = await import('node:child_process');
    const pair = ca.leaf(['p12.test']);
    const file = join(directory, 'site.p12');
    const pass = join(directory, 'site.pass');
    writeFileSync(pass, 'secret\n', { mode: 0o600 });
    const made = spawnSync('openssl', [
      ...['pkcs12', '-export', '-in', pair.certFile, '-inkey', pair.keyFile, '-certfile', ca.file],
      ...['-out', file, '-passout', 'pass:secret'],
    ]);
    expect(made.status).toBe(0);
    const result = await p.reload(
      configWith(`
[[tls.certificate]]
pkcs12_file = "${file}"
passphrase_file = "${pass}"
[external_routes."p12.test"]
respond = { status = 200, body = "ok" }
`),
    );
    expect(result.problems).toEqual([]);
    expect(result.outcome).toBe('applied');
    expect(await shown('p12.test')).toBe(pair.fingerprint);
  });
});

describe('the internal CA', () => {
  it('signs for configured names on demand, and for nobody else', async () => {
    const [secure2, web2] = (await freePorts(2)) as [number, number];
    const internal = await Turnpike.start({
      config: `
workers = 2
[entrypoints.web]
address = "127.0.0.1:${web2}"
protocol = "http"
[entrypoints.websecure]
address = "127.0.0.1:${secure2}"
protocol = "https"
[tls.internal_ca]
enabled = true
[external_routes."home.internal"]
respond = { status = 200, body = "home" }
[external_routes."*.wild.internal"]
respond = { status = 200, body = "wild" }
[log]
format = "json"
`,
    });
    const { pem } = await internal.control.get<{ pem: string }>('/v1/tls/ca');
    const ask = async (name: string): Promise<string> => {
      const client = await RawClient.connect({ port: secure2, tls: { ca: pem, servername: name } });
      const answer = await client.ask(`GET / HTTP/1.1\r\nHost: ${name}\r\n\r\n`);
      client.destroy();
      return answer.body.toString();
    };
    // Both workers, several at once, the first time and again.
    const answers = await Promise.all(Array.from({ length: 12 }, () => ask('home.internal')));
    expect(new Set(answers)).toEqual(new Set(['home']));
    expect(await ask('x.wild.internal')).toBe('wild');
    await expect(ask('stranger.internal')).rejects.toThrow();
    await expect(ask('a.b.wild.internal')).rejects.toThrow();
    await internal.stop();
  });
});
