import { isIPv4 } from 'node:net';
import { expect, test } from 'vitest';
import { Resolver } from '../../src/udp/resolver.ts';
import { HandClock } from '../support/hand-clock.ts';
import { until } from '../support/wait.ts';

test('an address is what it is, without a question', () => {
  const resolver = new Resolver(new HandClock());
  const never = (): never => {
    throw new Error('asked');
  };
  expect(resolver.resolve('127.0.0.1', never)).toBe('127.0.0.1');
  expect(resolver.resolve('::1', never)).toBe('::1');
});

test('a name is asked for once at a time, kept for five seconds, and asked for again', async () => {
  const clock = new HandClock();
  const resolver = new Resolver(clock);
  const told: (string | null)[] = [];
  const listen = (address: string | null): void => {
    told.push(address);
  };
  expect(resolver.resolve('localhost', listen)).toBeNull();
  expect(resolver.resolve('localhost', listen)).toBeNull();
  await until('both answers', () => told.length === 2);
  expect(told.every((address) => address !== null && isIPv4(address))).toBe(true);
  clock.advance(4999);
  expect(resolver.resolve('localhost', listen)).toBe(told[0]);
  clock.advance(1);
  expect(resolver.resolve('localhost', listen)).toBeNull();
  await until('the answer', () => told.length === 3);
});

test('a name without an address is told as one, and asked for anew the next time', async () => {
  const resolver = new Resolver(new HandClock());
  const told: (string | null)[] = [];
  for (let i = 0; i < 2; i++) {
    expect(resolver.resolve('nowhere.invalid', (address) => told.push(address))).toBeNull();
    await until('the answer', () => told.length === i + 1);
  }
  expect(told).toEqual([null, null]);
});
