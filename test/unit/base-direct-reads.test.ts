import { once } from 'node:events';
import { createServer, type Server, Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { DirectReads } from '../../src/base/direct-reads.ts';
import { until } from '../support/wait.ts';

const open: (Socket | Server)[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each instanceof Socket ? each.destroy() : each.close();
});

/** A socket that is read directly, and the server's end of it. */
async function pair(): Promise<{ reads: DirectReads; socket: Socket; peer: Socket }> {
  const server = createServer().listen(0, '127.0.0.1');
  open.push(server);
  await once(server, 'listening');
  const reads = new DirectReads();
  const socket = new Socket({ allowHalfOpen: true, onread: reads.onread });
  open.push(socket);
  const accepted = once(server, 'connection');
  socket.connect((server.address() as { port: number }).port, '127.0.0.1');
  const [peer] = (await accepted) as [Socket];
  open.push(peer);
  return { reads, socket, peer };
}

test('a chunk keeps its bytes while other connections read', async () => {
  const [first, second] = [await pair(), await pair()];
  const chunks: Buffer[] = [];
  for (const each of [first, second]) {
    each.reads.taker = (chunk) => {
      chunks.push(chunk);
      return true;
    };
  }
  first.peer.write('a'.repeat(1000));
  await until('the first chunk', () => chunks.length === 1);
  second.peer.write('b'.repeat(1000));
  await until('the second chunk', () => chunks.length === 2);
  expect(chunks.map(String)).toEqual(['a'.repeat(1000), 'b'.repeat(1000)]);
});

test('false stops the reading, resume goes on, and the end is an event as always', async () => {
  const { reads, socket, peer } = await pair();
  let taken = 0;
  reads.taker = (chunk) => {
    taken += chunk.length;
    return false;
  };
  const total = 4 * 1024 * 1024;
  peer.end(Buffer.alloc(total));
  await until('the first chunk', () => taken > 0);
  const before = taken;
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(taken).toBe(before);
  reads.taker = (chunk) => {
    taken += chunk.length;
    return true;
  };
  const ended = once(socket, 'end');
  socket.resume();
  await ended;
  expect(taken).toBe(total);
});

test('what is pushed on becomes a stream again, with its back-pressure', async () => {
  const { reads, socket, peer } = await pair();
  reads.taker = (chunk) => socket.push(chunk);
  const total = 4 * 1024 * 1024;
  peer.end(Buffer.alloc(total, 'x'));
  await until('a full stream', () => socket.readableLength > 0);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(socket.readableLength).toBeLessThan(256 * 1024);
  let read = 0;
  for await (const chunk of socket) read += (chunk as Buffer).length;
  expect(read).toBe(total);
});
