import { expect, test } from 'vitest';
import { type Drain, Drains } from '../../src/process/drains.ts';
import { HandClock } from '../support/hand-clock.ts';
import { routing, service, snapshot } from '../support/routing.ts';

const from = snapshot(
  1,
  routing({ services: [service('a', 1, ['h:1']), service('b', 1, ['h:2']), service('c', 7, ['h:3'])] }),
);
const to = snapshot(2, routing({ services: [service('a', 2, ['h:9']), service('b', 1, ['h:2'])] }));

function begun(workers: readonly string[] = ['w1', 'w2']) {
  const clock = new HandClock();
  const drains = new Drains(clock);
  const [a, c] = drains.begin(from, to, workers) as [Drain, Drain];
  const tell = (worker: string, generation: number, claimed = 0, forced = 0, name = 'a'): void =>
    drains.drained(worker, { kind: 'drained', service: name, generation, claimed, forced });
  return { clock, drains, a, c, tell };
}

test('what was replaced and what left is expected to drain, the rest is not', () => {
  const { a, c, drains } = begun();
  expect([a, c].map(({ service: name, generation }) => `${name}#${generation}`)).toEqual(['a#1', 'c#7']);
  expect(drains.running()).toHaveLength(2);
});

test('drained means every worker has said so; numbers add up and the last one sets the time', async () => {
  const { clock, a, tell } = begun();
  clock.advance(100);
  tell('w1', 1, 10, 1);
  expect(a.tookMs).toBeNull();
  clock.advance(50);
  tell('w2', 1, 5);
  await a.done;
  expect(a).toMatchObject({ claimed: 15, forced: 1, tookMs: 150 });
});

test('a worker that is gone has nothing left to drain', async () => {
  const { a, drains, tell } = begun();
  tell('w1', 1, 3);
  drains.left('w2');
  await a.done;
  expect(a.claimed).toBe(3);
});

test('other generations, other services, strangers and repeated words do not count', () => {
  const { a, tell } = begun();
  tell('w1', 2);
  tell('w1', 1, 1, 0, 'b');
  tell('w9', 1);
  tell('w1', 1, 4);
  tell('w1', 1, 4);
  expect(a).toMatchObject({ claimed: 4, tookMs: null });
});

test('without workers everything is drained at once', () => {
  const { a, drains } = begun([]);
  expect(a.tookMs).toBe(0);
  expect(drains.running()).toEqual([]);
});
