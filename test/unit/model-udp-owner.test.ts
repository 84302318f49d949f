import { expect, test } from 'vitest';
import { assignOwners } from '../../src/model/udp-owner.ts';

const none = new Map<string, string>();

test('entrypoints are spread over the workers', () => {
  expect([...assignOwners(['a', 'b', 'c'], ['1', '2'], none)]).toEqual([
    ['a', '1'],
    ['b', '2'],
    ['c', '1'],
  ]);
});

test('who owns goes on owning, also when a worker came that owns nothing', () => {
  const owners = new Map([
    ['a', '2'],
    ['b', '2'],
  ]);
  expect(assignOwners(['b', 'a'], ['1', '2', '3'], owners)).toEqual(owners);
});

test('what a dead worker owned goes to those with the least', () => {
  const owners = new Map([
    ['a', 'dead'],
    ['b', '1'],
    ['c', 'dead'],
  ]);
  expect(assignOwners(['a', 'b', 'c'], ['1', '2'], owners)).toEqual(
    new Map([
      ['b', '1'],
      ['a', '2'],
      ['c', '1'],
    ]),
  );
});

test('an entrypoint that is gone is owned by nobody, and without workers nothing is', () => {
  expect(assignOwners(['a'], ['1'], new Map([['old', '1']]))).toEqual(new Map([['a', '1']]));
  expect(assignOwners(['a'], [], new Map([['a', '1']]))).toEqual(none);
});
