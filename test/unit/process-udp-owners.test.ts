import { expect, test } from 'vitest';
import type { Entrypoint } from '../../src/model/snapshot.ts';
import { assignOwners } from '../../src/model/udp-owner.ts';
import { UdpOwners } from '../../src/process/udp-owners.ts';
import type { WorkerChannel } from '../../src/process/worker-handle.ts';
import { entrypoint } from '../support/routing.ts';

/** Hears what it owns. */
class Channel {
  readonly id: string;
  readonly told: string[][] = [];

  constructor(id: string) {
    this.id = id;
  }

  tell(message: { kind: string; keys: readonly string[] }): void {
    expect(message.kind).toBe('own');
    this.told.push([...message.keys]);
  }

  get owns(): string[] {
    return this.told.at(-1) ?? [];
  }
}

function pool(...ids: string[]) {
  const channels = ids.map((id) => new Channel(id));
  let here = channels;
  const owners = new UdpOwners(() => here as unknown as WorkerChannel[]);
  return {
    owners,
    channels,
    set(...next: Channel[]) {
      here = next;
    },
  };
}

const udp = (port: number): Entrypoint => entrypoint(`udp-${port}`, { protocol: 'udp', port, host: '' });
const key = (port: number): string => `udp *:${port}`;

test('entrypoints are spread over the workers, and each is owned once', () => {
  const { owners, channels } = pool('a', 'b');
  owners.follow([udp(1), udp(2), udp(3), udp(4), entrypoint('web')]);
  const [a, b] = channels.map(({ owns }) => owns);
  expect([...a!, ...b!].sort()).toEqual([key(1), key(2), key(3), key(4)]);
  expect(a!.length).toBe(2);
});

test('a worker is told before a publication what it will own beside what it owns, and after it what is left', () => {
  const { owners, channels } = pool('a');
  const [a] = channels;
  owners.follow([udp(1)]);
  owners.follow([udp(1)], [udp(2)]);
  expect(a!.owns).toEqual([key(1), key(2)]);
  owners.follow([udp(2)]);
  expect(a!.told).toEqual([[key(1)], [key(1), key(2)], [key(2)]]);
});

test('nobody is told anything that it knows', () => {
  const { owners, channels } = pool('a', 'b');
  owners.follow([udp(1)]);
  owners.settle();
  owners.follow([udp(1)]);
  expect(channels.flatMap(({ told }) => told)).toEqual([[key(1)]]);
});

test('when the owner is gone another worker takes over, and what had an owner keeps it', () => {
  const { owners, channels, set } = pool('a', 'b');
  const [a, b] = channels as [Channel, Channel];
  owners.follow([udp(1), udp(2)]);
  const kept = b.owns;
  set(b);
  owners.settle();
  expect(b.owns).toEqual([key(1), key(2)]);
  expect(b.owns).toEqual(expect.arrayContaining(kept));
  // The one that comes in place of the dead one takes nothing away.
  const next = new Channel('c');
  set(b, next);
  owners.settle();
  expect(next.told).toEqual([]);
  expect(a.told.length).toBe(1);
});

test('without a worker nobody owns; the next one does', () => {
  const { owners, channels, set } = pool('a');
  owners.follow([udp(1)]);
  set();
  owners.settle();
  const next = new Channel('b');
  set(next);
  owners.settle();
  expect(next.owns).toEqual([key(1)]);
  expect(channels[0]!.told.length).toBe(1);
});

test('a worker that is being replaced gives everything up before another one is told to bind', () => {
  const { owners, channels, set } = pool('old', 'new');
  const [old, next] = channels as [Channel, Channel];
  set(old);
  owners.follow([udp(1)]);
  const order: string[] = [];
  for (const channel of [old, next]) {
    const { tell } = channel;
    channel.tell = (message) => {
      order.push(channel.id);
      tell.call(channel, message);
    };
  }
  set(next);
  owners.leaving(old as unknown as WorkerChannel);
  expect(order).toEqual(['old', 'new']);
  expect(old.owns).toEqual([]);
  expect(next.owns).toEqual([key(1)]);
});

test('an address that comes back goes to the worker that may still be draining it', () => {
  const { owners, channels } = pool('a', 'b');
  const [a, b] = channels as [Channel, Channel];
  owners.follow([udp(1)]);
  owners.follow([udp(2)]);
  expect(a.owns).toEqual([key(2)]);
  // The other one has less to do, but would find the port taken.
  owners.follow([udp(2), udp(1)]);
  expect(a.owns).toEqual([key(2), key(1)]);
  expect(b.owns).toEqual([]);
});

test('when everything ends nobody takes over', () => {
  const { owners, channels, set } = pool('a', 'b');
  owners.follow([udp(1)]);
  owners.close();
  set(channels[1]!);
  owners.settle();
  owners.leaving(channels[0] as unknown as WorkerChannel);
  expect(channels.flatMap(({ told }) => told)).toEqual([[key(1)]]);
});

test('owners that are still there keep what they have, and the idlest takes what is free', () => {
  const before = new Map([
    ['x', 'a'],
    ['y', 'a'],
    ['z', 'gone'],
  ]);
  expect([...assignOwners(['x', 'y', 'z', 'new'], ['a', 'b'], before)]).toEqual([
    ['x', 'a'],
    ['y', 'a'],
    ['z', 'b'],
    ['new', 'b'],
  ]);
  expect([...assignOwners(['x'], [], before)]).toEqual([]);
});
