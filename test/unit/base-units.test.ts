import { describe, expect, test } from 'vitest';
import { formatDuration, parseDuration, parseSize } from '../../src/base/units.ts';

describe('durations', () => {
  test.each([
    ['30s', 30_000],
    ['500ms', 500],
    ['5m', 300_000],
    ['1h30m', 5_400_000],
    ['1.5s', 1500],
    ['0s', 0],
    ['2d', 172_800_000],
  ])('%s is %d ms', (text, ms) => expect(parseDuration(text)).toBe(ms));
  test.each(['', '30', 's', '-1s', '1 s', '1e3s', 'infs', '1w', '99999999999999999999d'])('%j is refused', (text) => {
    expect(parseDuration(text)).toBeNull();
  });
  test.each([
    [90_000, '1m30s'],
    [500, '500ms'],
    [0, '0s'],
    [86_400_000, '1d'],
  ])('%d ms is written %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
    expect(parseDuration(text)).toBe(ms);
  });
});

describe('sizes', () => {
  test.each([
    ['512B', 512],
    ['32KiB', 32_768],
    ['1MB', 1_000_000],
    ['1.5GiB', 1_610_612_736],
    ['5 kB', 5000],
  ])('%s is %d bytes', (text, bytes) => expect(parseSize(text)).toBe(bytes));
  test.each(['', '12', 'MB', '-1B', '1mb', '1e3B', '99999999999TB'])('%j is refused', (text) => {
    expect(parseSize(text)).toBeNull();
  });
});
