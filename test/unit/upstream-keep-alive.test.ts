import { expect, it } from 'vitest';
import { idleLimit } from '../../src/upstream/keep-alive.ts';

it.each([
  ['timeout=5', 4000],
  ['timeout=5, max=1000', 4000],
  ['max=100, Timeout=75', 74_000],
  ['max=100;timeout=1', 500],
  ['timeout=0', 0],
])('a backend that says "%s" finds the connection closed after %i ms', (keepAlive, ms) => {
  expect(idleLimit(keepAlive)).toBe(ms);
});

it.each(['', 'max=5', 'timeout', 'timeout=', 'timeout=soon', 'xtimeout=5', 'timeout=5s'])(
  '"%s" names no time',
  (keepAlive) => {
    expect(idleLimit(keepAlive)).toBe(Number.POSITIVE_INFINITY);
  },
);
