import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { mintCa } from '../../certs/make-certs.ts';
import type { Certificate } from '../../src/model/snapshot.ts';
import { ca, certificateOf, Edge, echo, mint, openssl, readAll, type Serving, secured, shownTo } from './tls-kit.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-tls-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const open: Edge[] = [];
afterEach(async () => {
  for (const edge of open.splice(0)) await edge.close();
});

async function edgeFor(...args: Parameters<typeof Edge.open>): Promise<Edge> {
  const edge = await Edge.open(...args);
  open.push(edge);
  return edge;
}

function file(name: string, content: string): string {
  const path = join(directory, name);
  writeFileSync(path, content, { mode: 0o600 });
  return path;
}

/** What `openssl s_client` says; -4 and a Q so that it ends by itself. */
function sClient(edge: Edge, ...args: readonly string[]): Promise<string> {
  return openssl(
    ['s_client', '-connect', `127.0.0.1:${edge.port}`, '-CAfile', file('ca.pem', ca.cert), ...args],
    'Q\n',
  );
}

async function failure(promise: Promise<TLSSocket>): Promise<string> {
  try {
    (await promise).destroy();
    return 'connected';
  } catch (error) {
    return String((error as { code?: string }).code);
  }
}

describe('the certificate that a client is shown', () => {
  const wild = mint('wild.test', '*.wild.test');
  const sub = mint('sub.wild.test', '*.sub.wild.test');
  const api = mint('api.wild.test');
  const upper = certificateOf(ca.leaf({ names: ['UPPER.test'] }));
  const hosts = ['*.wild.test', 'wild.test', '*.sub.wild.test', 'upper.test'].map((each) => secured(each));
  const serving: Serving = { hosts, certificates: [wild, sub, api, upper], defaultId: wild.id };
  const table: readonly (readonly [string | null, Certificate])[] = [
    ['API.wild.test', api],
    ['q.sub.wild.test', sub],
    ['sub.wild.test', sub],
    ['a.b.wild.test', wild],
    ['upper.test', upper],
    ['Upper.TEST', upper],
    ['wild.test.', wild],
    [null, wild],
  ];

  it('is the one for the name that it sent, upper case and trailing dot included', async () => {
    const edge = await edgeFor(serving);
    for (const [name, expected] of table) {
      const socket = await edge.connect(name);
      expect(shownTo(socket), String(name)).toBe(expected.id);
      expect(await echo(socket)).toBe('hello');
      const { facts } = edge.secure.at(-1)!;
      expect(facts.certificateId).toBe(expected.id);
      expect(facts.certificateNames).toEqual(expected.names);
      expect(facts.serverName).toBe(name === null ? null : name.toLowerCase().replace(/\.$/, ''));
      socket.destroy();
    }
  });

  it('verifies with openssl against the CA', async () => {
    const edge = await edgeFor(serving);
    const said = await sClient(edge, '-servername', 'API.WILD.TEST', '-verify_hostname', 'api.wild.test');
    expect(said).toMatch(/Verify return code: 0 \(ok\)/);
    expect(said).toMatch(/TLSv1\.3/);
  });

  it('is looked up by the sniffed name when openssl resumes TLS 1.2, where node:tls knows none', async () => {
    const edge = await edgeFor(serving);
    const session = join(directory, 'wild.session');
    const base = ['-tls1_2', '-servername', 'api.wild.test'];
    expect(await sClient(edge, ...base, '-sess_out', session)).toMatch(/^New,/m);
    expect(await sClient(edge, ...base, '-sess_in', session)).toMatch(/^Reused,/m);
    expect(edge.secure.map(({ facts }) => facts.serverName)).toEqual(['api.wild.test', 'api.wild.test']);
    expect(edge.secure.map(({ facts }) => facts.certificateId)).toEqual([api.id, api.id]);
  });
});

