// Clients that keep a connection and hardly say anything: slow heads, bodies and trailers, half a handshake, half a frame.
//
// nodejs/node#33440, warmcat/libwebsockets#2154: the limit was looked at only when the next byte came, so that a client which
// drips never met it. Slowloris (2009), R.U.D.Y., CVE-2007-6750. All of them at once here, against limits of a second.
import type { Socket } from 'node:net';
import { connect as connectTcp } from 'node:net';
import { describe, expect, it } from 'vitest';
import { encodeFrame, encodeSettings, FrameType, preface, Setting } from '../support/h2-frames.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import type { Transport } from '../support/transports.ts';
import { sleep, until } from '../support/wait.ts';
import { acceptHandshake, handshake } from '../support/websocket-frames.ts';
import { connect, get, post, requestBlock } from './support/flood.ts';
import { othersAreServed } from './support/provoke.ts';

const f = useProxy({
  workers: 1,
  limits: `
header_timeout = "1s"
tls_handshake_timeout = "1s"
keep_alive_timeout = "1500ms"
body_idle_timeout = "1s"
stream_idle_timeout = "1s"
backend_head_timeout = "5s"
`,
});

const host = 'Host: app1.test\r\n';
const chunked = `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n`;

/** What is said first, and what is said again and again after that ('' says nothing more). */
interface Slow {
  readonly name: string;
  readonly first: string | Buffer;
  readonly drip: string | Buffer;
}

const overHttp1: readonly Slow[] = [
  { name: 'nothing', first: '', drip: '' },
  { name: 'a request line', first: 'GET /', drip: 'a' },
  { name: 'a method', first: '', drip: 'A' },
  { name: 'a field name', first: `GET / HTTP/1.1\r\n${host}X`, drip: 'x' },
  { name: 'a field value', first: `GET / HTTP/1.1\r\n${host}X: `, drip: 'x' },
  { name: 'field after field', first: `GET / HTTP/1.1\r\n${host}`, drip: 'X: y\r\n' },
  { name: 'all but the last line feed', first: `GET / HTTP/1.1\r\n${host}\r`, drip: '' },
  { name: 'a head behind an answered request', first: `GET / HTTP/1.1\r\n${host}\r\nGET / HTTP/1.1\r\n`, drip: 'x' },
  { name: 'nothing behind an answered request', first: `GET / HTTP/1.1\r\n${host}\r\n`, drip: '' },
  { name: 'no body', first: `POST / HTTP/1.1\r\n${host}Content-Length: 5\r\n\r\n`, drip: '' },
  { name: 'half a body', first: `POST / HTTP/1.1\r\n${host}Content-Length: 5\r\n\r\nab`, drip: '' },
  { name: 'a chunk size', first: chunked, drip: '0' },
  { name: 'a chunk extension', first: `${chunked}5;`, drip: 'a' },
  { name: 'extension after extension', first: `${chunked}5`, drip: ';a=b' },
  { name: 'a chunk without its end', first: `${chunked}2\r\nab`, drip: '' },
  { name: 'a trailer', first: `${chunked}2\r\nab\r\n0\r\nX: `, drip: 'y' },
  { name: 'trailer after trailer', first: `${chunked}2\r\nab\r\n0\r\n`, drip: 'X: y\r\n' },
  {
    name: 'a body that is expected',
    first: `POST / HTTP/1.1\r\n${host}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n`,
    drip: '',
  },
  { name: 'a WebSocket without a frame', first: handshake('app1.test'), drip: '' },
];

const beforeTls: readonly Slow[] = [
  { name: 'nothing', first: '', drip: '' },
  { name: 'half a record header', first: Buffer.of(0x16, 3), drip: '' },
  { name: 'a ClientHello that drips', first: Buffer.of(0x16, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3), drip: Buffer.of(0) },
  {
    name: 'records of one byte',
    first: Buffer.concat([1, 0, 2, 0].map((byte) => Buffer.of(0x16, 3, 1, 0, 1, byte))),
    drip: Buffer.of(0x16, 3, 1, 0, 1, 0),
  },
];

const h2Start = Buffer.concat([preface, encodeSettings([])]);
const overHttp2: readonly Slow[] = [
  { name: 'half a preface', first: preface.subarray(0, 10), drip: '' },
  { name: 'a preface alone', first: preface, drip: '' },
  { name: 'half a SETTINGS frame', first: Buffer.concat([preface, Buffer.of(0, 0, 6, 4, 0)]), drip: '' },
  { name: 'nothing behind SETTINGS', first: h2Start, drip: '' },
  {
    name: 'nothing but window updates',
    first: h2Start,
    drip: encodeFrame(FrameType.WindowUpdate, 0, 0, Buffer.of(0, 0, 0, 1)),
  },
  { name: 'nothing but PING', first: h2Start, drip: encodeFrame(FrameType.Ping, 0, 0, Buffer.alloc(8)) },
  { name: 'a frame header', first: Buffer.concat([h2Start, Buffer.of(0, 0)]), drip: '' },
  {
    name: 'a header block without end',
    first: Buffer.concat([h2Start, encodeFrame(FrameType.Headers, 1, 1, requestBlock('GET'))]),
    drip: '',
  },
  {
    name: 'CONTINUATION now and then',
    first: Buffer.concat([h2Start, encodeFrame(FrameType.Headers, 1, 1, requestBlock('GET'))]),
    drip: encodeFrame(FrameType.Continuation, 0, 1),
  },
  { name: 'half a header block', first: Buffer.concat([h2Start, get(1).subarray(0, 30)]), drip: '' },
  { name: 'a body without a byte', first: Buffer.concat([h2Start, post(1)]), drip: '' },
  {
    name: 'half a DATA frame',
    first: Buffer.concat([h2Start, post(1), Buffer.of(0, 0, 100, 0, 0, 0, 0, 0, 1, 65)]),
    drip: '',
  },
  { name: 'empty DATA', first: Buffer.concat([h2Start, post(1)]), drip: encodeFrame(FrameType.Data, 0, 1) },
];

