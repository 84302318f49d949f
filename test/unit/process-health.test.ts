import { expect, test } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { Health } from '../../src/process/health.ts';
import { HandClock } from '../support/hand-clock.ts';
import { routing, service } from '../support/routing.ts';

const part = routing({ services: [service('a', 1, ['h:1', 'h:2']), service('single', 1, ['h:1'])] });

function world() {
  const clock = new HandClock();
  let changes = 0;
  const health = new Health(clock, silentLog, () => changes++);
  return { clock, health, changes: () => changes };
}

test('an ejected backend is down until its time is over', () => {
  const { clock, health, changes } = world();
  health.eject('a', 'h:1', 5000);
  expect(health.part(part)).toEqual({ down: { a: ['h:1'] } });
  expect(changes()).toBe(1);
  clock.advance(5000);
  expect(health.part(part)).toEqual({ down: {} });
  expect(changes()).toBe(2);
});

test('several workers eject one backend once, for the longest time', () => {
  const { clock, health, changes } = world();
  health.eject('a', 'h:1', 5000);
  health.eject('a', 'h:1', 4000);
  expect(changes()).toBe(1);
  health.eject('a', 'h:1', 8000);
  clock.advance(5000);
  expect(health.isEjected('a', 'h:1')).toBe(true);
  clock.advance(3000);
  expect(health.isEjected('a', 'h:1')).toBe(false);
  expect(clock.pending).toBe(0);
});

test('ejections never take the last backend of a service', () => {
  const { health } = world();
  health.eject('single', 'h:1', 5000);
  health.eject('a', 'h:1', 5000);
  health.eject('a', 'h:2', 5000);
  expect(health.part(part)).toEqual({ down: {} });
});

test('addresses that are not served are not named', () => {
  const { health } = world();
  health.eject('a', 'h:9', 5000);
  health.eject('gone', 'h:1', 5000);
  expect(health.part(part)).toEqual({ down: {} });
});

test('a switch begins with a clean slate', () => {
  const { clock, health } = world();
  health.eject('a', 'h:1', 5000);
  health.eject('single', 'h:1', 5000);
  health.pardon('a', []);
  expect(health.isEjected('a', 'h:1')).toBe(false);
  expect(health.isEjected('single', 'h:1')).toBe(true);
  expect(clock.pending).toBe(1);
});
