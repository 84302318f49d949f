// Frames that cost the sender nothing and make the receiver work, answer or remember.
//
// CVE-2019-9512 (PING), -9515 (SETTINGS), -9518 (empty frames), -9513 and -9511 (priorities, windows), CVE-2024-27316 and
// -27983 (CONTINUATION without end), CVE-2016-6581 (a header table used as a bomb).
import { expect, it } from 'vitest';
import { encodeFrame, encodeSettings, FrameType, type H2Connection, Setting } from '../support/h2-frames.ts';
import { encodeBlock } from '../support/hpack.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import type { Line } from '../support/recorder.ts';
import { overTransports } from '../support/transports.ts';
import { residentSize } from '../support/turnpike.ts';
import { until } from '../support/wait.ts';
import { connect, flood, get, post, requestBlock, streamId, uint32 } from './support/flood.ts';
import { h2Ways } from './support/provoke.ts';

const f = useProxy({ workers: 1 });

const miB = 1024 * 1024;

async function workerSize(): Promise<number> {
  const [pid] = await f.p.workerPids();
  return residentSize(pid!);
}

const resets = (connection: H2Connection): number =>
  connection.frames.filter((frame) => frame.type === FrameType.RstStream).length;
const ping = encodeFrame(FrameType.Ping, 0, 0, Buffer.alloc(8));
const after = (first: Buffer, frame: (i: number) => Buffer) => (i: number) => (i === 0 ? first : frame(i));

/** Cut off: the connection ends long before the flood does. */
const cutOff: readonly (readonly [string, (i: number) => Buffer])[] = [
  ['PING', () => ping],
  ['PING acknowledgements', () => encodeFrame(FrameType.Ping, 1, 0, Buffer.alloc(8))],
  ['SETTINGS', () => encodeSettings([[Setting.InitialWindowSize, 65_535]])],
  ['empty SETTINGS', () => encodeSettings([])],
  ['SETTINGS of a hundred entries', () => encodeSettings(Array.from({ length: 100 }, (_each, i) => [1, i] as const))],
  [
    'windows that change with every SETTINGS',
    (i) => encodeSettings([[Setting.InitialWindowSize, i % 2 === 0 ? 0 : 65_535]]),
  ],
  [
    'header tables that change with every SETTINGS',
    (i) => encodeSettings([[Setting.HeaderTableSize, (i % 2) * 65_536]]),
  ],
  ['priorities', (i) => encodeFrame(FrameType.Priority, 0, streamId(i), Buffer.of(0, 0, 0, 0, 1))],
  ['unknown frames', () => encodeFrame(0xfa, 0, 0, Buffer.alloc(10))],
  ['empty unknown frames', () => encodeFrame(0xfa, 0, 0)],
  ['extension frames', () => encodeFrame(10, 0, 0, Buffer.of(0, 1, 97, 98))],
  ['requests beyond the streams allowed', (i) => post(streamId(i))],
  ['empty CONTINUATION', after(encodeFrame(FrameType.Headers, 0, 1, requestBlock('GET')), () => encodeFrame(9, 0, 1))],
  [
    'CONTINUATION of 16 KiB',
    after(encodeFrame(FrameType.Headers, 0, 1, requestBlock('GET')), () =>
      encodeFrame(FrameType.Continuation, 0, 1, encodeBlock([['x', 'a'.repeat(16_000)]])),
    ),
  ],
  ['empty DATA', after(post(1), () => encodeFrame(FrameType.Data, 0, 1))],
  ['DATA of padding only', after(post(1), () => encodeFrame(FrameType.Data, 8, 1, Buffer.of(0)))],
  ['resets of streams that never were', (i) => encodeFrame(FrameType.RstStream, 0, streamId(i), uint32(8))],
  ['window updates of streams that never were', (i) => encodeFrame(FrameType.WindowUpdate, 0, streamId(i), uint32(1))],
  [
    'updates of the header table size',
    (i) =>
      encodeFrame(FrameType.Headers, 5, streamId(i), Buffer.concat([Buffer.alloc(1000, 0x20), requestBlock('GET')])),
  ],
  [
    'heads of fields without a name',
    (i) =>
      encodeFrame(
        FrameType.Headers,
        5,
        streamId(i),
        requestBlock(
          'GET',
          Array.from({ length: 100 }, (): Line => ['', '']),
        ),
      ),
  ],
  ['references to one long field, refused unseen', (i) => encodeFrame(FrameType.Headers, 5, streamId(i), bombOf(i))],
  // One that is served now and then must not hide them.
  [
    'such references, with a request among every fifty',
    (i) => (i % 50 === 0 ? get(streamId(i)) : encodeFrame(FrameType.Headers, 5, streamId(i), bombOf(i))),
  ],
];