describe('a client that is refused', () => {
  const a = mint('a.test');
  const serving: Serving = {
    hosts: [secured('a.test'), secured('n.test', { tls: 'never' })],
    certificates: [a, mint('n.test')],
  };

  it('hears unrecognized_name for an unknown host and for one that is never served over TLS', async () => {
    const edge = await edgeFor(serving);
    for (const name of ['x.test', 'n.test', 'N.Test.', 'a.test.evil.test', 'x'.repeat(240)]) {
      const code = await failure(edge.connect(name));
      expect(code, name).toBe('ERR_SSL_TLSV1_UNRECOGNIZED_NAME');
    }
    expect(await sClient(edge, '-servername', 'x.test')).toMatch(/alert number 112/);
    expect(await sClient(edge, '-servername', 'n.test', '-tls1_2')).toMatch(/alert number 112/);
    expect(edge.refused.slice(0, 3)).toEqual(['unknown-name', 'never-host', 'never-host']);
    expect(edge.secure).toEqual([]);
  });

  it('hears missing_extension without a name, when there is no default certificate', async () => {
    const edge = await edgeFor(serving);
    expect(await sClient(edge, '-noservername')).toMatch(/alert number 109/);
    expect(edge.refused).toEqual(['no-name']);
  });

  it('hears protocol_version when it speaks TLS 1.0 or 1.1 only, known host or not', async () => {
    const edge = await edgeFor(serving);
    for (const version of ['-tls1', '-tls1_1']) {
      for (const name of ['a.test', 'x.test']) {
        const said = await sClient(edge, version, '-servername', name, '-cipher', 'DEFAULT:@SECLEVEL=0');
        expect(said, `${version} ${name}`).toMatch(/alert number 70/);
      }
    }
    expect(edge.refused).toEqual(['old-version', 'old-version', 'old-version', 'old-version']);
  });

  it('hears protocol_version from a host that wants TLS 1.3', async () => {
    const edge = await edgeFor({ ...serving, hosts: [secured('a.test', { minVersion: '1.3' })] });
    expect(await failure(edge.connect('a.test', { maxVersion: 'TLSv1.2' }))).toBe(
      'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION',
    );
    const socket = await edge.connect('a.test');
    expect(socket.getProtocol()).toBe('TLSv1.3');
    socket.destroy();
  });

  it('hears no_application_protocol when it offers nothing that is spoken here', async () => {
    const edge = await edgeFor(serving);
    const options: ConnectionOptions = { ALPNProtocols: ['spdy/3', 'http/1.0'] };
    expect(await failure(edge.connect('a.test', options))).toBe('ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL');
    expect(await sClient(edge, '-servername', 'a.test', '-alpn', 'foo')).toMatch(/alert number 120/);
  });

  it('reads a sentence when it speaks plaintext HTTP, and an alert when it speaks anything else', async () => {
    const edge = await edgeFor(serving);
    const http = await edge.raw();
    http.write('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n');
    const answer = (await readAll(http)).toString();
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    const [head, body] = answer.split('\r\n\r\n');
    expect(head).toContain(`Content-Length: ${body!.length}\r\n`);
    const odd = await edge.raw();
    odd.write('\0\0\0');
    expect((await readAll(odd)).toString('hex')).toBe('1503030002020a');
    expect(edge.refused).toEqual(['not-tls', 'not-tls']);
  });

  it('gets the alert of RFC 8446 for a malformed hello, and the alert is not lost to a reset', async () => {
    const edge = await edgeFor(serving);
    const socket = await edge.raw();
    socket.write(Buffer.concat([Buffer.of(22, 3, 1, 0, 4, 1, 0, 0, 0), Buffer.alloc(60_000)]));
    expect((await readAll(socket)).toString('hex')).toBe('15030300020232');
    expect(edge.refused).toEqual(['malformed']);
  });

  it('is closed when it is silent, sends half a hello or drips one', async () => {
    const edge = await edgeFor(serving);
    edge.timeoutMs = 300;
    const silent = await edge.raw();
    const half = await edge.raw();
    half.write(Buffer.of(22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3));
    const dripping = await edge.raw();
    const drip = setInterval(() => dripping.write(Buffer.of(22)), 20);
    dripping.write(Buffer.of(22, 3, 1, 2, 0, 1, 0, 1, 0xfc));
    await Promise.all([silent, half, dripping].map((socket) => readAll(socket)));
    clearInterval(drip);
    expect(edge.refused).toEqual(['timeout', 'timeout', 'timeout']);
    await expect.poll(() => edge.connections).toBe(0);
  });

  it('is closed when it stops in the middle of the handshake proper', async () => {
    const edge = await edgeFor(serving);
    edge.timeoutMs = 300;
    const hello = await firstFlight(edge, 'a.test');
    const socket = await edge.raw();
    socket.write(hello);
    const answer = await readAll(socket);
    expect(answer[0]).toBe(22);
    expect(edge.refused.at(-1)).toBe('timeout');
    await expect.poll(() => edge.connections).toBe(0);
  });

  it('leaves no trace when it goes away by itself', async () => {
    const edge = await edgeFor(serving);
    const hello = await firstFlight(edge, 'a.test');
    for (const bytes of [Buffer.alloc(0), hello.subarray(0, 40), hello]) {
      const ended = await edge.raw();
      ended.end(bytes);
      await readAll(ended);
      const reset = await edge.raw();
      reset.write(bytes);
      reset.resetAndDestroy();
    }
    await expect.poll(() => edge.connections).toBe(0);
    expect(edge.secure).toEqual([]);
  });
});

