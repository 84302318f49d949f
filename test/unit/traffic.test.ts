import { expect, test } from 'vitest';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { Fault } from '../../src/base/fault.ts';
import type { RoutingPart, Service, SnapshotDelta } from '../../src/model/snapshot.ts';
import type { ClaimHolder, ClaimKind, EndReason } from '../../src/traffic/claim.ts';
import type { GenerationResource, Waiter } from '../../src/traffic/live-service.ts';
import { type Participant, Traffic } from '../../src/traffic/traffic.ts';
import { host, limits, route, routing, service, settings, snapshot, wholeDelta } from '../support/routing.ts';

/** Time by hand, in the order in which timers fall due. */
class HandClock implements Clock {
  #now = 0;
  #timers: { at: number; fn: () => void }[] = [];
  now = () => this.#now;
  monotonic = () => this.#now;
  after(ms: number, fn: () => void) {
    const timer = { at: this.#now + ms, fn };
    this.#timers.push(timer);
    return {
      cancel: () => {
        this.#timers = this.#timers.filter((each) => each !== timer);
      },
    };
  }
  every = systemClock.every;
  advance(ms: number): void {
    const until = this.#now + ms;
    for (;;) {
      const due = this.#timers.filter((timer) => timer.at <= until).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#timers = this.#timers.filter((timer) => timer !== due);
      this.#now = due.at;
      due.fn();
    }
    this.#now = until;
  }
}

class Pools implements GenerationResource {
  readonly log: string[];
  readonly label: string;
  constructor(of: Service, log: string[]) {
    this.label = `${of.name}#${of.generation.number}`;
    this.log = log;
    log.push(`create ${this.label}`);
  }
  update(): void {}
  retire(): void {
    this.log.push(`retire ${this.label}`);
  }
  close(): void {
    this.log.push(`close ${this.label}`);
  }
}

class Holder implements ClaimHolder {
  readonly claimKind: ClaimKind;
  claimPlace = -1;
  ended: EndReason | null = null;
  constructor(kind: ClaimKind = 'request') {
    this.claimKind = kind;
  }
  claimEnded(reason: EndReason): void {
    this.ended = reason;
  }
}

class Arrival implements Waiter {
  readonly heldSize: number;
  outcome: 'released' | Fault | null = null;
  constructor(heldSize = 0) {
    this.heldSize = heldSize;
  }
  holdReleased(): void {
    this.outcome = 'released';
  }
  holdFailed(fault: Fault): void {
    this.outcome = fault;
  }
}

function set() {
  const clock = new HandClock();
  const log: string[] = [];
  const drained: string[] = [];
  const traffic = new Traffic<Pools>(
    clock,
    (of) => new Pools(of, log),
    ({ service, generation, forced }) => void drained.push(`${service}#${generation} forced ${forced}`),
  );
  let revision = 0;
  const publish = (part: RoutingPart) => traffic.commit(traffic.prepare(wholeDelta(snapshot(++revision, part))));
  return { clock, log, drained, traffic, publish };
}

const withService = (of: Service): RoutingPart =>
  routing({ hosts: [host('a.test', [route('a.test', of.name)])], services: [of] });

test('nothing is served before the first commit', () => {
  const { traffic } = set();
  expect(() => traffic.table).toThrow('no snapshot');
});

test('a new generation takes every new claim; the old one is drained when its last claim is gone', () => {
  const { traffic, publish, log, drained } = set();
  publish(withService(service('a', 1, ['127.0.0.1:1'])));
  const live = traffic.service('a')!;
  const old = live.current;
  const [first, second] = [new Holder(), new Holder()];
  old.claim(first);
  old.claim(second);
  publish(withService(service('a', 2, ['127.0.0.1:2'])));
  expect(live.current.generation.number).toBe(2);
  expect(log).toEqual(['create a#1', 'create a#2', 'retire a#1']);
  old.release(first);
  expect(drained).toEqual([]);
  old.release(second);
  old.release(second);
  expect(drained).toEqual(['a#1 forced 0']);
  expect(log.at(-1)).toBe('close a#1');
});

test('requests are ended at the drain limit, streams at theirs, and both are counted as forced', () => {
  const { traffic, publish, clock, drained } = set();
  publish(withService(service('a', 1, ['127.0.0.1:1'])));
  const old = traffic.service('a')!.current;
  const request = new Holder('request');
  const stream = new Holder('stream');
  old.claim(request);
  old.claim(stream);
  publish(withService(service('a', 2, ['127.0.0.1:2'], { drainMs: 1000, streamDrainMs: 5000 })));
  clock.advance(999);
  expect(request.ended).toBeNull();
  clock.advance(1);
  expect([request.ended, stream.ended]).toEqual(['drain', null]);
  old.release(request);
  clock.advance(4000);
  expect(stream.ended).toBe('drain');
  old.release(stream);
  expect(drained).toEqual(['a#1 forced 2']);
});

test('an equal generation keeps its pools, whatever else changed', () => {
  const { traffic, publish, log } = set();
  publish(withService(service('a', 1, ['127.0.0.1:1'])));
  publish(withService(service('a', 1, ['127.0.0.1:1'], { balance: 'round_robin' })));
  expect(log).toEqual(['create a#1']);
  expect(traffic.service('a')!.service.balance).toBe('round_robin');
});

test('a removed service drains like an old generation', () => {
  const { traffic, publish, drained } = set();
  publish(withService(service('a', 1, ['127.0.0.1:1'])));
  const holder = new Holder();
  const old = traffic.service('a')!.current;
  old.claim(holder);
  publish(routing());
  expect(traffic.service('a')).toBeUndefined();
  expect([...traffic.generations()]).toEqual([old]);
  old.release(holder);
  expect(drained).toEqual(['a#1 forced 0']);
  expect([...traffic.generations()]).toEqual([]);
});

test('arrivals wait while held and are released after the pointer moved, in order', () => {
  const { traffic, publish } = set();
  publish(withService(service('a', 1, ['127.0.0.1:1'])));
  const live = traffic.service('a')!;
  const next = traffic.prepare(wholeDelta(snapshot(2, withService(service('a', 2, ['127.0.0.1:2'])))));
  traffic.hold(['a', 'unknown']);
  expect(live.blocked).toBe(true);
  const seen: string[] = [];
  const arrivals = ['first', 'second'].map((name) => {
    const arrival = new Arrival();
    arrival.holdReleased = () => void seen.push(`${name} on ${traffic.service('a')!.current.generation.number}`);
    return arrival;
  });
  for (const arrival of arrivals) expect(live.wait(arrival)).toBeNull();
  traffic.commit(next);
  expect(live.blocked).toBe(false);
  expect(seen).toEqual(['first on 2', 'second on 2']);
});

test('an aborted publication releases the waiters to the old generation', () => {
  const { traffic, publish } = set();
  publish(withService(service('a', 1, ['127.0.0.1:1'])));
  const live = traffic.service('a')!;
  const next = traffic.prepare(wholeDelta(snapshot(2, withService(service('a', 2, ['127.0.0.1:2'])))));
  traffic.hold(['a']);
  const arrival = new Arrival();
  live.wait(arrival);
  traffic.abort(next);
  expect(arrival.outcome).toBe('released');
  expect(live.current.generation.number).toBe(1);
});

test('who waits for a paused service keeps waiting through other publications, and times out by its own clock', () => {
  const { traffic, publish, clock } = set();
  const paused = service('a', 1, ['127.0.0.1:1'], { state: 'paused', maxHoldMs: 1000 });
  publish(withService(paused));
  const arrival = new Arrival();
  traffic.service('a')!.wait(arrival);
  clock.advance(600);
  publish({ ...withService(paused), hosts: [host('b.test', [])] });
  clock.advance(399);
  expect(arrival.outcome).toBeNull();
  clock.advance(1);
  expect(arrival.outcome).toMatchObject({ code: 'hold-timeout' });
  expect(traffic.service('a')!.waiting).toBe(0);
});

test('resuming releases; a waiter that left is not called', () => {
  const { traffic, publish } = set();
  publish(withService(service('a', 1, ['127.0.0.1:1'], { state: 'paused' })));
  const [stays, leaves] = [new Arrival(), new Arrival()];
  const live = traffic.service('a')!;
  live.wait(stays);
  live.wait(leaves);
  live.leave(leaves);
  publish(withService(service('a', 1, ['127.0.0.1:1'])));
  expect([stays.outcome, leaves.outcome]).toEqual(['released', null]);
});

test('waiters of a removed paused service find out at once', () => {
  const { traffic, publish } = set();
  publish(withService(service('a', 1, ['127.0.0.1:1'], { state: 'paused' })));
  const arrival = new Arrival();
  traffic.service('a')!.wait(arrival);
  publish(routing());
  expect(arrival.outcome).toBe('released');
});

test('no more wait than the limits allow, by count and by bytes', () => {
  const { traffic, publish } = set();
  const paused = service('a', 1, ['127.0.0.1:1'], { state: 'paused' });
  const tight = { ...settings, limits: { ...limits, holdRequests: 2, holdSize: 100 } };
  publish({ ...withService(paused), settings: tight });
  const live = traffic.service('a')!;
  expect(live.wait(new Arrival(60))).toBeNull();
  expect(live.wait(new Arrival(60))).toMatchObject({ code: 'hold-full' });
  const second = new Arrival(40);
  expect(live.wait(second)).toBeNull();
  expect(live.wait(new Arrival(0))).toMatchObject({ code: 'hold-full' });
  live.leave(second);
  expect(live.wait(new Arrival(40))).toBeNull();
});

test('a participant that refuses undoes the ones before it and changes nothing', () => {
  const { traffic, publish } = set();
  publish(withService(service('a', 1, ['127.0.0.1:1'])));
  const calls: string[] = [];
  const good: Participant<string> = {
    prepare: () => 'built',
    commit: (prepared) => void calls.push(`commit ${prepared}`),
    abort: (prepared) => void calls.push(`abort ${prepared}`),
  };
  const bad: Participant = {
    prepare: () => {
      throw new Fault('bind-failed', 'port taken');
    },
    commit: () => void calls.push('bad commit'),
    abort: () => void calls.push('bad abort'),
  };
  traffic.register(good);
  traffic.register(bad);
  const next = wholeDelta(snapshot(2, withService(service('a', 2, ['127.0.0.1:2']))));
  expect(() => traffic.prepare(next)).toThrow('port taken');
  expect(calls).toEqual(['abort built']);
  expect(traffic.current.snapshot.revision).toBe(1);
});

test('a delta carries only what changed; one that lacks a part is refused', () => {
  const { traffic, publish } = set();
  publish(withService(service('a', 1, ['127.0.0.1:1'])));
  const next = snapshot(2, traffic.current.snapshot.parts.routing, { health: { down: { a: ['127.0.0.1:1'] } } });
  const delta: SnapshotDelta = { revision: 2, parts: { health: next.parts.health }, digests: next.digests };
  const before = traffic.table;
  traffic.commit(traffic.prepare(delta));
  expect(traffic.table).toBe(before);
  expect(traffic.current.snapshot.parts.health).toEqual({ down: { a: ['127.0.0.1:1'] } });
  const digests = { ...next.digests, health: 'f'.repeat(64) };
  expect(() => traffic.prepare({ revision: 3, parts: {}, digests })).toThrow(Fault);
});

test('a limit of streams that is shorter than that of requests ends streams first', () => {
  const { traffic, publish, clock } = set();
  publish(withService(service('a', 1, ['127.0.0.1:1'])));
  const old = traffic.service('a')!.current;
  const request = new Holder('request');
  const stream = new Holder('stream');
  old.claim(request);
  old.claim(stream);
  publish(withService(service('a', 2, ['127.0.0.1:2'], { drainMs: 5000, streamDrainMs: 1000 })));
  clock.advance(1000);
  expect([request.ended, stream.ended]).toEqual([null, 'drain']);
});
