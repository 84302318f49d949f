// Peers that take no more: a client that asks for a lot and reads nothing, a backend that is sent a lot and reads nothing.
//
// MAXeaglet/commandcode-proxy#20, spdy-http2/node-spdy#174, nodejs/node#9254: one stalled client cost hundreds of megabytes in
// the proxy. CVE-2019-9517: an HTTP/2 client that opens the windows wide and closes the TCP one.
import { beforeAll, expect, it } from 'vitest';
import { Setting } from '../support/h2-frames.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import type { Exchange } from '../support/recorder.ts';
import { residentSize } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';
import { acceptHandshake, handshake } from '../support/websocket-frames.ts';
import { connect, get, post } from './support/flood.ts';

const f = useProxy({ workers: 1, app1: 'compression = true' });

const miB = 1024 * 1024;
/** So many that the growth of the heap itself, some 30 MB once, is little for each. */
const stalled = 100;
const size = 64 * miB;

/** Writes as much of `size` bytes as the proxy takes. */
function endless(exchange: Exchange, head: string): { sent: number } {
  const count = { sent: 0 };
  exchange.send(head).complete();
  const { socket } = exchange.connection;
  const piece = Buffer.alloc(256 * 1024, 'the same again ');
  const more = (): void => {
    while (count.sent < size && !socket.destroyed) {
      count.sent += piece.length;
      if (!socket.write(piece)) {
        socket.once('drain', more);
        return;
      }
    }
  };
  more();
  return count;
}

async function growth(work: () => Promise<void>): Promise<number> {
  const [pid] = await f.p.workerPids();
  const before = residentSize(pid!);
  await work();
  let most = 0;
  for (let i = 0; i < 15; i++) {
    most = Math.max(most, residentSize(pid!) - before);
    await sleep(50);
  }
  return most;
}

