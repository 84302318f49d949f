// One coarse timer for every connection deadline of a process, instead of one timer object a connection.
// Invariant: a holder is called at most once per `deadlineAt` it set, at or after that time, at most one tick late.
import { type Clock, systemClock, type Timer } from './clock.ts';

/** Something with at most one deadline at a time. `deadlineAt` is `Deadlines.now` based; 0 means none. */
export interface DeadlineHolder {
  deadlineAt: number;
  /** Called once when the deadline has passed; `deadlineAt` is 0 by then and may be set anew. */
  deadlineReached(): void;
}

/**
 * Sweeps its holders every `tickMs`. Setting a deadline is one property write (`holder.deadlineAt = deadlines.in(ms)`),
 * which is what makes a deadline per request affordable on the straight path.
 */
export class Deadlines {
  /** Monotonic milliseconds as of the last tick: a clock that costs a property read. */
  now: number;
  readonly #holders = new Set<DeadlineHolder>();
  readonly #clock: Clock;
  readonly #timer: Timer;

  constructor(clock: Clock = systemClock, tickMs = 100) {
    this.#clock = clock;
    this.now = clock.monotonic();
    this.#timer = clock.every(tickMs, () => this.#tick());
  }

  /** The deadline value that lies `ms` milliseconds ahead. `Infinity` gives none (0). */
  in(ms: number): number {
    return ms === Number.POSITIVE_INFINITY ? 0 : this.now + ms;
  }

  add(holder: DeadlineHolder): void {
    this.#holders.add(holder);
  }

  remove(holder: DeadlineHolder): void {
    this.#holders.delete(holder);
  }

  close(): void {
    this.#timer.cancel();
    this.#holders.clear();
  }

  #tick(): void {
    const now = this.#clock.monotonic();
    this.now = now;
    for (const holder of this.#holders) {
      if (holder.deadlineAt !== 0 && holder.deadlineAt <= now) {
        holder.deadlineAt = 0;
        holder.deadlineReached();
      }
    }
  }
}
