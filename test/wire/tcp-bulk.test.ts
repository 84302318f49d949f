// Gigabytes through tunnels, and peers that take no more of them.
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePorts } from '../support/ports.ts';
import { ran } from '../support/programs.ts';
import { residentSize, Turnpike } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

const miB = 1024 * 1024;
const giB = 1024 * miB;

let p: Turnpike;
let port: number;
let backend: Server;
let served: (socket: Socket) => void = () => {};

beforeAll(async () => {
  backend = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    socket.on('error', () => {});
    served(socket);
  });
  backend.listen(0, '127.0.0.1');
  await once(backend, 'listening');
  [port = 0] = await freePorts(1);
  p = await Turnpike.start({
    config: `
workers = 1
[entrypoints.bulk]
address = "127.0.0.1:${port}"
protocol = "tcp"
[network_services.bulk]
tcp = "127.0.0.1:${(backend.address() as { port: number }).port}"
stream_drain = "1s"
[[routers.tcp]]
entrypoint = "bulk"
service = "bulk"
[limits]
drain = "1s"
`,
  });
});

afterAll(async () => {
  await p?.stop();
  backend?.close();
});

const piece = randomBytes(miB);

/** Sends `size` bytes, each MiB marked with its number, and an end. Gives their hash. */
async function pour(socket: Socket, size: number): Promise<string> {
  const hash = createHash('sha256');
  for (let sent = 0; sent < size; sent += piece.length) {
    const bytes = Buffer.from(piece);
    bytes.writeUInt32BE(sent / miB, 0);
    hash.update(bytes);
    if (!socket.write(bytes)) await once(socket, 'drain');
  }
  socket.end();
  return hash.digest('hex');
}

async function drink(socket: Socket): Promise<{ readonly size: number; readonly hash: string }> {
  const hash = createHash('sha256');
  let size = 0;
  socket.on('data', (chunk: Buffer) => {
    size += chunk.length;
    hash.update(chunk);
  });
  await once(socket, 'end');
  return { size, hash: hash.digest('hex') };
}

it('a gigabyte each way at once arrives as it was sent', { timeout: 180_000 }, async () => {
  const pouring: Promise<string>[] = [];
  const drinking: ReturnType<typeof drink>[] = [];
  served = (socket) => {
    pouring.push(pour(socket, giB));
    drinking.push(drink(socket));
  };
  const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  await once(client, 'connect');
  const [sentUp, gotDown] = await Promise.all([pour(client, giB), drink(client)]);
  const [sentDown, gotUp] = await Promise.all([pouring[0]!, drinking[0]!]);
  expect(gotUp).toEqual({ size: giB, hash: sentUp });
  expect(gotDown).toEqual({ size: giB, hash: sentDown });
  const [tunnel] = (await p.traffic()).tunnels;
  expect(tunnel).toMatchObject({ bytesIn: giB, bytesOut: giB });
});

/** Eight mebibytes through a tunnel of their own, to somebody who reads them. */
async function passOnce(): Promise<void> {
  served = (socket) => {
    socket.resume();
    socket.on('end', () => socket.end());
  };
  const client = connect({ port, host: '127.0.0.1' });
  client.on('error', () => {});
  client.resume();
  for (let i = 0; i < 8; i++) client.write(piece);
  client.end();
  await once(client, 'close');
}

it.each([
  ['the client', 'client'],
  ['the backend', 'backend'],
])('%s that reads nothing costs less than a mebibyte', { timeout: 60_000 }, async (_, who) => {
  const count = 20;
  const clients: Socket[] = [];
  const sent: { bytes: number }[] = [];
  const flood = (socket: Socket): void => {
    const total = { bytes: 0 };
    sent.push(total);
    const more = (): void => {
      while (total.bytes < 64 * miB && !socket.destroyed) {
        total.bytes += piece.length;
        if (!socket.write(piece)) {
          socket.once('drain', more);
          return;
        }
      }
    };
    more();
  };
  const held: Socket[] = [];
  const [pid] = await p.workerPids();
  const open = async (): Promise<void> => {
    served = (socket) => {
      held.push(socket);
      if (who === 'client') flood(socket);
    };
    const client = connect({ port, host: '127.0.0.1' });
    client.on('error', () => {});
    clients.push(client);
    await until('the backend', () => held.length === clients.length);
    if (who === 'backend') flood(client);
    else client.pause();
  };
  // What the first ones cost is code and buffers that stay, and what passes leaves room that V8 does not give back.
  for (let i = 0; i < 5; i++) await open();
  for (let i = 0; i < 10; i++) await passOnce();
  const before = residentSize(pid!);
  for (let i = 0; i < count; i++) await open();
  await until('senders that are stopped', () => sent.length === count + 5);
  await sleep(1000);
  expect(
    sent.every((each) => each.bytes < 64 * miB),
    'nobody got rid of everything',
  ).toBe(true);
  // What passed before they stalled may lie about until V8 tidies up, which it does when more passes.
  await until(
    'less than a mebibyte each',
    async () => {
      await passOnce();
      return (residentSize(pid!) - before) / count < miB;
    },
    { timeoutMs: 20_000, seen: () => (residentSize(pid!) - before) / count },
  );
  for (const socket of [...clients, ...held]) socket.destroy();
});

it('socat sends a file through and gets it back', { timeout: 60_000 }, async () => {
  served = (socket) => socket.pipe(socket);
  const size = 100 * miB;
  const command = `head -c ${size} /dev/zero | tr '\\0' z | socat -t 20 - TCP:127.0.0.1:${port} | sha256sum`;
  const expected = createHash('sha256');
  const block = Buffer.alloc(miB, 'z');
  for (let i = 0; i < 100; i++) expected.update(block);
  const { stdout, stderr } = await ran('sh', ['-c', command]).done;
  expect(stdout.slice(0, 64), stderr).toBe(expected.digest('hex'));
});
