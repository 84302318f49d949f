import { expect, test } from 'vitest';
import { type BackendHealth, observe, unknownHealth } from '../../src/model/health.ts';

const rules = { healthyAfter: 2, unhealthyAfter: 3 };

/** 'u' or 'd' after each result of "+-" in turn. */
function course(results: string, from: BackendHealth = unknownHealth): string {
  let health = from;
  return [...results]
    .map((result) => {
      health = observe(health, result === '+', rules);
      return health.up ? 'u' : 'd';
    })
    .join('');
}

test.each([
  ['--', 'uu'],
  ['---', 'uud'],
  ['--+--+--+', 'uuuuuuuuu'],
  ['---+', 'uudd'],
  ['---++', 'uuddu'],
  ['---+-+-++', 'uuddddddu'],
  ['---++--', 'uudduuu'],
])('%s gives %s: only results in a row flip the state', (results, states) => {
  expect(course(results)).toBe(states);
});

test('a state that holds is the same object', () => {
  expect(observe(unknownHealth, true, rules)).toBe(unknownHealth);
});
