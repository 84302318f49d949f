// What the rungs of the overload ladder do in a worker: idle connections are swept, and listeners pause and go on.
// Invariant: a listener that paused goes on when its rung is left, on the socket that the supervisor lends anew.
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Entrypoints } from '../entrypoint/entrypoints.ts';
import { type Overload, stopsAccepting } from '../model/overload.ts';
import { OverloadGuard, roomFor } from '../traffic/overload-guard.ts';
import { LoadSensor, ownDescriptors } from './load-sensor.ts';
import type { WorkerLoad } from './protocol.ts';

export interface WorkerOverloadDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** What it acts upon. */
export interface Watched {
  readonly entrypoints: Pick<Entrypoints, 'pause' | 'pausedKeys' | 'sweepIdle'>;
  /** `limits.overload_delay`. */
  delayLimitMs(): number;
  /** Asks the supervisor to lend these sockets anew. */
  want(keys: readonly string[]): void;
}

export class WorkerOverload {
  readonly guard: OverloadGuard;
  readonly #deps: WorkerOverloadDeps;
  readonly #descriptors = ownDescriptors();
  #sensor: LoadSensor | null = null;

  constructor(deps: WorkerOverloadDeps) {
    this.#deps = deps;
    const { limit, count } = this.#descriptors;
    this.guard = new OverloadGuard(deps.metrics, () => roomFor(count(), limit));
  }

  get load(): WorkerLoad {
    const { limit, count } = this.#descriptors;
    const reading = this.#sensor?.reading ?? { delayMs: 0, descriptors: count(), descriptorLimit: limit };
    return { ...reading, rung: this.#sensor?.rung ?? 'calm' };
  }

  watch({ entrypoints, delayLimitMs, want }: Watched): void {
    const { metrics } = this.#deps;
    const closedIdle = metrics
      .counter('overload_closed_idle_total', 'Idle client connections closed because the machine was overloaded')
      .cell();
    const act = (state: Overload): void => {
      if (state.rung > 0) closedIdle.value += entrypoints.sweepIdle();
      if (stopsAccepting(state)) {
        entrypoints.pause();
        return;
      }
      const keys = entrypoints.pausedKeys;
      if (keys.length > 0) want(keys);
    };
    this.#sensor = new LoadSensor({
      ...this.#deps,
      guard: this.guard,
      descriptors: this.#descriptors,
      delayLimitMs,
      act,
    });
  }
}
