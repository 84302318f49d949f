// Frames that are wrong in themselves, and sequences that no client sends (RFC 9113 §3.4, §4, §5, §6).
//
// The kind of nodejs/node assertion failures in Http2Stream and Http2Session: one frame ends the whole process, and with it
// every other connection. Here every single kind of damage is tried once, and then frames are drawn at random.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { encodeFrame, encodeSettings, FrameType, type H2Connection, preface, Setting } from '../support/h2-frames.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import { overTransports } from '../support/transports.ts';
import { sleep, until } from '../support/wait.ts';
import { connect, get, requestBlock, rst, uint32 } from './support/flood.ts';
import { h2Ways } from './support/provoke.ts';
import { clientFrame } from './support/random-frames.ts';

const f = useProxy({
  workers: 1,
  limits: 'header_timeout = "1s"\nkeep_alive_timeout = "1s"\nbody_idle_timeout = "1s"',
});

const bytes = (...values: number[]): Buffer => Buffer.of(...values);
const data = (id: number, flags = 0, payload: Buffer = Buffer.from('x')): Buffer =>
  encodeFrame(FrameType.Data, flags, id, payload);
const headers = (id: number, flags: number, payload: Buffer): Buffer =>
  encodeFrame(FrameType.Headers, flags, id, payload);

/** Each ends the connection with GOAWAY, or at least ends it. */
const fatal: readonly (readonly [string, Buffer])[] = [
  ['DATA on no stream', data(0)],
  ['DATA on an idle stream', data(1)],
  ['DATA on a stream of the server', data(2)],
  ['HEADERS on no stream', headers(0, 5, requestBlock('GET'))],
  ['HEADERS on a stream of the server', headers(2, 5, requestBlock('GET'))],
  ['padding longer than HEADERS', headers(1, 13, Buffer.concat([bytes(255), requestBlock('GET')]))],
  ['a priority block that is cut', headers(1, 37, bytes(0, 0, 0))],
  ['CONTINUATION without HEADERS', encodeFrame(FrameType.Continuation, 4, 1, requestBlock('GET'))],
  [
    'another frame inside a header block',
    Buffer.concat([headers(1, 1, requestBlock('GET')), encodeFrame(FrameType.Ping, 0, 0, Buffer.alloc(8))]),
  ],
  [
    'CONTINUATION of another stream',
    Buffer.concat([headers(1, 1, requestBlock('GET')), encodeFrame(FrameType.Continuation, 4, 3)]),
  ],
  ['HPACK: an index that is not there', headers(1, 5, bytes(0xff, 0xff, 0x7f))],
  ['HPACK: index 0', headers(1, 5, bytes(0x80))],
  ['HPACK: an integer without end', headers(1, 5, Buffer.alloc(100, 0xff))],
  ['HPACK: a string longer than the block', headers(1, 5, bytes(0, 0x7f, 0xff, 0xff, 0x03, 65))],
  ['HPACK: Huffman padding of zeros', headers(1, 5, bytes(0, 0x81, 0x00, 0x81, 0x00))],
  ['HPACK: the end-of-string symbol', headers(1, 5, bytes(0, 0x84, 0xff, 0xff, 0xff, 0xff, 0))],
  [
    'HPACK: a table larger than allowed',
    headers(1, 5, Buffer.concat([bytes(0x3f, 0xff, 0xff, 0x7f), requestBlock('GET')])),
  ],
  ['HPACK: a table size behind a field', headers(1, 5, Buffer.concat([requestBlock('GET'), bytes(0x20)]))],
  ['RST_STREAM on no stream', rst(0)],
  ['RST_STREAM on an idle stream', rst(9)],
  ['SETTINGS on a stream', encodeFrame(FrameType.Settings, 0, 1)],
  ['SETTINGS of the wrong size', encodeFrame(FrameType.Settings, 0, 0, Buffer.alloc(5))],
  ['an acknowledgement with entries', encodeFrame(FrameType.Settings, 1, 0, Buffer.alloc(6))],
  ['a window beyond 2^31', encodeSettings([[Setting.InitialWindowSize, 0x80000000]])],
  ['frames below 16 KiB', encodeSettings([[Setting.MaxFrameSize, 1000]])],
  ['push that is 2', encodeSettings([[Setting.EnablePush, 2]])],
  ['PING on a stream', encodeFrame(FrameType.Ping, 0, 1, Buffer.alloc(8))],
  ['PING of the wrong size', encodeFrame(FrameType.Ping, 0, 0, Buffer.alloc(7))],
  ['GOAWAY on a stream', encodeFrame(FrameType.Goaway, 0, 1, Buffer.alloc(8))],
  ['GOAWAY that is cut', encodeFrame(FrameType.Goaway, 0, 0, Buffer.alloc(4))],
  ['a window update of nothing', encodeFrame(FrameType.WindowUpdate, 0, 0, uint32(0))],
  [
    'windows beyond 2^31',
    Buffer.concat([encodeFrame(8, 0, 0, uint32(0x7fffffff)), encodeFrame(8, 0, 0, uint32(0x7fffffff))]),
  ],
  [
    'PUSH_PROMISE of a client',
    encodeFrame(FrameType.PushPromise, 4, 1, Buffer.concat([uint32(2), requestBlock('GET')])),
  ],
  ['a frame above 16 KiB', data(1, 0, Buffer.alloc(20_000))],
  ['a frame of 16 MiB', Buffer.concat([bytes(0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1), Buffer.alloc(20_000)])],
  ['HTTP/1.1 behind the preface', Buffer.from('GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n')],
];

