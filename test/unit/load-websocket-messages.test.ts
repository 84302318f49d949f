import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FrameReader, maskedFrame } from '../../src/load/websocket-messages.ts';
import { decodeWsFrames, encodeWsFrame, Opcode } from '../support/websocket-frames.ts';

test.each([0, 1, 125, 126, 65_535, 65_536, 100_000])('a message of %i bytes is one masked binary frame', (length) => {
  const payload = Buffer.alloc(length, 'abc');
  const { frames, rest } = decodeWsFrames(maskedFrame(payload));
  expect(rest).toHaveLength(0);
  expect(frames).toHaveLength(1);
  expect(frames[0]!.opcode).toBe(Opcode.Binary);
  expect(frames[0]!.payload.equals(payload)).toBe(true);
});

test('messages are counted however the bytes are cut; pings and fragments are none', () => {
  const fragment = encodeWsFrame(Opcode.Text, 'first half');
  fragment[0]! &= 0x7f;
  const bytes = Buffer.concat([
    encodeWsFrame(Opcode.Text, 'one'),
    encodeWsFrame(Opcode.Ping, 'ping'),
    encodeWsFrame(Opcode.Binary, Buffer.alloc(0)),
    fragment,
    encodeWsFrame(Opcode.Pong, ''),
    encodeWsFrame(Opcode.Continuation, 'second half'),
    encodeWsFrame(Opcode.Binary, Buffer.alloc(70_000)),
    encodeWsFrame(Opcode.Text, Buffer.alloc(300)),
  ]);
  fc.assert(
    fc.property(fc.array(fc.nat({ max: bytes.length }), { maxLength: 20 }), (cuts) => {
      const reader = new FrameReader();
      const ends = [...cuts.toSorted((a, b) => a - b), bytes.length];
      let at = 0;
      let messages = 0;
      for (const end of ends) {
        messages += reader.read(bytes.subarray(at, end));
        at = end;
      }
      expect(messages).toBe(5);
      expect(reader.closed).toBe(false);
    }),
  );
});

test('a close frame is noticed', () => {
  const reader = new FrameReader();
  expect(reader.read(encodeWsFrame(Opcode.Close, Buffer.from([3, 232])))).toBe(0);
  expect(reader.closed).toBe(true);
});
