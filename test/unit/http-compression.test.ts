import { randomBytes } from 'node:crypto';
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { afterEach, expect, test } from 'vitest';
import type { Compression } from '../../src/model/snapshot.ts';
import { type Answer, closeRawClients, fieldValue, RawClient } from '../support/raw-client.ts';
import { Recorder } from '../support/recorder.ts';
import { host, route, routing, service } from '../support/routing.ts';
import { until } from '../support/wait.ts';
import { Edge } from './http-kit.ts';

const compression: Compression = { encodings: ['zstd', 'br', 'gzip'], minSize: 100, types: ['text/*'] };

let edge: Edge;
let app: Recorder;

afterEach(async () => {
  closeRawClients();
  await edge?.close();
  await app?.close();
});

async function ask(accept: string): Promise<Answer> {
  const client = await RawClient.connect({ port: edge.port });
  return client.ask(`GET / HTTP/1.1\r\nHost: app.test\r\nAccept-Encoding: ${accept}\r\n\r\n`);
}

async function start(): Promise<void> {
  app = await Recorder.start({ name: 'app' });
  edge = await Edge.start({
    routing: routing({
      hosts: [host('app.test', [route('app.test', 'app', { compression })])],
      services: [service('app', 1, [app.address])],
    }),
  });
}

test('a large body comes out the same through every coding', async () => {
  await start();
  const body = Buffer.from(Array.from({ length: 200_000 }, (_, i) => `line ${i}\n`).join(''));
  app.script = (exchange) => exchange.ok(body, 'Content-Type: text/plain\r\n');
  const plain = (accept: string, decode: (data: Buffer) => Buffer): Promise<void> =>
    ask(accept).then((answer) => {
      expect(answer.complete).toBe(true);
      expect(fieldValue(answer, 'content-encoding')).toBe(accept);
      expect(answer.body.length).toBeLessThan(body.length / 2);
      expect(decode(answer.body).equals(body)).toBe(true);
    });
  await plain('gzip', gunzipSync);
  await plain('br', brotliDecompressSync);
  await plain('zstd', zstdDecompressSync);
  const [line] = await edge.log(3);
  expect(line!.bytes_out).toBeLessThan(body.length / 2);
});

test('every piece comes out before the next one goes in', async () => {
  await start();
  const first = randomBytes(1000).toString('hex');
  const piece = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
  app.script = (exchange) =>
    void exchange.send(
      `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n${piece(first)}`,
    );
  const client = await RawClient.connect({ port: edge.port });
  client.write('GET / HTTP/1.1\r\nHost: app.test\r\nAccept-Encoding: gzip\r\n\r\n');
  // Half of the hex digits is what gzip can save.
  await until('the first piece', () => client.receivedSize > 1000);
  app.last.reply(`${piece('second')}0\r\n\r\n`);
  const answer = await client.ask('');
  expect(gunzipSync(answer.body).toString()).toBe(`${first}second`);
});

test('a compressed body whose backend dies is cut, not completed', async () => {
  await start();
  app.script = (exchange) => {
    exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nabc');
    setTimeout(() => exchange.connection.fin(), 30);
  };
  expect((await ask('gzip')).complete).toBe(false);
});
