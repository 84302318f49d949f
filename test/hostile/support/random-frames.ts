// HTTP/2 frames drawn at random: most of them nearly right, since what is quite wrong is refused by the first check.
// Invariant: everything a draw depends on comes from fast-check, so that a seed repeats it.
import fc from 'fast-check';
import { encodeFrame, encodeSettings, FrameType } from '../../support/h2-frames.ts';
import { encodeBlock } from '../../support/hpack.ts';
import { requestBlock, rst, uint32 } from './flood.ts';

const data = (id: number, flags: number, payload: Buffer): Buffer => encodeFrame(FrameType.Data, flags, id, payload);
const headers = (id: number, flags: number, payload: Buffer): Buffer =>
  encodeFrame(FrameType.Headers, flags, id, payload);

const smallId = fc.constantFrom(0, 1, 1, 3, 3, 5, 7, 2, 0x7fffffff);
const requestBlocks = fc.oneof(
  fc.constant(requestBlock('GET')),
  fc.constant(requestBlock('POST', [['content-length', '3']])),
  fc.constant(requestBlock('HEAD')),
  fc.constant(encodeBlock([['x', 'y']])),
  fc.constant(
    encodeBlock([
      [':method', 'CONNECT'],
      [':protocol', 'websocket'],
      [':scheme', 'http'],
      [':path', '/'],
      [':authority', 'app1.test'],
      ['sec-websocket-version', '13'],
    ]),
  ),
  fc.uint8Array({ maxLength: 60 }).map((each) => Buffer.from(each)),
);
const payload = fc.oneof(
  fc.uint8Array({ maxLength: 40 }).map((each) => Buffer.from(each)),
  fc.constantFrom(
    Buffer.alloc(0),
    Buffer.alloc(4),
    Buffer.alloc(5),
    Buffer.alloc(6),
    Buffer.alloc(8),
    uint32(1),
    uint32(0x7fffffff),
  ),
);
function framesWith(block: fc.Arbitrary<Buffer>): fc.Arbitrary<Buffer> {
  return fc.oneof(
    fc.tuple(fc.constantFrom(4, 5, 0, 1), smallId, block).map(([flags, id, each]) => headers(id, flags, each)),
    fc.tuple(fc.constantFrom(4, 0), smallId, block).map(([flags, id, each]) => encodeFrame(9, flags, id, each)),
    fc.tuple(fc.constantFrom(0, 1, 8, 9), smallId, payload).map(([flags, id, each]) => data(id, flags, each)),
    fc.tuple(smallId, fc.integer({ min: 0, max: 14 })).map(([id, code]) => rst(id, code)),
    fc.tuple(smallId, fc.constantFrom(0, 1, 1000, 0x7fffffff)).map(([id, size]) => encodeFrame(8, 0, id, uint32(size))),
    fc
      .array(fc.tuple(fc.integer({ min: 0, max: 10 }), fc.constantFrom(0, 1, 100, 65_535, 0x7fffffff)), {
        maxLength: 4,
      })
      .map(encodeSettings),
    fc
      .tuple(fc.integer({ min: 0, max: 14 }), fc.integer({ min: 0, max: 255 }), smallId, payload)
      .map(([type, flags, id, each]) => encodeFrame(type, flags, id, each)),
  );
}

/** What a client may send. */
export const clientFrame = framesWith(requestBlocks);

const answerBlocks = fc.oneof(
  fc.constant(encodeBlock([[':status', '200']])),
  fc.constant(
    encodeBlock([
      [':status', '200'],
      ['content-length', '3'],
    ]),
  ),
  fc.constant(encodeBlock([[':status', '204']])),
  fc.constant(
    encodeBlock([
      [':status', '103'],
      ['link', '</a>'],
    ]),
  ),
  fc.constant(encodeBlock([['x-sum', '1']])),
  fc.constant(
    encodeBlock([
      [':status', '200'],
      ['content-type', 'application/grpc'],
    ]),
  ),
  fc.uint8Array({ maxLength: 60 }).map((each) => Buffer.from(each)),
);

/** What a backend may send. */
export const backendFrame = framesWith(answerBlocks);