/** 3 900 bytes that go into the header table, then a head that names them 4 000 times in as many bytes. */
function bombOf(i: number): Buffer {
  const value = Buffer.alloc(3900, 97 + (i % 20));
  const store = Buffer.of(0x40, 1, 0x78, 0x7f, 0x80 | ((3900 - 127) & 127), (3900 - 127) >> 7);
  return Buffer.concat([requestBlock('GET'), store, value, Buffer.alloc(4000, 0xbe)]);
}

overTransports(
  'a flood',
  (transport) => {
    it.each(cutOff)('of %s is cut off', async (_name, frame) => {
      const before = await workerSize();
      const { connection, sent } = await flood(f, transport, frame);
      expect(connection.closed, `after ${sent}`).toBe(true);
      expect(f.app1.exchanges.length).toBeLessThan(200);
      expect((await workerSize()) - before).toBeLessThan(32 * miB);
    });

    it.each(cutOff.slice(0, 7))('of %s whose answers nobody reads is cut off', async (_name, frame) => {
      const before = await workerSize();
      const { connection, sent } = await flood(f, transport, frame, { read: false, count: 200_000 });
      expect(connection.closed, `after ${sent}`).toBe(true);
      expect(sent).toBeLessThan(200_000);
      expect((await workerSize()) - before).toBeLessThan(32 * miB);
    });

    it.each([
      ['connection windows', () => encodeFrame(FrameType.WindowUpdate, 0, 0, uint32(1))],
      ['large unknown frames', () => encodeFrame(0xfa, 0, 0, Buffer.alloc(16_000))],
    ] as const)('of %s costs nothing that stays', async (_name, frame) => {
      const before = await workerSize();
      await flood(f, transport, frame, { count: 2000, patienceMs: 100 });
      expect((await workerSize()) - before).toBeLessThan(16 * miB);
    });

    it('of references to one long field of the header table is refused, request by request', async () => {
      // 3 900 bytes in the table, then a head that names them 15 000 times in as many bytes: 60 MB if anyone unpacked it.
      const value = Buffer.alloc(3900, 97);
      const store = Buffer.concat([
        Buffer.of(0x40, 1, 0x78, 0x7f, 0x80 | ((3900 - 127) & 127), (3900 - 127) >> 7),
        value,
      ]);
      const bomb = Buffer.concat([requestBlock('GET'), Buffer.alloc(15_000, 0xbe)]);
      const connection = await connect(f, transport);
      const before = await workerSize();
      connection.write(encodeFrame(FrameType.Headers, 5, 1, Buffer.concat([requestBlock('GET'), store])));
      for (let i = 1; i < 100; i++) connection.write(encodeFrame(FrameType.Headers, 5, streamId(i), bomb));
      await f.app1.waitForExchange(1);
      await until('the bombs to be judged', () => connection.closed || resets(connection) === 99);
      expect(f.app1.exchanges.length).toBe(1);
      expect((await workerSize()) - before).toBeLessThan(32 * miB);
    });

    it('leaves other connections alone', async () => {
      const other = f.requester(transport);
      const flooding = Promise.all([
        flood(f, transport, () => ping),
        flood(f, transport, () => encodeSettings([])),
        flood(f, transport, (i) => get(streamId(i))),
      ]);
      for (let i = 0; i < 20; i++) expect((await other.request({ host: 'alive.test' })).status).toBe(200);
      await flooding;
    });
  },
  h2Ways,
);