const each = 5;

/** Opens `each` of every kind at once, drips on all of them, and waits until none is left. */
async function allAreCutOff(kinds: readonly Slow[], open: () => Promise<Socket>): Promise<void> {
  const sockets: { readonly kind: Slow; readonly socket: Socket }[] = [];
  for (const kind of kinds) {
    for (let i = 0; i < each; i++) {
      const socket = await open();
      socket.on('error', () => {});
      socket.resume();
      if (kind.first.length > 0) socket.write(kind.first);
      sockets.push({ kind, socket });
    }
  }
  const dripping = setInterval(() => {
    for (const { kind, socket } of sockets) {
      if (!socket.destroyed && !socket.readableEnded && kind.drip.length > 0) socket.write(kind.drip);
    }
  }, 100);
  try {
    const left = (): string[] => [
      ...new Set(
        sockets.filter(({ socket }) => !socket.destroyed && !socket.readableEnded).map(({ kind }) => kind.name),
      ),
    ];
    // An ordinary client is served all the while.
    await until(
      'the slow ones to be cut off',
      async () => {
        await othersAreServed(f);
        return left().length === 0;
      },
      { timeoutMs: 15_000, everyMs: 50, seen: left },
    );
  } finally {
    clearInterval(dripping);
    for (const { socket } of sockets) socket.destroy();
  }
}

async function tcp(port: number): Promise<Socket> {
  const socket = connectTcp({ port, allowHalfOpen: true });
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  return socket;
}

describe('slow clients are cut off', () => {
  it('whatever they speak, all of them at once', { timeout: 60_000 }, async () => {
    f.app1.script = (exchange) => {
      if (exchange.values('upgrade').length > 0) exchange.reply(acceptHandshake(exchange));
      else void exchange.whole().then(() => exchange.ok('ok'));
    };
    const http1 = (transport: Transport) => async (): Promise<Socket> => (await f.raw(transport)).socket;
    const http2 = (transport: Transport) => async (): Promise<Socket> =>
      (await connect(f, transport, { greet: false })).socket;
    await Promise.all([
      allAreCutOff(overHttp1, http1('h1')),
      allAreCutOff(overHttp1, http1('h1+tls')),
      allAreCutOff(beforeTls, () => tcp(f.securePort)),
      allAreCutOff(overHttp2, http2('h2')),
      allAreCutOff(overHttp2, http2('h2c')),
    ]);
    await until('the backend sockets to be given up', () => f.app1.connections.every((connection) => connection.idle));
  });

  it('when they never open a window', async () => {
    f.app1.script = (exchange) => exchange.ok(Buffer.alloc(200_000));
    const openings = [[[Setting.InitialWindowSize, 0]] as const, [[Setting.InitialWindowSize, 1]] as const, []];
    await Promise.all(
      (['h2', 'h2c'] satisfies Transport[]).flatMap((transport) =>
        openings.map(async (settings) => {
          const connection = await connect(f, transport, { settings, refill: false });
          for (let i = 0; i < 10; i++) connection.write(get(2 * i + 1));
          await connection.waitForEnd(10_000);
        }),
      ),
    );
    await until('the backend sockets to be given up', () => f.app1.open.every((open) => open.idle));
  });

  it('and every one of these limits has its number', async () => {
    const metrics = await f.p.metrics();
    const value = (series: RegExp): number => Number(series.exec(metrics)?.[1] ?? 0);
    // Silence, heads and bodies, handshakes, and what HTTP/2 brings of its own.
    expect(
      value(/^turnpike_entrypoint_refused_total\{entrypoint="web",reason="sniff-timeout"\} (\d+)$/m),
    ).toBeGreaterThan(0);
    expect(value(/^turnpike_http_requests_total\{route="other",method="other",status="4xx"\} (\d+)$/m)).toBeGreaterThan(
      0,
    );
    expect(
      value(/^turnpike_http_requests_total\{route="app1.test",method="POST",status="4xx"\} (\d+)$/m),
    ).toBeGreaterThan(0);
    expect(value(/^turnpike_tls_handshakes_total\{entrypoint="websecure",result="timeout"\} (\d+)$/m)).toBe(
      beforeTls.length * each,
    );
    expect(value(/^turnpike_http2_cut_off_total\{reason="silent"\} (\d+)$/m)).toBeGreaterThan(0);
    expect(value(/^turnpike_http2_cut_off_total\{reason="stalled"\} (\d+)$/m)).toBeGreaterThan(0);
  });
});

describe('a client that is slow and moves', () => {
  it('is served: a body in drops, far beyond every limit in total', { timeout: 20_000 }, async () => {
    const client = await RawClient.connect({ port: f.webPort });
    client.write(`POST / HTTP/1.1\r\n${host}Content-Length: 30\r\n\r\n`);
    for (let i = 0; i < 30; i++) {
      client.write('x');
      await sleep(100);
    }
    expect((await client.readAnswer({ method: 'POST' })).status).toBe(200);
    expect(f.app1.last.body.toString()).toBe('x'.repeat(30));
  });
});
