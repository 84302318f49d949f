// Time moved by hand, for what waits.
// Invariant: timers run in the order in which they fall due, and only inside `advance`.
import type { Clock, Timer } from '../../src/base/clock.ts';

interface Entry {
  at: number;
  readonly everyMs: number | null;
  readonly fn: () => void;
}

export class HandClock implements Clock {
  #now = 0;
  #entries: Entry[] = [];

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#now;
  }

  after(ms: number, fn: () => void): Timer {
    return this.#add({ at: this.#now + ms, everyMs: null, fn });
  }

  every(ms: number, fn: () => void): Timer {
    return this.#add({ at: this.#now + ms, everyMs: ms, fn });
  }

  advance(ms: number): void {
    const until = this.#now + ms;
    for (;;) {
      const due = this.#entries.filter((entry) => entry.at <= until).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#now = due.at;
      if (due.everyMs === null) this.#entries = this.#entries.filter((entry) => entry !== due);
      else due.at += due.everyMs;
      due.fn();
    }
    this.#now = until;
  }

  /** When the next timer falls due; null: there is none. */
  get nextAt(): number | null {
    return this.#entries.reduce<number | null>((least, { at }) => (least === null || at < least ? at : least), null);
  }

  /** Timers that are still to run. */
  get pending(): number {
    return this.#entries.length;
  }

  #add(entry: Entry): Timer {
    this.#entries.push(entry);
    return {
      cancel: () => {
        this.#entries = this.#entries.filter((each) => each !== entry);
      },
    };
  }
}

/** Lets everything that is already resolved run. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}
