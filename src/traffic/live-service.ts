// A service as one worker runs it: its live generation, the older ones that still drain, and the arrivals that wait.
// Invariant: exactly one generation takes new claims; a retired one only ever loses them.
import type { Clock, Timer } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import type { Generation, Service } from '../model/snapshot.ts';
import type { ClaimHolder, EndReason } from './claim.ts';

/** What the layers above hang on a generation: its backends with their connection pools. */
export interface GenerationResource {
  /** The service's declaration or the health of its backends changed; the addresses are the same. */
  update(service: Service, down: readonly string[]): void;
  /** No claim will come any more: close idle connections. */
  retire(): void;
  /** The last claim is gone: close everything. */
  close(): void;
}

export type CreateResource<R extends GenerationResource> = (service: Service, down: readonly string[]) => R;

/** An arrival that waits for a held or paused service. */
export interface Waiter {
  /** Bytes this waiter keeps in memory. */
  readonly heldSize: number;
  /** The hold is over: arrive anew, matching again. */
  holdReleased(): void;
  /** Waited too long, or too many wait. */
  holdFailed(fault: Fault): void;
}

export interface HoldLimits {
  readonly requests: number;
  readonly size: number;
}

/** A retired generation that has lost its last claim. */
export interface Drained {
  readonly service: string;
  readonly generation: number;
  /** Claims ever taken. */
  readonly claimed: number;
  /** Claims that a deadline ended. */
  readonly forced: number;
}

/** Told once for every retired generation. */
export type OnDrained = (drained: Drained) => void;

export class LiveGeneration<R extends GenerationResource> {
  readonly serviceName: string;
  readonly generation: Generation;
  readonly resource: R;
  /** In no order, each holder knowing its place: see `Deadlines` for why this is no Set. */
  readonly #claims: ClaimHolder[] = [];
  readonly #onDrained: OnDrained;
  #timers: Timer[] = [];
  #retired = false;
  #closed = false;
  #forced = 0;
  /** Claims ever taken: the switch report's "requests on old and new". */
  claimed = 0;

  constructor(serviceName: string, generation: Generation, resource: R, onDrained: OnDrained) {
    this.serviceName = serviceName;
    this.generation = generation;
    this.resource = resource;
    this.#onDrained = onDrained;
  }

  get active(): number {
    return this.#claims.length;
  }

  get retired(): boolean {
    return this.#retired;
  }

  claim(holder: ClaimHolder): void {
    holder.claimPlace = this.#claims.push(holder) - 1;
    this.claimed++;
  }

  /** Releasing twice, or something never claimed, is harmless. */
  release(holder: ClaimHolder): void {
    const place = holder.claimPlace;
    const claims = this.#claims;
    if (claims[place] !== holder) return;
    holder.claimPlace = -1;
    const last = claims.pop()!;
    if (last !== holder) {
      claims[place] = last;
      last.claimPlace = place;
    }
    if (this.#retired && claims.length === 0) this.#finish();
  }

  /** Takes no new claims from now on; what is claimed may go on for `drainMs` (requests) or `streamDrainMs` (others). */
  retire(clock: Clock, drainMs: number, streamDrainMs: number): void {
    if (this.#retired) return;
    this.#retired = true;
    this.resource.retire();
    if (this.#claims.length === 0) {
      this.#finish();
      return;
    }
    this.#timers = [
      clock.after(drainMs, () => this.endClaims('drain', (holder) => holder.claimKind === 'request')),
      clock.after(Math.max(drainMs, streamDrainMs), () => this.endClaims('drain')),
    ];
    if (streamDrainMs >= drainMs) return;
    // What becomes a stream behind this has the limit of requests.
    const streams = (): void => this.endClaims('drain', (holder) => holder.claimKind !== 'request');
    this.#timers.push(clock.after(streamDrainMs, streams));
  }

  /** Ends claims from outside; their holders release them. */
  endClaims(reason: EndReason, which: (holder: ClaimHolder) => boolean = () => true): void {
    for (const holder of [...this.#claims]) {
      if (!which(holder)) continue;
      this.#forced++;
      holder.claimEnded(reason);
    }
  }

  #finish(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const timer of this.#timers) timer.cancel();
    this.#timers = [];
    this.resource.close();
    this.#onDrained({
      service: this.serviceName,
      generation: this.generation.number,
      claimed: this.claimed,
      forced: this.#forced,
    });
  }
}

export class LiveService<R extends GenerationResource> {
  service: Service;
  current: LiveGeneration<R>;
  readonly draining = new Set<LiveGeneration<R>>();
  readonly #clock: Clock;
  readonly #waiters = new Map<Waiter, Timer>();
  #waitingSize = 0;
  #publicationHold = false;
  #holdLimits: HoldLimits;

  constructor(service: Service, current: LiveGeneration<R>, clock: Clock, holdLimits: HoldLimits) {
    this.service = service;
    this.current = current;
    this.#clock = clock;
    this.#holdLimits = holdLimits;
  }

  /** Arrivals must wait: a publication commits, or the operator paused the service. */
  get blocked(): boolean {
    return this.#publicationHold || this.service.state === 'paused';
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  hold(): void {
    this.#publicationHold = true;
  }

  /** Ends the publication hold. Waiters of a service that is (still) paused go on waiting. */
  unhold(): void {
    this.#publicationHold = false;
  }

  /** Queues an arrival; a fault when it may not wait. */
  wait(waiter: Waiter): Fault | null {
    if (
      this.#waiters.size >= this.#holdLimits.requests ||
      this.#waitingSize + waiter.heldSize > this.#holdLimits.size
    ) {
      return new Fault('hold-full', `${this.#waiters.size} arrivals wait for ${this.service.name}`);
    }
    const timer = this.#clock.after(this.service.maxHoldMs, () => {
      this.leave(waiter);
      waiter.holdFailed(new Fault('hold-timeout', `waited ${this.service.maxHoldMs} ms for ${this.service.name}`));
    });
    this.#waiters.set(waiter, timer);
    this.#waitingSize += waiter.heldSize;
    return null;
  }

  /** The waiter is gone (its client left). */
  leave(waiter: Waiter): void {
    const timer = this.#waiters.get(waiter);
    if (timer === undefined) return;
    timer.cancel();
    this.#waiters.delete(waiter);
    this.#waitingSize -= waiter.heldSize;
  }

  /** Lets everyone who waits arrive anew, in order. Called after the pointer was swapped. */
  releaseWaiters(): void {
    for (const waiter of [...this.#waiters.keys()]) {
      this.leave(waiter);
      waiter.holdReleased();
    }
  }

  update(service: Service, down: readonly string[], holdLimits: HoldLimits): void {
    this.service = service;
    this.#holdLimits = holdLimits;
    this.current.resource.update(service, down);
  }

  /** Makes `next` the live generation; the old one drains, within `drainMs` if this change has a limit of its own. */
  replace(service: Service, next: LiveGeneration<R>, drainMs: number | null = null): void {
    const old = this.current;
    this.draining.add(old);
    this.service = service;
    this.current = next;
    old.retire(this.#clock, drainMs ?? service.drainMs, drainMs ?? service.streamDrainMs);
  }
}
