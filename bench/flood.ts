// node bench/flood.ts NAME PORT TLS_PORT: floods a proxy on loopback in one way, as fast as this process can, until it is
// ended. What is cut off comes back at once.
// Invariant: reaches nothing but 127.0.0.1; a handful of connections, or a few hundred where their number is the flood.
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { encodeFrame, FrameType, preface } from '../test/support/h2-frames.ts';
import { encodeBlock } from '../test/support/hpack.ts';

interface Target {
  readonly port: number;
  readonly tlsPort: number;
}

const endHeaders = 4;
const endStream = 1;
const head = 'Host: 127.0.0.1\r\n';

function open(port: number): Socket {
  const socket = connect({ host: '127.0.0.1', port });
  socket.on('error', () => {});
  return socket;
}

/** Keeps `count` connections going; each is begun anew a moment after it ended. */
function keep(count: number, port: number, begin: (socket: Socket) => void): void {
  const start = (): void => {
    const socket = open(port);
    socket.on('close', () => setTimeout(start, 2));
    begin(socket);
  };
  for (let i = 0; i < count; i++) start();
}

/** Writes what `next` makes for as long as the connection takes it. */
function pour(socket: Socket, next: () => Buffer | string): void {
  const more = (): void => {
    while (!socket.destroyed && socket.write(next()));
  };
  socket.on('drain', () => setImmediate(more));
  socket.resume();
  more();
}

/** HTTP/2 frames without end on four connections, a burst at a time. */
function frames({ port }: Target, burst: (from: number) => Buffer): void {
  keep(4, port, (socket) => {
    let at = 0;
    socket.write(Buffer.concat([preface, encodeFrame(FrameType.Settings, 0, 0)]));
    pour(socket, () => burst(at++));
  });
}

const repeated = (frame: Buffer, times: number): Buffer => Buffer.concat(Array.from({ length: times }, () => frame));
const request = (method: string, extra: readonly [string, string][] = []): Buffer =>
  encodeBlock([[':method', method], [':scheme', 'http'], [':authority', '127.0.0.1'], [':path', '/'], ...extra]);
const get = request('GET');
const post = request('POST');
const ids = (from: number, count: number): number[] =>
  Array.from({ length: count }, (_each, i) => (from * count + i) * 2 + 1);

export const floods: Readonly<Record<string, (target: Target) => void>> = {
  'rapid reset': (target) =>
    frames(target, (from) =>
      Buffer.concat(
        ids(from, 50).flatMap((id) => [
          encodeFrame(FrameType.Headers, endHeaders | endStream, id, get),
          encodeFrame(FrameType.RstStream, 0, id, Buffer.of(0, 0, 0, 8)),
        ]),
      ),
    ),
  // The client breaks each stream so that the server resets it.
  'made you reset': (target) =>
    frames(target, (from) =>
      Buffer.concat(
        ids(from, 50).flatMap((id) => [
          encodeFrame(FrameType.Headers, endHeaders, id, post),
          encodeFrame(FrameType.WindowUpdate, 0, id, Buffer.alloc(4)),
        ]),
      ),
    ),
  continuation: (target) =>
    frames(target, (from) =>
      from === 0
        ? encodeFrame(FrameType.Headers, 0, 1, get)
        : encodeFrame(FrameType.Continuation, 0, 1, encodeBlock([[`x-${from}`, 'a'.repeat(1000)]])),
    ),
  settings: (target) => frames(target, () => repeated(encodeFrame(FrameType.Settings, 0, 0), 200)),
  ping: (target) => frames(target, () => repeated(encodeFrame(FrameType.Ping, 0, 0, Buffer.alloc(8)), 200)),
  // One large field is put into the table and named again and again: a byte each.
  'header table': (target) => {
    const large = encodeBlock([
      [':method', 'GET'],
      [':scheme', 'http'],
      [':authority', '127.0.0.1'],
      [':path', '/'],
    ]);
    const stored = Buffer.concat([
      Buffer.of(0x40, 1),
      Buffer.from('x'),
      Buffer.of(0x7f, 0xa1, 0x1e),
      Buffer.alloc(4000, 'a'),
    ]);
    frames(target, (from) =>
      Buffer.concat(
        ids(from, 10).map((id) =>
          encodeFrame(
            FrameType.Headers,
            endHeaders | endStream,
            id,
            Buffer.concat([large, stored, Buffer.alloc(4000, 0xbe)]),
          ),
        ),
      ),
    );
  },
  'slow headers': ({ port }) =>
    keep(500, port, (socket) => {
      socket.write(`GET / HTTP/1.1\r\n${head}`);
      const timer = setInterval(() => socket.write('X-Drip: a\r\n'), 100);
      socket.on('close', () => clearInterval(timer));
      socket.resume();
    }),
  'slow reads': ({ port }) =>
    keep(200, port, (socket) => {
      socket.pause();
      socket.write(`GET /megabyte HTTP/1.1\r\n${head}\r\n`.repeat(8));
    }),
  churn: ({ port }) =>
    keep(20, port, (socket) => {
      socket.write(`GET / HTTP/1.1\r\n${head}\r\n`);
      socket.once('data', () => socket.resetAndDestroy());
    }),
  handshakes: ({ tlsPort }) => {
    const start = (): void => {
      const socket = connectTls({
        host: '127.0.0.1',
        port: tlsPort,
        servername: 'bench.test',
        rejectUnauthorized: false,
      });
      socket.on('error', () => {});
      socket.on('secureConnect', () => socket.destroy());
      socket.on('close', () => setTimeout(start, 2));
    };
    for (let i = 0; i < 8; i++) start();
  },
  uploads: ({ port }) => {
    const piece = `10000\r\n${'u'.repeat(0x10000)}\r\n`;
    keep(20, port, (socket) => {
      socket.write(`POST / HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\n`);
      pour(socket, () => piece);
    });
  },
};

if (import.meta.main) {
  const [name = '', port, tlsPort] = process.argv.slice(2);
  const flood = floods[name];
  if (flood === undefined) throw new Error(`no flood named ${name}`);
  flood({ port: Number(port), tlsPort: Number(tlsPort) });
  // The bench ends it; without the bench nobody would. Sockets that nobody reads keep no process alive.
  setTimeout(() => process.exit(), 600_000);
}
