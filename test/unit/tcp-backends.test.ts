// What a backend of a network service is told and shown: PROXY headers, TLS, and both.
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { afterEach, expect, it } from 'vitest';
import type { RoutingPart, Service, UpstreamTls } from '../../src/model/snapshot.ts';
import { ProxyHeaderReader } from '../../src/tcp/proxy-header.ts';
import { entrypoint, networkService, noRouters, routing } from '../support/routing.ts';
import { until } from '../support/wait.ts';
import { DataPlane, type End, type TestBackend } from './tcp-kit.ts';
import { ca } from './tls-kit.ts';

let plane: DataPlane;
let port: number;

afterEach(() => plane.close());

function start(): void {
  plane = new DataPlane();
  port = plane.lend();
}

function publish(service: Service, proxyProtocolFrom: readonly string[] = []): void {
  const part: RoutingPart = routing({
    entrypoints: [entrypoint('db', { port, protocol: 'tcp', proxyProtocolFrom })],
    services: [service],
    routers: { ...noRouters, tcp: [{ entrypoint: 'db', service: 'db', terminate: null, origin: 'test' }] },
  });
  plane.publish(part);
}

const withProxy = (backend: TestBackend, sendProxyProtocol: 1 | 2, over: Partial<Service> = {}): Service => {
  const base = networkService('db', 1, [backend.address]);
  return { ...base, ...over, network: { ...base.network!, sendProxyProtocol } };
};

const verified: UpstreamTls = { sni: 'db.test', verify: true, ca: ca.cert, cert: '', key: '' };

/** Everything from a connection, its PROXY header apart. */
function unwrap(end: End) {
  const result = new ProxyHeaderReader().push(end.bytes);
  if (result?.kind !== 'header') throw new Error(`no header in ${JSON.stringify(end.text)}`);
  return { ends: result.ends, rest: result.rest.toString('latin1') };
}

/** A backend that ends TLS, behind a PROXY header or not; `ends` are the insides. */
async function tlsBackend(
  headers: boolean,
): Promise<TestBackend & { readonly secure: TLSSocket[]; readonly seen: unknown[] }> {
  const pair = ca.leaf({ names: ['db.test'] });
  const secure: TLSSocket[] = [];
  const seen: unknown[] = [];
  const ends: End[] = [];
  const inner = createTlsServer({ key: pair.key, cert: pair.cert, ALPNProtocols: ['http/1.1', 'x'] }, (socket) => {
    socket.allowHalfOpen = true;
    secure.push(socket);
    ends.push(plane.end(socket));
  });
  const take = (socket: Socket, first: Buffer): void => {
    socket.pause();
    socket.unshift(first);
    inner.emit('connection', socket);
  };
  const backend = await plane.backend((end) => {
    end.socket.removeAllListeners('data');
    if (!headers) {
      inner.emit('connection', end.socket);
      return;
    }
    const reader = new ProxyHeaderReader();
    end.socket.once('data', (chunk: Buffer) => {
      const result = reader.push(chunk);
      if (result?.kind !== 'header') throw new Error('no header');
      seen.push(result.ends);
      if (result.rest.length > 0) take(end.socket, result.rest);
      else end.socket.once('data', (next: Buffer) => take(end.socket, next));
    });
  });
  return { ...backend, ends, secure, seen };
}

it.each([1, 2] as const)('is told who the client is, first thing, by a header of version %i', async (version) => {
  start();
  const backend = await plane.backend();
  publish(withProxy(backend, version));
  const client = await plane.client(port, '127.0.0.5');
  await until('the backend', () => backend.ends.length === 1);
  const server = backend.ends[0]!;
  // It comes before the client has said a word.
  await server.hasSize(16);
  client.send('hello');
  await until('hello', () => server.text.endsWith('hello'));
  expect(unwrap(server)).toEqual({
    ends: {
      sourceAddress: '127.0.0.5',
      sourcePort: client.socket.localPort,
      destinationAddress: '127.0.0.1',
      destinationPort: port,
    },
    rest: 'hello',
  });
});