/** The ClientHello of node:tls, taken from a connection that goes nowhere. */
async function firstFlight(edge: Edge, name: string): Promise<Buffer> {
  const { connect: connectTls } = await import('node:tls');
  const { createServer } = await import('node:net');
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connectTls({ port: (server.address() as { port: number }).port, servername: name });
  client.on('error', () => {});
  const [socket] = await once(server, 'connection');
  const [hello] = (await once(socket, 'data')) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  expect(edge.port).toBeGreaterThan(0);
  return hello;
}

describe('bytes on the way', () => {
  it('may come one at a time and in records of any size', async () => {
    const edge = await edgeFor({ hosts: [secured('a.test')], certificates: [mint('a.test')] });
    const hello = await firstFlight(edge, 'a.test');
    const message = hello.subarray(5);
    for (const size of [1, 7, 100]) {
      const socket = await edge.raw();
      socket.setNoDelay(true);
      for (let at = 0; at < message.length; at += size) {
        const piece = message.subarray(at, at + size);
        socket.write(Buffer.concat([Buffer.of(22, 3, 1, 0, piece.length), piece]));
      }
      const [answer] = (await once(socket, 'data')) as [Buffer];
      // A ServerHello: the TLS engine understood what was handed on.
      expect([answer[0], answer[5]], `records of ${size}`).toEqual([22, 2]);
      socket.destroy();
    }
    const bytewise = await edge.raw();
    bytewise.setNoDelay(true);
    for (let at = 0; at < 100; at++) {
      bytewise.write(hello.subarray(at, at + 1));
      await delay(1);
    }
    bytewise.write(hello.subarray(100));
    const [answer] = (await once(bytewise, 'data')) as [Buffer];
    expect([answer[0], answer[5]]).toEqual([22, 2]);
    bytewise.destroy();
  });
});

describe('the protocol after the handshake', () => {
  it('is what ALPN agreed on, and HTTP/1.1 for a client without ALPN', async () => {
    const edge = await edgeFor({ hosts: [secured('a.test')], certificates: [mint('a.test')] });
    for (const ALPNProtocols of [['h2', 'http/1.1'], ['http/1.1'], undefined]) {
      const socket = await edge.connect('a.test', ALPNProtocols === undefined ? {} : { ALPNProtocols });
      expect(await echo(socket)).toBe('hello');
      socket.destroy();
    }
    expect(edge.secure.map(({ alpn }) => alpn)).toEqual(['h2', 'http/1.1', 'http/1.1']);
  });
});

