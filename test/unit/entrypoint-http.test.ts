import { once } from 'node:events';
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { sniffHttp } from '../../src/entrypoint/http-entrypoint.ts';
import { type App, Edge, limits, onPort } from './entrypoint-kit.ts';
import { ca, mint, secured } from './tls-kit.ts';

const open: Edge[] = [];
const sessions: ClientHttp2Session[] = [];
afterEach(async () => {
  for (const session of sessions.splice(0)) session.destroy();
  for (const edge of open.splice(0)) await edge.close();
});

function newEdge(app?: App, workers?: number): Edge {
  const edge = new Edge(app, workers);
  open.push(edge);
  return edge;
}

function http2(url: string, createConnection: () => Socket): ClientHttp2Session {
  const session = connectHttp2(url, { createConnection });
  session.on('error', () => {});
  sessions.push(session);
  return session;
}

async function fetchHttp2(session: ClientHttp2Session, path: string): Promise<string> {
  const stream = session.request({ ':path': path });
  let text = '';
  stream.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  await once(stream, 'end');
  return text;
}

const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

describe('the first bytes of a plaintext connection', () => {
  it('tell HTTP/2 from HTTP/1.1, as early as they can', () => {
    for (let length = 1; length < preface.length; length++) {
      expect(sniffHttp(Buffer.from(preface.slice(0, length)))).toBeNull();
      const other = `${preface.slice(0, length - 1)}x`;
      expect(sniffHttp(Buffer.from(other))).toBe('http1');
    }
    expect(sniffHttp(Buffer.from(`${preface}more`))).toBe('http2');
    for (const text of ['GET / HTTP/1.1\r\n', 'POST /', 'PUT', 'P/', '\x16\x03\x01']) {
      expect(sniffHttp(Buffer.from(text, 'latin1')), text).toBe('http1');
    }
  });

  it('may come one at a time: HTTP/1.1, methods with P, and HTTP/2 alike', async () => {
    const edge = newEdge();
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port)] });
    for (const method of ['GET', 'POST', 'PRI', 'PRIX', 'PROPFIND']) {
      const client = await edge.client(port);
      for (const byte of `${method} /${method} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n`) {
        client.socket.write(byte);
        await delay(1);
      }
      await client.until(new RegExp(`^HTTP/1\\.1 200 OK\r\n[\\s\\S]*/${method}$`));
    }
    const dripped = connect({ port, host: '127.0.0.1', noDelay: true });
    const write = dripped.write.bind(dripped);
    // The client's own preface, cut into bytes on the way.
    dripped.write = ((data: Uint8Array | string, ...rest: []) => {
      for (const byte of Buffer.from(data)) write(Buffer.of(byte));
      return write(Buffer.alloc(0), ...rest);
    }) as typeof dripped.write;
    const session = http2(`http://127.0.0.1:${port}`, () => dripped);
    expect(await fetchHttp2(session, '/h2')).toBe('/h2');
    expect(edge.http.seen.map(({ target }) => target)).toEqual(['/GET', '/POST', '/PRI', '/PRIX', '/PROPFIND', '/h2']);
  });

  it('that are malformed get a 400, and TLS on a plaintext port too', async () => {
    const edge = newEdge();
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port)] });
    for (const text of [
      '\x16\x03\x01\x02\x00\x01\x00\r\n\r\n',
      'PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n',
      'nonsense\r\n\r\n',
    ]) {
      const client = await edge.client(port);
      client.socket.write(Buffer.from(text, 'latin1'));
      expect(await client.untilEnd()).toMatch(/^HTTP\/1\.1 (400|505) /);
    }
    expect(edge.http.seen).toEqual([]);
    expect(edge.http.faults.length).toBe(3);
  });

  it('that do not come are not waited for longer than a head may take', async () => {
    const edge = newEdge();
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port, { limits: { ...limits, headerTimeoutMs: 200 } })] });
    const silent = await edge.client(port);
    const half = await edge.client(port);
    half.socket.write(preface.slice(0, 9));
    const left = await edge.client(port);
    left.socket.end();
    await Promise.all([silent.untilEnd(), half.untilEnd(), left.untilEnd()]);
    await expect.poll(() => edge.entrypoints.connections).toBe(0);
  });
});

describe('the facts of a connection', () => {
  it('name the entrypoint, both ends, and whether the peer is a trusted proxy', async () => {
    const edge = newEdge();
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port, { trustedProxies: ['127.0.0.2/32'] })] });
    for (const address of ['127.0.0.1', '127.0.0.2']) {
      const client = await edge.client(port, address);
      client.get('/');
      await client.until(/200 OK/);
      expect(edge.http.seen.at(-1)?.facts).toEqual({
        entrypoint: 'web',
        peerAddress: address,
        peerPort: client.socket.localPort,
        localAddress: '127.0.0.1',
        localPort: port,
        trustedPeer: address === '127.0.0.2',
        tls: null,
      });
    }
  });

  it('give an IPv4 peer of a dual-stack socket its IPv4 address', async () => {
    const edge = newEdge();
    const port = edge.lend('::');
    edge.publish({ entrypoints: [onPort(port, { host: '::', trustedCidrs: ['127.0.0.0/8'] })] });
    const client = await edge.client(port);
    client.get('/');
    await client.until(/200 OK/);
    expect(edge.http.seen[0]?.facts).toMatchObject({ peerAddress: '127.0.0.1', localAddress: '127.0.0.1' });
  });
});

describe('an HTTPS entrypoint', () => {
  it('speaks what ALPN agreed on and says in the facts who it was', async () => {
    const certificate = mint('a.test');
    const edge = newEdge();
    const port = edge.lend();
    edge.publish({
      entrypoints: [onPort(port, { name: 'secure', protocol: 'https' })],
      hosts: [secured('a.test')],
      parts: { certificates: { certificates: [certificate], defaultId: null, internalCa: false, pending: [] } },
    });
    const options = { port, host: '127.0.0.1', servername: 'A.test', ca: ca.cert };
    const session = http2('https://a.test', () => connectTls({ ...options, ALPNProtocols: ['h2'] }));
    expect(await fetchHttp2(session, '/h2')).toBe('/h2');
    const socket = connectTls({ ...options, ALPNProtocols: ['http/1.1'] });
    await once(socket, 'secureConnect');
    socket.write('GET /h1 HTTP/1.1\r\nHost: a.test\r\n\r\n');
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 200 OK/);
    socket.destroy();
    expect(edge.http.seen.map(({ target }) => target)).toEqual(['/h2', '/h1']);
    for (const { facts } of edge.http.seen) {
      expect(facts.tls).toEqual({
        serverName: 'a.test',
        certificateId: certificate.id,
        certificateNames: ['a.test'],
        profileId: 'default',
        version: 'TLSv1.3',
        clientSubject: null,
      });
    }
    const handshakes = edge.metrics.counter('tls_handshakes_total', '', ['entrypoint', 'result']);
    expect(handshakes.cell('secure', 'ok').value).toBe(2);
  });

  it('closes a client that is silent after its handshake', async () => {
    const edge = newEdge();
    const port = edge.lend();
    edge.publish({
      entrypoints: [onPort(port, { name: 'secure', protocol: 'https', limits: { ...limits, headerTimeoutMs: 200 } })],
      hosts: [secured('a.test')],
      parts: { certificates: { certificates: [mint('a.test')], defaultId: null, internalCa: false, pending: [] } },
    });
    const socket = connectTls({ port, host: '127.0.0.1', servername: 'a.test', ca: ca.cert });
    socket.resume();
    await once(socket, 'close');
    await expect.poll(() => edge.entrypoints.connections).toBe(0);
  });
});
