import { expect, test } from 'vitest';
import { parseBackend } from '../../src/model/backend.ts';
import type { RoutingPart } from '../../src/model/snapshot.ts';
import { addressesOf, type Intent, resolveServices, type StoredService } from '../../src/process/service-state.ts';
import { routing, service } from '../support/routing.ts';

/** Services as compiled from a file that says these addresses. */
function file(addresses: Readonly<Record<string, readonly string[]>>): RoutingPart {
  const services = Object.entries(addresses).map(([name, list]) => {
    const backends = list.map((address) => parseBackend(address)!);
    return { ...service(name, 1, list), generation: { number: 1, backends, origin: `config.toml ${name}` } };
  });
  return routing({ services });
}

/** One process after the other over the same stored rows. */
class History {
  #stored: ReadonlyMap<string, StoredService> = new Map();

  publish(part: RoutingPart, intents: Readonly<Record<string, Intent>> = {}): string[] {
    const { routing: resolved, changed } = resolveServices(part, this.#stored, new Map(Object.entries(intents)));
    this.#stored = new Map([...this.#stored, ...changed.map((row) => [row.name, row] as const)]);
    return resolved.services.map(
      ({ name, generation, state }) => `${name}#${generation.number} ${addressesOf(generation.backends)} ${state}`,
    );
  }

  stored(name: string): StoredService | undefined {
    return this.#stored.get(name);
  }
}

const to = (...addresses: string[]): Intent => ({
  kind: 'switch',
  backends: addresses.map((address) => parseBackend(address)!),
  at: 0,
});
const old = ['10.0.0.1:80'];

test('the first publication numbers every service 1, and publishing again changes nothing', () => {
  const history = new History();
  expect(history.publish(file({ a: old }))).toEqual(['a#1 10.0.0.1:80 run']);
  expect(resolveServices(file({ a: old }), new Map([['a', history.stored('a')!]])).changed).toEqual([]);
});

test('other addresses are a new generation, another order is not', () => {
  const history = new History();
  history.publish(file({ a: ['10.0.0.1:80', '10.0.0.2:80'] }));
  expect(history.publish(file({ a: ['10.0.0.2:80', '10.0.0.1:80'] }))[0]).toMatch(/^a#1 /);
  expect(history.publish(file({ a: ['10.0.0.3:80'] }))).toEqual(['a#2 10.0.0.3:80 run']);
});

test('a switch holds over reloads until the file says something else', () => {
  const history = new History();
  history.publish(file({ a: old }));
  expect(history.publish(file({ a: old }), { a: to('10.0.0.9:80') })).toEqual(['a#2 10.0.0.9:80 run']);
  expect(history.publish(file({ a: old }))).toEqual(['a#2 10.0.0.9:80 run']);
  expect(history.stored('a')?.override).toMatchObject({ addresses: ['10.0.0.9:80'], declared: old });
  expect(history.publish(file({ a: ['10.0.0.5:80'] }))).toEqual(['a#3 10.0.0.5:80 run']);
  expect(history.stored('a')?.override).toBeNull();
});

test('a switch can be undone to what the file says, with a new number', () => {
  const history = new History();
  history.publish(file({ a: old }));
  history.publish(file({ a: old }), { a: to('10.0.0.9:80') });
  expect(history.publish(file({ a: old }), { a: { kind: 'to-config' } })).toEqual(['a#3 10.0.0.1:80 run']);
});

test('a switch to where it is already is remembered without a new generation', () => {
  const history = new History();
  history.publish(file({ a: old }));
  expect(history.publish(file({ a: old }), { a: to('10.0.0.1:80') })).toEqual(['a#1 10.0.0.1:80 run']);
  expect(history.stored('a')?.override?.addresses).toEqual(old);
});

test('a paused service stays paused over reloads and switches', () => {
  const history = new History();
  history.publish(file({ a: old }));
  history.publish(file({ a: old }), { a: { kind: 'state', state: 'paused' } });
  expect(history.publish(file({ a: old }))).toEqual(['a#1 10.0.0.1:80 paused']);
  expect(history.publish(file({ a: old }), { a: to('10.0.0.9:80') })).toEqual(['a#2 10.0.0.9:80 paused']);
  expect(history.publish(file({ a: old }), { a: { kind: 'state', state: 'run' } })).toEqual(['a#2 10.0.0.9:80 run']);
});

test('a service that left and comes back starts afresh but never reuses a number', () => {
  const history = new History();
  history.publish(file({ a: old, b: old }));
  history.publish(file({ a: old, b: old }), { a: to('10.0.0.9:80') });
  history.publish(file({ a: old, b: old }), { a: { kind: 'state', state: 'stopped' } });
  history.publish(file({ b: old }));
  expect(history.publish(file({ a: old, b: old }))[0]).toBe('a#3 10.0.0.1:80 run');
});

test.each([
  ['localhost:3000', 'localhost:3000', 'localhost'],
  ['[::1]:80', '[::1]:80', '::1'],
  ['[0:0::1]:80', '[::1]:80', '::1'],
  ['127.0.0.1:65535', '127.0.0.1:65535', '127.0.0.1'],
])('%s is a backend', (text, address, host) => {
  expect(parseBackend(text)).toMatchObject({ address, host });
});

test.each(['localhost', '127.0.0.1', ':80', 'a b:80', 'a:0', 'a:65536', '::1:80', 'http://a:80', ''])(
  '"%s" is not a backend',
  (text) => {
    expect(parseBackend(text)).toBeNull();
  },
);

test('another process behind the same addresses is another generation; the same one is not', () => {
  const declared = file({ 'blog/web': ['127.0.0.1:4000'] });
  const numbers: number[] = [];
  let stored: ReadonlyMap<string, StoredService> = new Map();
  for (const instance of ['a', 'a', 'b', 'b', 'a']) {
    const resolved = resolveServices(declared, stored, new Map(), new Map([['blog/web', instance]]));
    stored = new Map([...stored, ...resolved.changed.map((row) => [row.name, row] as const)]);
    numbers.push(resolved.routing.services[0]!.generation.number);
  }
  expect(numbers).toEqual([1, 1, 2, 2, 3]);
});

test('a hold that an app asks for lasts beside what the operator asks for', () => {
  const [service] = file({ 'blog/web': ['127.0.0.1:4000'] }).services;
  const held = routing({ services: [{ ...service!, state: 'paused' }] });
  const state = (intents: Readonly<Record<string, Intent>>) =>
    resolveServices(held, new Map(), new Map(Object.entries(intents))).routing.services[0]?.state;
  expect(state({})).toBe('paused');
  expect(state({ 'blog/web': { kind: 'state', state: 'stopped' } })).toBe('stopped');
});