describe('client certificates', () => {
  const clientCa1 = mintCa('Client CA 1');
  const clientCa2 = mintCa('Client CA 2');
  const client1 = clientCa1.leaf({ commonName: 'client one', clientAuth: true });
  const stranger = mintCa('Nobody').leaf({ commonName: 'stranger', clientAuth: true });
  const certificates = [mint('one.test', 'two.test', 'ask.test', 'open.test')];
  const hosts = [
    secured('one.test', { clientAuth: { mode: 'require', ca: clientCa1.cert } }),
    secured('two.test', { clientAuth: { mode: 'require', ca: clientCa2.cert } }),
    secured('ask.test', { clientAuth: { mode: 'request', ca: clientCa1.cert } }),
    secured('open.test'),
  ];

  it('are asked for by the host that wants them, and by no other', async () => {
    const edge = await edgeFor({ hosts, certificates });
    const good = await edge.connect('one.test', { cert: client1.cert, key: client1.key });
    expect(await echo(good)).toBe('hello');
    good.destroy();
    expect(edge.secure.at(-1)?.facts.clientSubject).toBe('CN=client one');
    const plain = await edge.connect('open.test', { cert: client1.cert, key: client1.key });
    expect(await echo(plain)).toBe('hello');
    plain.destroy();
    expect(edge.secure.at(-1)?.facts.clientSubject).toBeNull();
    expect(edge.secure.map(({ facts }) => facts.profileId)).toEqual([
      expect.stringMatching(/^1\.2\/require:/),
      'default',
    ]);
  });

  it('are required: none, one of another CA and a self-made one get nowhere, on 1.2 and 1.3', async () => {
    const edge = await edgeFor({ hosts, certificates });
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      for (const pair of [null, stranger, client1]) {
        const name = pair === client1 ? 'two.test' : 'one.test';
        const options = pair === null ? { maxVersion } : { maxVersion, cert: pair.cert, key: pair.key };
        // TLS 1.3 clients are connected before the server has judged them.
        const outcome = await edge.connect(name, options).then(
          async (socket) => {
            socket.write('x');
            return String((await readAll(socket).catch(() => Buffer.alloc(0))).length);
          },
          () => '0',
        );
        expect(outcome).toBe('0');
      }
    }
    expect(edge.secure).toEqual([]);
    await expect.poll(() => edge.refused.length).toBe(6);
  });

  it('may be requested only: a stranger is let in without a name', async () => {
    const edge = await edgeFor({ hosts, certificates });
    for (const [pair, subject] of [
      [null, null],
      [stranger, null],
      [client1, 'CN=client one'],
    ] as const) {
      const socket = await edge.connect('ask.test', pair === null ? {} : { cert: pair.cert, key: pair.key });
      expect(await echo(socket)).toBe('hello');
      expect(edge.secure.at(-1)?.facts.clientSubject).toBe(subject);
      socket.destroy();
    }
  });

  for (const version of ['-tls1_2', '-tls1_3']) {
    it(`do not carry over to another client CA by session resumption (${version})`, async () => {
      const edge = await edgeFor({ hosts, certificates });
      const cert = file('client1.pem', client1.cert);
      const key = file('client1.key', client1.key);
      const session = join(directory, `cross${version}.session`);
      const withClient = ['-cert', cert, '-key', key, version];
      await sClientHolding(edge, ['-servername', 'one.test', '-sess_out', session, ...withClient]);
      expect(readFileSync(session, 'utf8')).toMatch(/BEGIN SSL SESSION/);
      // The same host resumes, so the ticket is good.
      const again = await sClientHolding(edge, ['-servername', 'one.test', '-sess_in', session, ...withClient]);
      expect(again).toMatch(/^Reused,/m);
      expect(edge.secure.length).toBe(2);
      const across = await sClientHolding(edge, ['-servername', 'two.test', '-sess_in', session, version]);
      expect(across).not.toMatch(/^Reused,/m);
      expect(edge.secure.length).toBe(2);
      const toOpen = await sClientHolding(edge, ['-servername', 'open.test', '-sess_in', session, version]);
      expect(toOpen).not.toMatch(/^Reused,/m);
      expect(edge.secure.at(-1)?.facts.clientSubject).toBeNull();
    });
  }

  it('are never taken against a CA bundle that holds none', () => {
    const edge = Edge.open({
      hosts: [secured('one.test', { clientAuth: { mode: 'require', ca: '' } })],
      certificates,
    });
    return expect(edge).rejects.toThrow(/client CA/);
  });
});

/** Sends a line and waits for it to come back, so that TLS 1.3 tickets have arrived too. */
async function sClientHolding(edge: Edge, args: readonly string[]): Promise<string> {
  const base = ['s_client', '-connect', `127.0.0.1:${edge.port}`, '-CAfile', file('ca.pem', ca.cert), ...args];
  return openssl(base, 'there and back\n', /there and back/);
}

describe('renegotiation', () => {
  it('is refused: it would cost the server more than the client', async () => {
    const edge = await edgeFor({ hosts: [secured('a.test')], certificates: [mint('a.test')] });
    const base = ['s_client', '-connect', `127.0.0.1:${edge.port}`, '-servername', 'a.test', '-tls1_2'];
    const said = await openssl(base, 'there and back\n', /there and back/, 'R\n');
    expect(said).toMatch(/RENEGOTIATING/);
    expect(said).toMatch(/no renegotiation/);
  });
});

