import { describe, expect, it } from 'vitest';
import {
  calm,
  climb,
  type LoadReading,
  type Overload,
  rungs,
  shedShare,
  shedsStays,
} from '../../src/model/overload.ts';

const limitMs = 400;
const reading = (delayMs: number, descriptors = 0): LoadReading => ({ delayMs, descriptors, descriptorLimit: 1000 });

function after(readings: readonly LoadReading[], from: Overload = calm): Overload {
  return readings.reduce((state, each) => climb(state, each, limitMs), from);
}

const rungOf = (state: Overload) => rungs[state.rung];
const times = (count: number, each: LoadReading): readonly LoadReading[] => Array.from({ length: count }, () => each);

describe('the overload ladder', () => {
  it.each([
    ['nothing', reading(0), 'calm'],
    ['a little delay', reading(199), 'calm'],
    ['half the limit', reading(200), 'close-idle'],
    ['almost the limit', reading(399), 'close-idle'],
    ['the limit', reading(400), 'shed'],
    ['almost four times the limit', reading(1599), 'shed'],
    ['four times the limit', reading(1600), 'stop-accepting'],
    ['under four fifths of the descriptors', reading(0, 799), 'calm'],
    ['four fifths', reading(0, 800), 'close-idle'],
    ['nine tenths', reading(0, 900), 'shed'],
    ['under nineteen twentieths', reading(0, 949), 'shed'],
    ['nineteen twentieths', reading(0, 950), 'stop-accepting'],
    ['more than there may be', reading(0, 1001), 'stop-accepting'],
    ['the worse of the two counts, here the delay', reading(500, 810), 'shed'],
    ['the worse of the two counts, here the descriptors', reading(210, 960), 'stop-accepting'],
  ] as const)('by %s, twice, is on the rung that belongs to it', (_name, each, rung) => {
    expect(rungOf(after([each, each]))).toBe(rung);
  });

  it('is not climbed for one pause, however long', () => {
    expect(after([reading(0), reading(10_000)]).rung).toBe(0);
    expect(after([reading(10_000), reading(10), reading(10_000), reading(10)]).rung).toBe(0);
    // Two readings agree on what the lesser of them says.
    expect(rungOf(after([reading(10_000), reading(210)]))).toBe('close-idle');
  });

  it('is climbed at once for descriptors', () => {
    expect(rungOf(after([reading(0, 960)]))).toBe('stop-accepting');
  });

  it('is left one rung at a time, each after two seconds of quiet at the earliest', () => {
    const top = after([reading(0, 960)]);
    const quiet = reading(0);
    expect(rungOf(after(times(3, quiet), top))).toBe('stop-accepting');
    expect(rungOf(after(times(4, quiet), top))).toBe('shed');
    expect(rungOf(after(times(7, quiet), top))).toBe('shed');
    expect(rungOf(after(times(8, quiet), top))).toBe('close-idle');
    expect(rungOf(after(times(12, quiet), top))).toBe('calm');
    expect(after(times(12, quiet), top)).toEqual(calm);
  });

  it('is left later when it was hot', () => {
    const hot = after(times(6, reading(0, 960)));
    expect(rungOf(after(times(7, reading(0)), hot))).toBe('stop-accepting');
    expect(rungOf(after(times(8, reading(0)), hot))).toBe('shed');
  });

  it('does not swing between two rungs at the edge of one', () => {
    const just = after([reading(400), reading(400)]);
    expect(rungOf(after(times(100, reading(361)), just))).toBe('shed');
    expect(rungOf(after(times(100, reading(0, 811)), after([reading(0, 900)])))).toBe('shed');
    expect(rungOf(after(times(100, reading(359)), just))).toBe('close-idle');
  });

  it('climbs again from wherever it is', () => {
    const falling = after(times(5, reading(0)), after([reading(0, 960)]));
    expect(rungOf(falling)).toBe('shed');
    expect(rungOf(climb(falling, reading(0, 999), limitMs))).toBe('stop-accepting');
  });

  it('sheds what would stay at once, and requests by degrees', () => {
    const on = after([reading(0, 900)]);
    expect([shedsStays(on), shedShare(on)]).toEqual([true, 0.5]);
    expect(shedShare(after([reading(0, 900)], on))).toBe(0.75);
    expect(shedShare(after(times(9, reading(0, 900)), on))).toBe(1);
    expect(shedShare(after([reading(0)], on))).toBe(0.375);
    const below = after([reading(0, 800)]);
    expect([shedsStays(below), shedShare(below)]).toEqual([false, 0]);
    expect(shedShare(after([reading(0, 960)]))).toBe(1);
  });

  it('with a delay that may be unlimited, is climbed for descriptors alone', () => {
    const never = Number.MAX_SAFE_INTEGER;
    expect(climb(climb(calm, reading(60_000), never), reading(60_000), never).rung).toBe(0);
    expect(climb(calm, reading(60_000, 900), never).rung).toBe(2);
  });
});
