// One coarse timer for every connection deadline of a process, instead of one timer object a connection.
// Invariant: a holder is called at most once per `deadlineAt` it set, at or after that time, at most one tick late.
import { type Clock, systemClock, type Timer } from './clock.ts';

/** Something with at most one deadline at a time. `deadlineAt` is `Deadlines.now` based; 0 means none. */
export interface DeadlineHolder {
  deadlineAt: number;
  /** Where it stands among the holders, -1 at first; written by `Deadlines` alone. */
  deadlinePlace: number;
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
  /**
   * In no order, each holder knowing its place. Not a Set: what a Set grows into stays reachable from what it was, so that
   * after the first of them was promoted by the garbage collector every request would be.
   */
  readonly #holders: DeadlineHolder[] = [];
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
    if (this.#holders[holder.deadlinePlace] === holder) return;
    holder.deadlinePlace = this.#holders.push(holder) - 1;
  }

  remove(holder: DeadlineHolder): void {
    const place = holder.deadlinePlace;
    const holders = this.#holders;
    if (holders[place] !== holder) return;
    holder.deadlinePlace = -1;
    const last = holders.pop()!;
    if (last === holder) return;
    holders[place] = last;
    last.deadlinePlace = place;
  }

  close(): void {
    this.#timer.cancel();
    this.#holders.length = 0;
  }

  #tick(): void {
    const now = this.#clock.monotonic();
    this.now = now;
    // Backwards: who leaves meanwhile is replaced by one that had its turn, and who comes waits for the next tick.
    for (let i = this.#holders.length - 1; i >= 0; i--) {
      const holder = this.#holders[i];
      if (holder !== undefined && holder.deadlineAt !== 0 && holder.deadlineAt <= now) {
        holder.deadlineAt = 0;
        holder.deadlineReached();
      }
    }
  }
}