const prefaces: readonly (readonly [string, string])[] = [
  ['cut', 'PRI * HTTP/2.0\r\n\r\nSM\r\n'],
  ['with one byte changed', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\rX'],
  ['of HTTP/2.1', 'PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n'],
  ['twice', preface.toString('latin1').repeat(2)],
  ['behind a request', `GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n${preface.toString('latin1')}`],
  ['with a Host', 'PRI * HTTP/2.0\r\nHost: app1.test\r\n\r\nSM\r\n\r\n'],
  [
    'with another first frame',
    preface.toString('latin1') + encodeFrame(FrameType.Ping, 0, 0, Buffer.alloc(8)).toString('latin1'),
  ],
  ['with a first frame of 16 MiB', `${preface.toString('latin1')}\xff\xff\xff\x04\x00\x00\x00\x00\x00`],
];

overTransports(
  'a connection',
  (transport) => {
    it.each(fatal)('is ended for %s', async (_name, frames) => {
      f.app1.script = () => {};
      const connection = await connect(f, transport, { refill: false });
      connection.write(frames);
      await connection.waitForEnd();
      await until('the backend sockets to close', () => f.app1.open.length === 0);
    });

    it('is ended for the same one byte at a time', async () => {
      for (const [, frames] of fatal.slice(0, 12)) {
        const connection = await connect(f, transport);
        for (const byte of frames) connection.write(bytes(byte));
        await connection.waitForEnd();
      }
    });
  },
  h2Ways,
);

it.each(prefaces)('a preface %s is no way in', async (_name, text) => {
  const client = await RawClient.connect({ port: f.webPort });
  client.write(text);
  await client.waitForEnd(8000);
  expect(f.app1.exchanges.length).toBeLessThan(2);
});

async function play(connection: H2Connection, frames: readonly Buffer[], apart: boolean): Promise<void> {
  for (const frame of frames) {
    connection.write(frame);
    if (apart) await sleep(0);
  }
  await sleep(2);
  connection.destroy();
}

it('frames drawn at random end no process, and disturb no other connection', { timeout: 60_000 }, async () => {
  const [pid] = await f.p.workerPids();
  // An answer that takes its time: frames arrive before, within and after it.
  f.app1.script = (exchange) => {
    exchange.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n').complete();
    setTimeout(() => exchange.send('0\r\nX-Sum: 1\r\n\r\n'), 2);
  };
  const other = f.requester('h2c');
  await fc.assert(
    fc.asyncProperty(fc.array(clientFrame, { minLength: 1, maxLength: 12 }), fc.boolean(), async (frames, apart) => {
      await play(await connect(f, 'h2c'), [get(1), ...frames], apart);
    }),
    { numRuns: 150, seed: 9113 },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(clientFrame, { minLength: 1, maxLength: 12 }), fc.boolean(), async (frames, apart) => {
      await play(await connect(f, 'h2'), frames, apart);
    }),
    { numRuns: 50, seed: 7541 },
  );
  expect((await other.request({ host: 'alive.test' })).status).toBe(200);
  expect(await f.p.workerPids()).toEqual([pid]);
});
