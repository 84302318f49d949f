import { once } from 'node:events';
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttp2, type Http2Server } from 'node:http2';
import { createServer as createHttps } from 'node:https';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTls } from 'node:tls';
import { afterEach, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import type { HealthCheck, Service } from '../../src/model/snapshot.ts';
import { probe } from '../../src/switchover/probe.ts';
import { ProxyHeaderReader, type ProxyResult } from '../../src/tcp/proxy-header.ts';
import { TestCa } from '../support/certificates.ts';
import { backend, networkService, service } from '../support/routing.ts';

const open: { close(): void }[] = [];
const sockets = new Set<Socket>();
afterEach(() => {
  for (const server of open.splice(0)) server.close();
  for (const socket of sockets) socket.destroy();
  sockets.clear();
});

async function listening(server: Server | Http2Server, host = '127.0.0.1'): Promise<string> {
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  open.push(server);
  server.listen(0, host);
  await once(server, 'listening');
  const { address, port } = server.address() as AddressInfo;
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

const check: HealthCheck = {
  type: 'http',
  path: '/healthz?full=1',
  host: '',
  intervalMs: 1000,
  timeoutMs: 500,
  healthyAfter: 1,
  unhealthyAfter: 1,
};

const ask = (address: string, over: Partial<HealthCheck> = {}, of: Partial<Service> = {}, name = 'app.test') =>
  probe(service(name, 1, [address], { health: { ...check, ...over }, ...of }), backend(address), systemClock);

const http = (handle: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> =>
  listening(createHttp(handle));

test.each([
  [200, true],
  [204, true],
  [301, true],
  [399, true],
  [404, false],
  [500, false],
])('an answer of %i is ready: %s', async (status, ok) => {
  const address = await http((_, response) => response.writeHead(status, { location: 'http://127.0.0.1:1/' }).end());
  expect(await ask(address)).toEqual({ ok, detail: `/healthz?full=1 answered ${status}` });
});

test("the path is asked for as declared, with the service's host, or the check's own", async () => {
  const seen: string[] = [];
  const address = await http((request, response) => {
    seen.push(`${request.method} ${request.url} ${request.headers.host}`);
    response.end();
  });
  await ask(address);
  await ask(address, { host: 'health.internal' });
  await ask(address, {}, {}, 'app.test/api');
  await ask(address, {}, {}, '*.wild.test');
  expect(seen).toEqual([
    'GET /healthz?full=1 app.test',
    'GET /healthz?full=1 health.internal',
    'GET /healthz?full=1 app.test',
    `GET /healthz?full=1 ${address}`,
  ]);
});

test('the status decides; a body that never ends does not matter', async () => {
  const address = await http((_, response) => response.writeHead(200).write('x'));
  expect((await ask(address)).ok).toBe(true);
});

test('a backend that accepts and says nothing is not ready within the timeout', async () => {
  const address = await listening(createServer());
  expect(await ask(address, { timeoutMs: 200 })).toEqual({ ok: false, detail: 'no answer within 200 ms' });
});

test('a proxy from the environment is not used', async () => {
  const address = await http((_, response) => response.end());
  process.env['HTTP_PROXY'] = process.env['http_proxy'] = 'http://127.0.0.1:1';
  try {
    expect((await ask(address)).ok).toBe(true);
  } finally {
    delete process.env['HTTP_PROXY'];
    delete process.env['http_proxy'];
  }
});

test('no connection is left behind', async () => {
  const address = await http((_, response) => response.end());
  await ask(address);
  await expect.poll(() => sockets.size).toBe(0);
});

test('nothing that listens is not ready', async () => {
  expect(await ask('127.0.0.1:1')).toMatchObject({ ok: false, detail: expect.stringContaining('ECONNREFUSED') });
});

test('an IPv6 backend is probed by its address', async () => {
  const address = await listening(
    createHttp((_, response) => response.end()),
    '::1',
  );
  expect((await ask(address)).ok).toBe(true);
});

test('HTTP/2 backends are asked in HTTP/2', async () => {
  const server = createHttp2((_, response) => response.writeHead(204).end());
  expect(await ask(await listening(server), {}, { protocol: 'h2c' })).toMatchObject({ ok: true });
});

test('a TLS backend is verified, by its own name when it has one', async () => {
  const ca = new TestCa('probe CA');
  const pair = ca.leaf(['backend.internal']);
  const server = createHttps({ cert: pair.cert, key: pair.key }, (_, response) => response.end());
  const address = await listening(server);
  const tls = { sni: 'backend.internal', verify: true, ca: ca.pem, cert: '', key: '' };
  const asked = (upstreamTls: Service['upstreamTls']) => ask(address, {}, { protocol: 'https', upstreamTls });
  expect(await asked(tls)).toMatchObject({ ok: true });
  expect(await asked({ ...tls, ca: '' })).toMatchObject({ ok: false });
  expect(await asked({ ...tls, sni: 'other.internal' })).toMatchObject({ ok: false });
  expect(await asked({ ...tls, ca: '', verify: false })).toMatchObject({ ok: true });
  const h2 = ask(address, {}, { protocol: 'h2', upstreamTls: tls });
  expect(await h2).toEqual({ ok: false, detail: 'the backend did not agree to HTTP/2' });
});

/** A service of tunnels, without a check of its own. */
function tcp(address: string, sendProxyProtocol: 1 | 2 | null = null, over: Partial<Service> = {}) {
  const of = networkService('db', 1, [address], over);
  return probe({ ...of, network: { ...of.network!, sendProxyProtocol } }, backend(address), systemClock);
}

test('TCP: a port that stays open is ready', async () => {
  expect(await tcp(await listening(createServer()))).toEqual({ ok: true, detail: 'accepts connections' });
});

test('TCP: a port that speaks first is ready, also when it then closes', async () => {
  expect((await tcp(await listening(createServer((socket) => socket.end('220 hello\r\n'))))).ok).toBe(true);
});

test('TCP: accepted and closed at once is not ready', async () => {
  const address = await listening(createServer((socket) => socket.end()));
  expect(await tcp(address)).toEqual({ ok: false, detail: 'accepted and closed at once' });
  const resets = await listening(createServer((socket) => socket.resetAndDestroy()));
  expect((await tcp(resets)).ok).toBe(false);
});

test('a service without a check is probed by TCP', async () => {
  const address = await listening(createServer());
  expect(await probe(service('app.test', 1, [address]), backend(address), systemClock)).toMatchObject({ ok: true });
});

interface Greeted {
  readonly header: ProxyResult;
  readonly clientPort: number | undefined;
}

/** A backend that closes a connection at once unless it begins with a PROXY header, and gives the rest away. */
function behindProxies(greeted: Greeted[], then: (socket: Socket) => void): Server {
  return createServer((socket) => {
    socket.once('data', (first: Buffer) => {
      socket.pause();
      const header = new ProxyHeaderReader().push(first);
      if (header?.kind !== 'header') {
        socket.resetAndDestroy();
        return;
      }
      greeted.push({ header, clientPort: socket.remotePort });
      if (header.rest.length > 0) socket.unshift(header.rest);
      then(socket);
    });
  });
}

test('TCP: a backend that requires a PROXY header gets one, which names nobody else than the probe', async () => {
  const greeted: Greeted[] = [];
  const address = await listening(behindProxies(greeted, (socket) => socket.resume()));
  expect(await tcp(address, 2)).toMatchObject({ ok: true });
  expect(await tcp(address, 1)).toMatchObject({ ok: true });
  const [local, own] = greeted;
  expect(local?.header).toMatchObject({ ends: null, rest: Buffer.alloc(0) });
  expect(own?.header).toMatchObject({
    ends: {
      sourceAddress: '127.0.0.1',
      sourcePort: own?.clientPort,
      destinationAddress: '127.0.0.1',
      destinationPort: Number(address.split(':')[1]),
    },
    rest: Buffer.alloc(0),
  });
});

test('TCP: a backend of IPv6 is told so', async () => {
  const greeted: Greeted[] = [];
  const address = await listening(
    behindProxies(greeted, (socket) => socket.resume()),
    '::1',
  );
  expect(await tcp(address, 1)).toMatchObject({ ok: true });
  expect(greeted[0]?.header).toMatchObject({ ends: { sourceAddress: '::1', destinationAddress: '::1' } });
});

test('TCP: where tunnels speak TLS the probe does, behind the PROXY header, and verifies as they do', async () => {
  const ca = new TestCa('Tunnel probe CA');
  const { cert, key } = ca.leaf(['db.internal']);
  const upstreamTls = { sni: 'db.internal', verify: true, ca: ca.pem, cert: '', key: '' };
  const asked = (address: string, version: 1 | 2 | null, over: Partial<typeof upstreamTls> = {}) =>
    tcp(address, version, { protocol: 'tls', upstreamTls: { ...upstreamTls, ...over } });
  const inner = createTls({ cert, key });
  inner.on('tlsClientError', () => {});
  const address = await listening(behindProxies([], (socket) => inner.emit('connection', socket)));
  expect(await asked(address, 2)).toEqual({ ok: true, detail: 'accepts connections' });
  expect(await asked(address, 1)).toMatchObject({ ok: true });
  expect(await asked(address, 1, { verify: false, ca: '' })).toMatchObject({ ok: true });
  expect(await asked(address, 2, { ca: '' })).toMatchObject({ ok: false });
  expect(await asked(address, 2, { sni: 'other.internal' })).toMatchObject({
    ok: false,
    detail: expect.stringContaining('other.internal'),
  });
  expect(await asked(address, null)).toMatchObject({ ok: false });
  // It accepts and stays, which would do without TLS.
  const silent = await listening(createServer());
  const health = { ...check, type: 'tcp' as const, timeoutMs: 150 };
  expect(await tcp(silent, null, { protocol: 'tls', upstreamTls, health })).toEqual({
    ok: false,
    detail: 'no TLS connection within 150 ms',
  });
  expect(await tcp(silent, null, { health })).toMatchObject({ ok: true });
});
