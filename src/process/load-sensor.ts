// Measures the load of this process, twice a second, and moves it on the overload ladder.
// Invariant: one log line and one count for every change of rung; without Linux's /proc descriptors are never short.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Family, Metrics } from '../base/metrics.ts';
import { unlimited } from '../base/units.ts';
import { climb, type LoadReading, type Overload, type Rung, rungs } from '../model/overload.ts';
import { type OverloadGuard, roomFor } from '../traffic/overload-guard.ts';

export interface LoadSensorDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly guard: OverloadGuard;
  readonly descriptors: Descriptors;
  /** `limits.overload_delay`. */
  delayLimitMs(): number;
  /** After each reading: what the rung asks for beside refusing. */
  act(state: Overload): void;
}

/** What the kernel says of this process' descriptors. */
export interface Descriptors {
  readonly limit: number;
  count(): number;
}

const tickMs = 100;
const readingMs = 500;
/** Of a new lateness in the smoothed one: a single pause is forgotten within a second. */
const weight = 1 / 4;

export class LoadSensor {
  readonly #deps: LoadSensorDeps;
  readonly #workers: Family;
  readonly #changes: Family;
  #delayMs = 0;
  #tickedAt: number;
  #readAt: number;
  #reading: LoadReading;

  constructor(deps: LoadSensorDeps) {
    this.#deps = deps;
    const { clock, metrics, descriptors } = deps;
    this.#workers = metrics.gauge('overload_workers', 'Workers by the rung of the overload ladder they are on', [
      'rung',
    ]);
    this.#changes = metrics.counter(
      'overload_changes_total',
      'Changes of a worker to this rung of the overload ladder',
      ['rung'],
    );
    for (const rung of rungs) {
      this.#workers.cell(rung);
      this.#changes.cell(rung);
    }
    this.#workers.cell(rungs[0]).value = 1;
    this.#tickedAt = this.#readAt = clock.monotonic();
    this.#reading = { delayMs: 0, descriptors: descriptors.count(), descriptorLimit: descriptors.limit };
    clock.every(tickMs, () => this.#tick());
  }

  /** As of now. */
  get reading(): LoadReading {
    return { ...this.#reading, descriptors: this.#deps.descriptors.count() };
  }

  get rung(): Rung {
    return rungs[this.#deps.guard.state.rung]!;
  }

  /** A request that arrives at any moment waits about as long as this tick did. */
  #tick(): void {
    const now = this.#deps.clock.monotonic();
    const late = Math.max(0, now - this.#tickedAt - tickMs);
    this.#tickedAt = now;
    this.#delayMs += (late - this.#delayMs) * weight;
    if (now - this.#readAt < readingMs) return;
    this.#readAt = now;
    this.#read();
  }

  #read(): void {
    const { guard, descriptors, delayLimitMs, act } = this.#deps;
    const { limit } = descriptors;
    const reading = { delayMs: this.#delayMs, descriptors: descriptors.count(), descriptorLimit: limit };
    this.#reading = reading;
    guard.reckon(roomFor(reading.descriptors, limit));
    const before = guard.state;
    guard.state = climb(before, reading, delayLimitMs());
    if (guard.state.rung !== before.rung) this.#changed(before.rung, guard.state.rung);
    act(guard.state);
  }

  #changed(from: number, to: number): void {
    const { log } = this.#deps;
    this.#workers.cell(rungs[from]!).value = 0;
    this.#workers.cell(rungs[to]!).value = 1;
    this.#changes.cell(rungs[to]!).value++;
    const { delayMs, descriptors, descriptorLimit } = this.#reading;
    const members = { rung: rungs[to], from: rungs[from], delayMs: Math.round(delayMs), descriptors, descriptorLimit };
    if (to > from) log.warn('overload', members);
    else log.info('overload', members);
  }
}

/** This process, by /proc. */
export function ownDescriptors(): Descriptors {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
    count();
    return { limit: soft === undefined ? unlimited : Number(soft), count };
  } catch {
    return { limit: unlimited, count: () => 0 };
  }
}

/** Linux 6.2 and newer keep the number in the size of the directory; before, its entries have to be counted. */
function count(): number {
  const { size } = statSync('/proc/self/fd');
  return size > 0 ? size : readdirSync('/proc/self/fd').length;
}