const bodies: readonly (readonly [string, string])[] = [
  ['a sized body', `HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`],
  ['a body until the end', 'HTTP/1.1 200 OK\r\n\r\n'],
  ['text that is compressed', 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n'],
];

const clients: readonly (readonly [string, () => Promise<{ reset(): void }>])[] = [
  [
    'HTTP/1.1',
    async () => {
      const client = await RawClient.connect({ port: f.webPort, paused: true });
      client.write('GET / HTTP/1.1\r\nHost: app1.test\r\nAccept-Encoding: gzip\r\n\r\n');
      return client;
    },
  ],
  [
    'HTTP/1.1 over TLS',
    async () => {
      const client = await RawClient.connect({
        port: f.securePort,
        paused: true,
        tls: { servername: 'app1.test', ca: f.ca.pem },
      });
      client.write('GET / HTTP/1.1\r\nHost: app1.test\r\nAccept-Encoding: gzip\r\n\r\n');
      return client;
    },
  ],
  [
    'HTTP/2, whose windows stay shut',
    async () => {
      const connection = await connect(f, 'h2', { refill: false });
      connection.write(get(1));
      return connection;
    },
  ],
  [
    'HTTP/2, whose windows are wide open',
    async () => {
      const connection = await connect(f, 'h2c', {
        settings: [[Setting.InitialWindowSize, 2 ** 31 - 1]],
        refill: false,
      });
      connection.windowUpdate(0, 2 ** 31 - 1 - 65_535);
      connection.socket.pause();
      connection.write(get(1));
      return connection;
    },
  ],
];

// The first megabytes through a process make it grow for good, whoever asks for them.
beforeAll(async () => {
  f.app1.script = (exchange) => endless(exchange, bodies[0]![1]);
  const readers = await Promise.all(
    Array.from({ length: 5 }, async () => {
      const client = await RawClient.connect({ port: f.webPort });
      client.write('GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n');
      return client;
    }),
  );
  await until('the downloads', () => readers.every((reader) => reader.receivedSize > size / 2), { timeoutMs: 30_000 });
  for (const reader of readers) reader.reset();
  // And so do the first peers of each kind that do not read: a heap grows to what it needs, once.
  for (const [, head] of bodies) {
    for (const [, open] of clients) {
      f.app1.script = (exchange) => endless(exchange, head);
      const peers = await Promise.all(Array.from({ length: stalled }, open));
      await sleep(300);
      for (const peer of peers) peer.reset();
      await until('the backend sockets to close', () => f.app1.open.length === 0);
    }
  }
}, 60_000);

for (const [body, head] of bodies) {
  it.each(clients)(`${body} for a client of %s that does not read costs less than a megabyte`, async (_name, open) => {
    const counts: { sent: number }[] = [];
    f.app1.script = (exchange) => counts.push(endless(exchange, head));
    let readers: { reset(): void }[] = [];
    const grown = await growth(async () => {
      readers = await Promise.all(Array.from({ length: stalled }, open));
      await until('the requests', () => counts.length === stalled);
    });
    expect(grown / stalled).toBeLessThan(miB);
    // And the backend is held back: what it got rid of lies in the buffers of the kernel, not in ours. Text that packs well
    // needs more of it to fill them.
    if (!body.includes('compressed')) for (const { sent } of counts) expect(sent).toBeLessThan(size / 2);
    // Others are served, and those who leave are let go.
    expect((await f.requester('h1').request({ host: 'alive.test' })).status).toBe(200);
    for (const reader of readers) reader.reset();
    await until('the backend sockets to close', () => f.app1.open.length === 0);
  });
}

const uploads: readonly (readonly [string, () => Promise<{ reset(): void }>])[] = [
  [
    'HTTP/1.1',
    async () => {
      const client = await RawClient.connect({ port: f.webPort });
      client.write(`POST / HTTP/1.1\r\nHost: app1.test\r\nContent-Length: ${size}\r\n\r\n`);
      client.write(Buffer.alloc(size / 8));
      return client;
    },
  ],
  [
    'HTTP/2',
    async () => {
      const connection = await connect(f, 'h2');
      for (let i = 0; i < 4; i++) connection.write(post(2 * i + 1));
      // As much as its windows let it send.
      for (let i = 0; i < 4; i++) for (let k = 0; k < 16; k++) connection.frame(0, 0, 2 * i + 1, Buffer.alloc(16_000));
      return connection;
    },
  ],
];

it.each(uploads)('an upload of %s to a backend that does not read costs less than a megabyte', async (_name, open) => {
  f.app1.accepted = (connection) => connection.socket.pause();
  f.app1.script = () => {};
  let senders: { reset(): void }[] = [];
  const grown = await growth(async () => {
    senders = await Promise.all(Array.from({ length: stalled }, open));
  });
  // Twice: the sending end of the kernel's buffers counts for nobody, but the streams of HTTP/2 have a window each.
  expect(grown / stalled).toBeLessThan(2 * miB);
  for (const sender of senders) sender.reset();
  // Paused as they are, the recorder's sockets do not notice that they were closed.
  for (const connection of f.app1.open) connection.socket.resume();
  await until('the backend sockets to close', () => f.app1.open.length === 0);
});

it('a WebSocket whose client does not read costs less than a megabyte', async () => {
  const counts: { sent: number }[] = [];
  f.app1.script = (exchange) => {
    exchange.reply(acceptHandshake(exchange));
    counts.push(endless(exchange, '\x82\x7f\x00\x00\x00\x00\x10\x00\x00\x00'));
  };
  let readers: RawClient[] = [];
  const grown = await growth(async () => {
    readers = await Promise.all(
      Array.from({ length: stalled }, async () => {
        const client = await RawClient.connect({ port: f.webPort, paused: true });
        client.write(handshake('app1.test'));
        return client;
      }),
    );
    await until('the handshakes', () => counts.length === stalled);
  });
  expect(grown / stalled).toBeLessThan(miB);
  for (const { sent } of counts) expect(sent).toBeLessThan(size / 2);
  for (const reader of readers) reader.reset();
  await until('the backend sockets to close', () => f.app1.open.length === 0);
});

it('a client that pipelines for ever and reads nothing is held back', async () => {
  f.app1.script = (exchange) => exchange.ok(Buffer.alloc(100_000));
  const batch = 'GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n'.repeat(500);
  let senders: RawClient[] = [];
  const grown = await growth(async () => {
    senders = await Promise.all(
      Array.from({ length: stalled }, async () => {
        const client = await RawClient.connect({ port: f.webPort, paused: true });
        for (let i = 0; i < 20; i++) client.write(batch);
        return client;
      }),
    );
    await sleep(300);
  });
  expect(grown / stalled).toBeLessThan(miB);
  // Ten thousand requests each were sent; those whose answers fit into the buffers of the kernel were worked on.
  expect(f.app1.exchanges.length).toBeLessThan(stalled * 200);
  for (const sender of senders) sender.reset();
  await until('the backend sockets to be given up', () => f.app1.open.every((each) => each.idle));
});
