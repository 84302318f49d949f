// The worker's one mutable pointer to the snapshot it serves, and the three moves of a publication: prepare, hold, commit.
// Invariant: `table`, the live services and every participant change in one synchronous step, or not at all.
import { createHash } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import { Metrics } from '../base/metrics.ts';
import { compileRoutingTable, type RoutingTable } from '../model/routing-table.ts';
import {
  type Limits,
  type PartName,
  partNames,
  type Service,
  type Snapshot,
  type SnapshotDelta,
} from '../model/snapshot.ts';
import {
  type CreateResource,
  type GenerationResource,
  LiveGeneration,
  LiveService,
  type OnDrained,
} from './live-service.ts';
import { OverloadGuard } from './overload-guard.ts';

/** A snapshot that passed `prepare`, with its indexes built. */
export interface Compiled {
  readonly snapshot: Snapshot;
  readonly table: RoutingTable;
}

/** Something in a worker that follows the snapshot: TLS contexts, listeners, rate limiters. */
export interface Participant<P = unknown> {
  /** Does all that can fail. Throws a Fault to refuse the publication. `current` is null before the first commit. */
  prepare(next: Compiled, current: Compiled | null, changed: ReadonlySet<PartName>): P;
  /** Cannot fail. */
  commit(prepared: P): void;
  /** Undoes `prepare`. */
  abort(prepared: P): void;
}

export interface Prepared {
  readonly compiled: Compiled;
  readonly participants: readonly { readonly participant: Participant; readonly prepared: unknown }[];
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

export class Traffic<R extends GenerationResource> {
  readonly clock: Clock;
  /** Asked before new work is claimed. */
  readonly overload: OverloadGuard;
  readonly #createResource: CreateResource<R>;
  readonly #onDrained: OnDrained;
  readonly #participants: Participant[] = [];
  readonly #services = new Map<string, LiveService<R>>();
  /** Services that left the snapshot and still drain. */
  readonly #leaving = new Set<LiveGeneration<R>>();
  #current: Compiled | null = null;
  #held: LiveService<R>[] = [];

  constructor(
    clock: Clock,
    createResource: CreateResource<R>,
    onDrained: OnDrained,
    overload: OverloadGuard = new OverloadGuard(new Metrics()),
  ) {
    this.clock = clock;
    this.overload = overload;
    this.#createResource = createResource;
    this.#onDrained = onDrained;
  }

  /** Order matters: commits run in the order of registration. */
  register<P>(participant: Participant<P>): void {
    this.#participants.push(participant as Participant);
  }

  /** The snapshot served now. Throws before the first commit: nothing accepts connections until then. */
  get current(): Compiled {
    if (this.#current === null) throw new Error('no snapshot committed yet');
    return this.#current;
  }

  /** Null before the first commit. */
  get limits(): Limits | null {
    return this.#current?.table.part.settings.limits ?? null;
  }

  get table(): RoutingTable {
    return this.current.table;
  }

  service(name: string): LiveService<R> | undefined {
    return this.#services.get(name);
  }

  services(): IterableIterator<LiveService<R>> {
    return this.#services.values();
  }

  /** Builds everything the delta needs beside what is running. Throws a Fault and leaves nothing behind on refusal. */
  prepare(delta: SnapshotDelta): Prepared {
    const current = this.#current;
    const parts = { ...current?.snapshot.parts, ...delta.parts } as Snapshot['parts'];
    const changed = new Set<PartName>();
    for (const name of partNames) {
      if (delta.digests[name] === current?.snapshot.digests[name]) continue;
      if (delta.parts[name] === undefined) throw new Fault('publish-refused', `part ${name} is missing`);
      changed.add(name);
    }
    const snapshot: Snapshot = { revision: delta.revision, parts, digests: delta.digests };
    const table =
      current !== null && !changed.has('routing') ? current.table : compileRoutingTable(parts.routing, sha256);
    const compiled: Compiled = { snapshot, table };
    const done: { participant: Participant; prepared: unknown }[] = [];
    try {
      for (const participant of this.#participants) {
        done.push({ participant, prepared: participant.prepare(compiled, current, changed) });
      }
    } catch (error) {
      for (const { participant, prepared } of done.reverse()) participant.abort(prepared);
      throw error;
    }
    return { compiled, participants: done };
  }

  /** From now on arrivals of these services wait, until `commit` or `abort`. */
  hold(serviceNames: readonly string[]): void {
    for (const name of serviceNames) {
      const live = this.#services.get(name);
      if (live === undefined) continue;
      live.hold();
      this.#held.push(live);
    }
  }

  /**
   * Swaps the pointer and releases the waiters, who arrive at the new state.
   * @param drainMs  drain limits of this change only, by service; others are the services' own
   */
  commit(prepared: Prepared, drainMs: Readonly<Record<string, number>> = {}): void {
    const { compiled } = prepared;
    const { parts } = compiled.snapshot;
    this.#current = compiled;
    const released: LiveService<R>[] = this.#held;
    this.#held = [];
    for (const live of released) live.unhold();
    const { limits } = parts.routing.settings;
    const holdLimits = { requests: limits.holdRequests, size: limits.holdSize };
    for (const service of parts.routing.services) {
      const down = parts.health.down[service.name] ?? [];
      const live = this.#services.get(service.name);
      if (live === undefined) {
        this.#services.set(
          service.name,
          new LiveService(service, this.#generation(service, down), this.clock, holdLimits),
        );
      } else if (live.current.generation.number !== service.generation.number) {
        live.replace(service, this.#generation(service, down), drainMs[service.name] ?? null);
        released.push(live);
      } else {
        live.update(service, down, holdLimits);
        if (live.waiting > 0) released.push(live);
      }
    }
    for (const [name, live] of this.#services) {
      if (compiled.table.services.has(name)) continue;
      this.#services.delete(name);
      for (const generation of [...live.draining, live.current]) this.#leaving.add(generation);
      live.current.retire(this.clock, live.service.drainMs, live.service.streamDrainMs);
      released.push(live);
    }
    for (const { participant, prepared: part } of prepared.participants) participant.commit(part);
    // Who waits for a service that is still paused waits on, its max_hold running; who waits for one that left finds out.
    for (const live of new Set(released)) {
      if (!live.blocked || this.#services.get(live.service.name) !== live) live.releaseWaiters();
    }
  }

  /** Forgets a prepared snapshot and lets waiters go on against the old state. */
  abort(prepared: Prepared | null): void {
    if (prepared !== null) for (const { participant, prepared: part } of prepared.participants) participant.abort(part);
    const held = this.#held;
    this.#held = [];
    for (const live of held) live.unhold();
    for (const live of held) if (!live.blocked) live.releaseWaiters();
  }

  /** Every generation with claims, live, draining or leaving. */
  *generations(): IterableIterator<LiveGeneration<R>> {
    for (const live of this.#services.values()) {
      yield live.current;
      yield* live.draining;
    }
    yield* this.#leaving;
  }

  #generation(service: Service, down: readonly string[]): LiveGeneration<R> {
    const resource = this.#createResource(service, down);
    const generation: LiveGeneration<R> = new LiveGeneration<R>(
      service.name,
      service.generation,
      resource,
      (drained) => {
        this.#services.get(drained.service)?.draining.delete(generation);
        this.#leaving.delete(generation);
        this.#onDrained(drained);
      },
    );
    return generation;
  }
}
