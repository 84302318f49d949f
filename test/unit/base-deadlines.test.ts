import { expect, test } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import { type DeadlineHolder, Deadlines } from '../../src/base/deadlines.ts';

function handClock() {
  let now = 0;
  let tick = (): void => {};
  const clock: Clock = {
    now: () => now,
    monotonic: () => now,
    after: () => ({ cancel: () => {} }),
    every: (_ms, fn) => {
      tick = fn;
      return {
        cancel: () => {
          tick = () => {};
        },
      };
    },
  };
  return {
    clock,
    advance(ms: number): void {
      now += ms;
      tick();
    },
  };
}

class Connection implements DeadlineHolder {
  deadlineAt = 0;
  deadlinePlace = -1;
  reached = 0;
  deadlineReached(): void {
    this.reached++;
  }
}

test('a deadline is reached once, not before its time, and may be set anew', () => {
  const { clock, advance } = handClock();
  const deadlines = new Deadlines(clock);
  const connection = new Connection();
  deadlines.add(connection);
  connection.deadlineAt = deadlines.in(250);
  advance(200);
  expect(connection.reached).toBe(0);
  advance(100);
  expect([connection.reached, connection.deadlineAt]).toEqual([1, 0]);
  advance(1000);
  expect(connection.reached).toBe(1);
  connection.deadlineAt = deadlines.in(100);
  advance(100);
  expect(connection.reached).toBe(2);
});

test('no deadline, an infinite one, a removed holder and a closed sweep never call', () => {
  const { clock, advance } = handClock();
  const deadlines = new Deadlines(clock);
  const [none, infinite, removed, closed] = [new Connection(), new Connection(), new Connection(), new Connection()];
  for (const each of [none, infinite, removed, closed]) deadlines.add(each);
  infinite.deadlineAt = deadlines.in(Number.POSITIVE_INFINITY);
  removed.deadlineAt = deadlines.in(10);
  closed.deadlineAt = deadlines.in(500);
  deadlines.remove(removed);
  advance(400);
  deadlines.close();
  advance(400);
  expect([none.reached, infinite.reached, removed.reached, closed.reached]).toEqual([0, 0, 0, 0]);
});