describe('session tickets', () => {
  it('made by one worker are good at another one with the same key, and worthless under a new key', async () => {
    const serving: Serving = { hosts: [secured('a.test')], certificates: [mint('a.test')] };
    const first = await edgeFor(serving);
    const second = await edgeFor(serving);
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      const socket = await first.connect('a.test', { maxVersion });
      const session = new Promise<Buffer>((resolve) => socket.once('session', resolve));
      await echo(socket);
      const ticket = maxVersion === 'TLSv1.2' ? socket.getSession()! : await session;
      socket.destroy();
      const resumed = await second.connect('a.test', { maxVersion, session: ticket });
      expect(await echo(resumed)).toBe('hello');
      expect(resumed.isSessionReused(), maxVersion).toBe(true);
      expect(second.secure.at(-1)?.facts.serverName).toBe('a.test');
      resumed.destroy();
      second.publish({ ...serving, ticketKey: Buffer.alloc(48, 9) });
      const fresh = await second.connect('a.test', { maxVersion, session: ticket });
      expect(await echo(fresh)).toBe('hello');
      expect(fresh.isSessionReused()).toBe(false);
      fresh.destroy();
      second.publish(serving);
    }
  });

  it('of one certificate do not resume under another one (RFC 6066 §3)', async () => {
    const certificates = [mint('a.test'), mint('b.test')];
    const edge = await edgeFor({ hosts: [secured('a.test'), secured('b.test')], certificates });
    // node:tls would not even offer the session to another name.
    for (const version of ['-tls1_2', '-tls1_3']) {
      const session = join(directory, `other${version}.session`);
      await sClientHolding(edge, ['-servername', 'a.test', '-sess_out', session, version]);
      const again = await sClientHolding(edge, ['-servername', 'a.test', '-sess_in', session, version]);
      expect(again).toMatch(/^Reused,/m);
      const other = await sClientHolding(edge, ['-servername', 'b.test', '-sess_in', session, version]);
      expect(other).toMatch(/^New,/m);
      expect(other).toMatch(/subject=CN = b\.test/);
    }
  });
});

describe('a new snapshot', () => {
  it('gives the next handshake its certificate and leaves connections alone', async () => {
    const [old, next] = [mint('a.test'), mint('a.test')];
    const hosts = [secured('a.test')];
    const edge = await edgeFor({ hosts, certificates: [old] });
    const living = await edge.connect('a.test');
    expect(await echo(living, 'one')).toBe('one');
    edge.publish({ hosts, certificates: [next] });
    const fresh = await edge.connect('a.test');
    expect(shownTo(fresh)).toBe(next.id);
    expect(await echo(living, 'two')).toBe('two');
    edge.publish({ hosts: [], certificates: [] });
    expect(await failure(edge.connect('a.test'))).toBe('ERR_SSL_TLSV1_UNRECOGNIZED_NAME');
    expect(await echo(living, 'three')).toBe('three');
    living.destroy();
    fresh.destroy();
  });

  it('is refused when its ticket key is not one', () => {
    return expect(Edge.open({ ticketKey: Buffer.alloc(16) })).rejects.toThrow(/48 bytes/);
  });
});

describe('leaves of the internal CA', () => {
  const hosts = [secured('a.test'), secured('*.w.test'), secured('127.0.0.1')];

  it('are asked for once by any number of handshakes, and served to all of them', async () => {
    const leaf = mint('a.test');
    const asked: string[] = [];
    const edge = await edgeFor({ hosts, internalCa: true }, async (name) => {
      asked.push(name);
      await delay(50);
      return { ...leaf, source: 'internal' };
    });
    const sockets = await Promise.all(Array.from({ length: 5 }, () => edge.connect('a.test')));
    for (const socket of sockets) {
      expect(shownTo(socket)).toBe(leaf.id);
      expect(await echo(socket)).toBe('hello');
      socket.destroy();
    }
    expect(asked).toEqual(['a.test']);
  });

  it('are asked for by pattern and by local address, and never for other names', async () => {
    const asked: string[] = [];
    const edge = await edgeFor({ hosts, internalCa: true }, async (name) => {
      asked.push(name);
      return mint(name);
    });
    for (const name of ['x.w.test', 'y.w.test', null]) (await edge.connect(name)).destroy();
    for (let i = 0; i < 20; i++) await failure(edge.connect(`random-${i}.test`));
    expect(asked).toEqual(['*.w.test', '127.0.0.1']);
  });

  it('that cannot be had are an internal_error for the client', async () => {
    const edge = await edgeFor({ hosts, internalCa: true }, () => Promise.reject(new Error('no')));
    expect(await failure(edge.connect('a.test'))).toBe('ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR');
    expect(edge.refused).toEqual(['no-certificate']);
  });

  it('that come too late find a client that was told so', async () => {
    const edge = await edgeFor({ hosts, internalCa: true }, async () => {
      await delay(600);
      return mint('a.test');
    });
    edge.timeoutMs = 150;
    expect(await failure(edge.connect('a.test'))).toBe('ECONNRESET');
    expect(edge.refused).toEqual(['timeout']);
    await delay(700);
    expect(edge.secure).toEqual([]);
  });
});
