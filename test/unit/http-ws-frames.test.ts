import { expect, test } from 'vitest';
import { closeFrame, FrameTracker } from '../../src/http/ws-frames.ts';
import { encodeWsFrame } from '../support/websocket-frames.ts';

test('frame boundaries are found however the bytes are cut', () => {
  const frames = [
    encodeWsFrame(1, 'short'),
    encodeWsFrame(2, Buffer.alloc(300)),
    encodeWsFrame(2, Buffer.alloc(70_000)),
    encodeWsFrame(9, ''),
    encodeWsFrame(1, 'masked', { mask: true }),
  ];
  const ends = new Set<number>();
  let total = 0;
  for (const frame of frames) {
    total += frame.length;
    ends.add(total);
  }
  const bytes = Buffer.concat(frames);
  const tracker = new FrameTracker();
  for (let at = 0; at < bytes.length; at++) {
    tracker.follow(bytes.subarray(at, at + 1), 0, false);
    if (tracker.boundary !== ends.has(at + 1)) throw new Error(`boundary at ${at + 1}: ${tracker.boundary}`);
  }
  const stepper = new FrameTracker();
  let at = 0;
  for (const end of ends) {
    at = stepper.follow(bytes, at, true);
    expect(at).toBe(end);
  }
  expect(stepper.closed).toBe(false);
  stepper.follow(closeFrame(1000, 'bye'), 0, false);
  expect(stepper.closed).toBe(true);
});
