import { once } from 'node:events';
import { createServer, type Server, Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { BulkReads } from '../../src/base/bulk-reads.ts';
import { BytePipe } from '../../src/tcp/byte-pipe.ts';
import { until } from '../support/wait.ts';

const open: (Socket | Server)[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each instanceof Socket ? each.destroy() : each.close();
});

async function pair(reads: BulkReads | null): Promise<{ socket: Socket; peer: Socket }> {
  const server = createServer().listen(0, '127.0.0.1');
  open.push(server);
  await once(server, 'listening');
  const socket = new Socket({ allowHalfOpen: true, ...(reads === null ? {} : { onread: reads.onread }) });
  const accepted = once(server, 'connection');
  socket.connect((server.address() as { port: number }).port, '127.0.0.1');
  const [peer] = (await accepted) as [Socket];
  open.push(socket, peer);
  await until('the connection', () => !socket.connecting);
  return { socket, peer };
}

test('what waits to be written keeps its bytes while more is read, also in bulk', async () => {
  const reads = new BulkReads();
  const backend = await pair(reads);
  const client = await pair(null);
  const waiting: { readonly chunk: Buffer; done(): void }[] = [];
  let takes = true;
  // The kernel of a client that reads on, and then does not.
  client.socket._write = (chunk: Buffer, _encoding, done): void => {
    if (takes) done();
    else waiting.push({ chunk, done });
  };
  let moved = 0;
  const owner = { moved: (_: string, bytes: number) => (moved += bytes), broke() {}, pipeClosed() {} };
  new BytePipe(client.socket, backend.socket, reads, owner).start(null);
  let sent = 0;
  const send = async (bytes: Buffer): Promise<void> => {
    backend.peer.write(bytes);
    sent += bytes.length;
    await until('it', () => moved === sent);
  };
  await until(
    'bulk',
    async () => {
      await send(Buffer.alloc(64 * 1024));
      return reads.holdsBuffer;
    },
    { everyMs: 1 },
  );
  takes = false;
  await send(Buffer.alloc(20_000, 'a'));
  await send(Buffer.alloc(20_000, 'b'));
  expect(waiting).toHaveLength(1);
  expect(waiting[0]!.chunk.equals(Buffer.alloc(20_000, 'a'))).toBe(true);
  // The second one waits behind the first.
  waiting[0]!.done();
  await until('the second one', () => waiting.length === 2);
  expect(waiting[1]!.chunk.equals(Buffer.alloc(20_000, 'b'))).toBe(true);
});
