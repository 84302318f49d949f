import { once } from 'node:events';
import { createServer, type Server, Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { BulkReads, type ChunkTaker } from '../../src/base/bulk-reads.ts';
import { until } from '../support/wait.ts';

const open: (Socket | Server)[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each instanceof Socket ? each.destroy() : each.close();
});

async function pair(): Promise<{ reads: BulkReads; socket: Socket; peer: Socket }> {
  const server = createServer().listen(0, '127.0.0.1');
  open.push(server);
  await once(server, 'listening');
  const reads = new BulkReads();
  const socket = new Socket({ allowHalfOpen: true, onread: reads.onread });
  open.push(socket);
  const accepted = once(server, 'connection');
  socket.connect((server.address() as { port: number }).port, '127.0.0.1');
  const [peer] = (await accepted) as [Socket];
  open.push(peer);
  return { reads, socket, peer };
}

/** Keeps every chunk as it came, and says of each whether it is still needed. */
class Keeper implements ChunkTaker {
  readonly chunks: Buffer[] = [];
  holdsChunk = true;
  goesOn = true;

  take(chunk: Buffer): boolean {
    this.chunks.push(chunk);
    return this.goesOn;
  }

  get size(): number {
    return this.chunks.reduce((sum, { length }) => sum + length, 0);
  }
}

/** Bytes that tell their place. */
function marked(size: number): Buffer {
  const bytes = Buffer.alloc(size);
  for (let i = 0; i + 4 <= size; i += 4) bytes.writeUInt32LE(i, i);
  return bytes;
}

const total = 8 * 1024 * 1024;

test('chunks that are held keep their bytes, however many follow, also on other sockets', async () => {
  const pairs = [await pair(), await pair()];
  const keepers = pairs.map(({ reads }) => {
    const keeper = new Keeper();
    reads.taker = keeper;
    return keeper;
  });
  for (const { peer } of pairs) peer.end(marked(total));
  for (const { socket } of pairs) socket.resume();
  await until('everything', () => keepers.every(({ size }) => size === total));
  for (const { chunks } of keepers) expect(Buffer.concat(chunks).equals(marked(total))).toBe(true);
});

test('a buffer that is free is used again, and bulk comes in chunks larger than a stream would give', async () => {
  const { reads, socket, peer } = await pair();
  const buffers = new Set<ArrayBufferLike>();
  let largest = 0;
  let size = 0;
  reads.taker = {
    holdsChunk: false,
    take(chunk) {
      size += chunk.length;
      largest = Math.max(largest, chunk.length);
      if (chunk.length > 64 * 1024) buffers.add(chunk.buffer);
      // So that the kernel has more than it can tell at once.
      const until = performance.now() + 1;
      while (performance.now() < until);
      return true;
    },
  };
  peer.end(Buffer.alloc(total));
  socket.resume();
  await until('everything', () => size === total);
  expect(largest).toBeGreaterThan(64 * 1024);
  expect(buffers.size).toBeLessThan(total / (128 * 1024) / 2);
});

test('little reads, and a socket that is paused, need no buffer of their own', async () => {
  const { reads, socket, peer } = await pair();
  const keeper = new Keeper();
  reads.taker = keeper;
  socket.resume();
  peer.write('a');
  await until('a byte', () => keeper.size === 1);
  expect(reads.holdsBuffer).toBe(false);
  keeper.goesOn = false;
  peer.write(Buffer.alloc(total));
  await until('a chunk', () => keeper.size > 1);
  const paused = keeper.size;
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(keeper.size).toBe(paused);
  expect(reads.holdsBuffer).toBe(false);
  keeper.goesOn = true;
  socket.resume();
  await until('everything', () => keeper.size === total + 1);
  // The gust is over with a read that finds less than it has room for.
  peer.write(Buffer.alloc(20_000));
  await until('the rest', () => keeper.size === total + 20_001);
  expect(reads.holdsBuffer).toBe(false);
});

test('what is pushed on becomes a stream again, with its back-pressure', async () => {
  const { reads, socket, peer } = await pair();
  reads.taker = { take: (chunk) => socket.push(chunk), holdsChunk: true };
  peer.end(marked(total));
  await until('a full stream', () => socket.readableLength > 0);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(socket.readableLength).toBeLessThan(512 * 1024);
  const read: Buffer[] = [];
  for await (const chunk of socket) read.push(chunk as Buffer);
  expect(Buffer.concat(read).equals(marked(total))).toBe(true);
});
