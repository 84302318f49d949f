import { createServer, type Server } from 'node:http';
import { afterEach, expect, test } from 'vitest';
import { closeRawClients, RawClient } from '../support/raw-client.ts';
import { host, route, routing, service } from '../support/routing.ts';
import { Edge } from './http-kit.ts';

let edge: Edge;
let app: Server;

afterEach(async () => {
  closeRawClients();
  await edge.close();
  app.closeAllConnections();
  await new Promise((done) => app.close(done));
});

/** Value of `turnpike_http_failures_total` by route; routes that nothing happened to are at 0. */
function failures(): Record<string, number> {
  const family = edge.metrics.collect().find((each) => each.name === 'turnpike_http_failures_total');
  return Object.fromEntries((family?.values ?? []).map(({ labels, value }) => [String(labels['route']), value]));
}

test('a failure is what the client did not cause and the app did not say', async () => {
  app = createServer((request, response) => {
    if (request.url === '/cut') {
      response.writeHead(200, { 'content-length': 10 });
      response.write('12345', () => response.socket?.destroy());
    } else {
      response.statusCode = 500;
      response.end('my own error');
    }
  });
  await new Promise<void>((done) => app.listen(0, '127.0.0.1', done));
  const { port } = app.address() as { port: number };
  edge = await Edge.start({
    routing: routing({
      hosts: [host('app.test', [route('app.test', 'app.test')]), host('dead.test', [route('dead.test', 'dead.test')])],
      services: [service('app.test', 1, [`127.0.0.1:${port}`]), service('dead.test', 1, ['127.0.0.1:1'])],
    }),
  });
  const ask = async (name: string, path = '/'): Promise<void> => {
    const client = await RawClient.connect({ port: edge.port });
    await client.ask(`GET ${path} HTTP/1.1\r\nHost: ${name}\r\n\r\n`).catch(() => {});
    client.destroy();
  };
  await ask('app.test');
  await ask('unknown.test');
  expect(failures()).toEqual({ 'app.test': 0, other: 0 });
  await ask('dead.test');
  await ask('app.test', '/cut');
  expect(failures()).toEqual({ 'app.test': 1, 'dead.test': 1, other: 0 });
});
