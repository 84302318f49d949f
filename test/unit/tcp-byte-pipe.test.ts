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

/** A pipe whose client takes what comes until it `holds`, like one whose kernel has no room any more. */
class TestPipe {
  readonly waiting: Buffer[] = [];
  holds = false;
  readonly #reads: BulkReads;
  readonly #peer: Socket;
  #sent = 0;
  #moved = 0;

  private constructor(reads: BulkReads, peer: Socket) {
    this.#reads = reads;
    this.#peer = peer;
  }

  static async open(): Promise<TestPipe> {
    const reads = new BulkReads();
    const backend = await pair(reads);
    const client = await pair(null);
    const pipe = new TestPipe(reads, backend.peer);
    client.socket._write = (chunk: Buffer, _encoding, done): void => {
      if (pipe.holds) pipe.waiting.push(chunk);
      else done();
    };
    const moved = (_: string, bytes: number): void => {
      pipe.#moved += bytes;
    };
    new BytePipe(client.socket, backend.socket, reads, { moved, broke() {}, pipeClosed() {} }).start(null);
    return pipe;
  }

  async send(bytes: Buffer): Promise<void> {
    this.#peer.write(bytes);
    this.#sent += bytes.length;
    await until('it', () => this.#moved === this.#sent);
  }

  /** What is read next goes into a buffer of its own. */
  async bulk(): Promise<void> {
    const tried = async (): Promise<boolean> => {
      await this.send(Buffer.alloc(64 * 1024));
      return this.#reads.holdsBuffer;
    };
    await until('bulk', tried, { everyMs: 1 });
  }
}

test('what waits to be written keeps its bytes, whatever else is read in bulk', async () => {
  const [slow, quick] = [await TestPipe.open(), await TestPipe.open()];
  await slow.bulk();
  slow.holds = true;
  await slow.send(Buffer.alloc(20_000, 'a'));
  await quick.bulk();
  await quick.send(Buffer.alloc(20_000, 'b'));
  await slow.send(Buffer.alloc(20_000, 'c'));
  expect(slow.waiting).toHaveLength(1);
  expect(slow.waiting[0]!.equals(Buffer.alloc(20_000, 'a'))).toBe(true);
});