it('is told what the load balancer in front said', async () => {
  start();
  const backend = await plane.backend();
  publish(withProxy(backend, 1), ['127.0.0.0/8']);
  const client = await plane.client(port);
  client.send('PROXY TCP4 9.9.9.9 8.8.8.8 1234 5432\r\nhello');
  await until('hello', () => backend.ends[0]?.text.endsWith('hello'));
  expect(backend.ends[0]!.text).toBe('PROXY TCP4 9.9.9.9 8.8.8.8 1234 5432\r\nhello');
  client.fin();
  backend.ends[0]!.fin();
  expect((await plane.log(1))[0]).toMatchObject({ client: '9.9.9.9', peer: '127.0.0.1' });
});

it('gets TLS, verified, under its name; ends pass both ways', async () => {
  start();
  const backend = await tlsBackend(false);
  publish(networkService('db', 1, [backend.address], { protocol: 'tls', upstreamTls: verified }));
  const client = await plane.client(port);
  client.send('query').fin();
  await until('the backend', () => backend.ends.length === 1);
  const server = backend.ends[0]!;
  await server.has('query');
  await server.hasFin();
  expect([backend.secure[0]!.servername, backend.secure[0]!.alpnProtocol]).toEqual(['db.test', false]);
  server.send('rows').fin();
  await client.has('rows');
  await client.hasFin();
  expect((await plane.log(1))[0]).toMatchObject({ reason: 'ended', bytes_in: 5, bytes_out: 4 });
});

it('may end first, inside TLS, and still be told the rest', async () => {
  start();
  const backend = await tlsBackend(false);
  publish(networkService('db', 1, [backend.address], { protocol: 'tls', upstreamTls: verified }));
  const client = await plane.client(port);
  await until('the backend', () => backend.ends.length === 1);
  const server = backend.ends[0]!;
  server.send('bye').fin();
  await client.has('bye');
  await client.hasFin();
  client.send('the rest').fin();
  await server.has('the rest');
  await server.hasFin();
});

it('gets the PROXY header in front of TLS', async () => {
  start();
  const backend = await tlsBackend(true);
  publish(withProxy(backend, 2, { protocol: 'tls', upstreamTls: verified }));
  const client = await plane.client(port, '127.0.0.5');
  client.send('query');
  await until('the backend', () => backend.ends.length === 1);
  await backend.ends[0]!.has('query');
  expect(backend.seen).toMatchObject([{ sourceAddress: '127.0.0.5', destinationPort: port }]);
  backend.ends[0]!.send('rows');
  await client.has('rows');
});

it.each([
  ['under another name', { ...verified, sni: 'other.test' }],
  ['of an unknown issuer', { ...verified, ca: '' }],
])('with a certificate %s gets nothing of the client', async (_, upstreamTls) => {
  start();
  const backend = await tlsBackend(false);
  publish(networkService('db', 1, [backend.address], { protocol: 'tls', upstreamTls }));
  const client = plane.dial(port).send('secret');
  await client.isShut();
  expect(backend.ends.map((end) => end.text).join('')).toBe('');
  expect((await plane.log(1))[0]).toMatchObject({ reason: 'upstream-failed' });
  expect(plane.metric('entrypoint_errors_total')).toBe(1);
});

it('that speaks no TLS is an error, with a PROXY header or without', async () => {
  start();
  const backend = await plane.backend((end) => end.send('220 ready\r\n'));
  for (const [number, service] of [
    networkService('db', 1, [backend.address], { protocol: 'tls', upstreamTls: verified }),
    withProxy(backend, 1, { protocol: 'tls', upstreamTls: verified }),
  ].entries()) {
    publish({ ...service, generation: { ...service.generation, number: number + 1 } });
    await plane.dial(port).isShut();
  }
  for (const line of await plane.log(2)) expect(line).toMatchObject({ reason: 'upstream-failed' });
});

it('that refuses is an error with a PROXY header in front of TLS as well', async () => {
  start();
  const backend = await plane.backend();
  backend.server.close();
  await once(backend.server, 'close');
  publish(withProxy(backend, 2, { protocol: 'tls', upstreamTls: verified }));
  await plane.dial(port).isShut();
  expect((await plane.log(1))[0]).toMatchObject({ reason: 'upstream-failed' });
});

it('with certificates that cannot be used refuses the publication', () => {
  start();
  const broken = { ...verified, ca: 'nonsense' };
  const service = networkService('db', 1, ['127.0.0.1:1'], { protocol: 'tls', upstreamTls: broken });
  expect(() => publish(service)).toThrow(/ca_file holds no PEM certificate/);
});
