import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Histogram } from '../../src/load/histogram.ts';

const percents = [0.1, 1, 25, 50, 75, 90, 99, 99.9, 100];

function exact(sorted: readonly number[], percent: number): number {
  return sorted[Math.max(1, Math.ceil((percent / 100) * sorted.length)) - 1]!;
}

test('a percentile is never below the value at its rank, and at most 0.1 % above', () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 2 ** 31 - 1 }), { minLength: 1, maxLength: 300 }), (values) => {
      const histogram = new Histogram();
      for (const value of values) histogram.record(value);
      const sorted = values.toSorted((a, b) => a - b);
      for (const percent of percents) {
        const truth = exact(sorted, percent);
        const told = histogram.percentile(percent);
        expect(told).toBeGreaterThanOrEqual(truth);
        expect(told).toBeLessThanOrEqual(truth * 1.001);
      }
    }),
    { numRuns: 300 },
  );
});

test('values up to 2 ms are told exactly', () => {
  const histogram = new Histogram();
  for (let value = 0; value <= 2047; value++) histogram.record(value);
  for (const percent of percents) {
    expect(histogram.percentile(percent)).toBe(
      exact(
        Array.from({ length: 2048 }, (_, i) => i),
        percent,
      ),
    );
  }
});

test('mean, least and most are those of what was recorded, fractions rounded', () => {
  const histogram = new Histogram();
  for (const value of [1.4, 100, 1_000_000]) histogram.record(value);
  expect(histogram.summary([50])).toEqual({
    count: 3,
    mean: 1_000_101 / 3,
    min: 1,
    max: 1_000_000,
    percentiles: { 50: 100 },
  });
});

test('nothing recorded has no percentiles', () => {
  expect(new Histogram().summary([50]).percentiles['50']).toBeNaN();
});

test('values beyond the last bucket are counted in it', () => {
  const histogram = new Histogram();
  histogram.record(1e15);
  expect(histogram.percentile(50)).toBe(2 ** 31 - 1);
});
