// Requests that the client breaks, so that the server resets them itself.
//
// CVE-2025-8671 (oven-sh/bun#36230): a frame that is wrong for one stream makes the server send the RST_STREAM. Whoever
// counts only the resets of clients is back at the rapid reset. Found here: malformed trailers and a body shorter than its
// length went on for ever, each with a request at the backend.
import { expect, it } from 'vitest';
import { encodeFrame, FrameType } from '../support/h2-frames.ts';
import { encodeBlock } from '../support/hpack.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import type { Line } from '../support/recorder.ts';
import { overTransports } from '../support/transports.ts';
import { until } from '../support/wait.ts';
import { flood, get, post, requestBlock, streamId, tripped, uint32 } from './support/flood.ts';
import { h2Ways } from './support/provoke.ts';

const f = useProxy({ workers: 1 });

const sized = (id: number): Buffer => post(id, [['content-length', '5']]);
const trailers = (id: number, lines: readonly Line[], flags = 5): Buffer =>
  encodeFrame(FrameType.Headers, flags, id, encodeBlock(lines));

const traps: readonly (readonly [string, (id: number) => Buffer, (id: number) => Buffer])[] = [
  ['a window beyond 2^31', get, (id) => encodeFrame(FrameType.WindowUpdate, 0, id, uint32(0x7fffffff))],
  ['a window update of nothing', get, (id) => encodeFrame(FrameType.WindowUpdate, 0, id, uint32(0))],
  ['a window update of the wrong size', get, (id) => encodeFrame(FrameType.WindowUpdate, 0, id, Buffer.alloc(3))],
  [
    'a priority that depends on itself',
    get,
    (id) => encodeFrame(FrameType.Priority, 0, id, Buffer.concat([uint32(id), Buffer.of(1)])),
  ],
  ['a priority of the wrong size', get, (id) => encodeFrame(FrameType.Priority, 0, id, Buffer.alloc(4))],
  ['data after the end', get, (id) => encodeFrame(FrameType.Data, 0, id, Buffer.from('x'))],
  ['a head after the end', get, get],
  ['a reset of the wrong size', get, (id) => encodeFrame(FrameType.RstStream, 0, id, Buffer.alloc(3))],
  ['a push promise', get, (id) => encodeFrame(FrameType.PushPromise, 4, id, uint32(2))],
  ['a pseudo-header field in the trailers', sized, (id) => trailers(id, [[':path', '/']])],
  ['an unknown pseudo-header field in the trailers', sized, (id) => trailers(id, [[':bad', 'x']])],
  ['a connection field in the trailers', sized, (id) => trailers(id, [['connection', 'x']])],
  ['a capital in the trailers', sized, (id) => trailers(id, [['X', 'x']])],
  ['trailers that do not end the stream', sized, (id) => trailers(id, [['x', 'x']], 4)],
  ['a body longer than its length', sized, (id) => encodeFrame(FrameType.Data, 1, id, Buffer.from('123456'))],
  ['a body shorter than its length', sized, (id) => encodeFrame(FrameType.Data, 1, id, Buffer.from('123'))],
  ['padding longer than the frame', sized, (id) => encodeFrame(FrameType.Data, 9, id, Buffer.of(200, 1, 2))],
  [
    'a header list too long for trailers',
    sized,
    (id) =>
      trailers(
        id,
        Array.from({ length: 600 }, (_each, i): Line => [`x${i}`, '']),
      ),
  ],
];

overTransports(
  'a client that has its streams reset',
  (transport) => {
    it.each(traps)('by %s is cut off, and hardly any request reaches the backend', async (_name, opening, trip) => {
      f.app1.script = () => {};
      const { connection, sent } = await tripped(f, transport, opening, trip, 400);
      expect(connection.closed, `after ${sent}`).toBe(true);
      expect(f.app1.exchanges.length).toBeLessThan(250);
      await until('the backend sockets to close', () => f.app1.open.length === 0);
    });

    it.each([
      ['connection fields', [['connection', 'x']]],
      ['no path', [[':path', '']]],
      ['a capital', [['X', 'x']]],
      ['two paths', [[':path', '/']]],
    ] as const)('by requests with %s is cut off', async (_name, extra) => {
      const block = requestBlock('GET', extra as unknown as Line[]);
      const { connection, sent } = await flood(f, transport, (i) =>
        encodeFrame(FrameType.Headers, 5, streamId(i), block),
      );
      expect(connection.closed, `after ${sent}`).toBe(true);
      expect(f.app1.exchanges.length).toBe(0);
    });

    it('now and then is served on', async () => {
      f.app1.script = () => {};
      const { connection } = await tripped(f, transport, sized, (id) => trailers(id, [['connection', 'x']]), 20);
      expect(connection.closed).toBe(false);
      expect(f.app1.exchanges.length).toBe(20);
    });
  },
  h2Ways,
);
