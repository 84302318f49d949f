// What a load run has seen so far.
// Invariant: begun = answered + failed + in work, at any time.
import { Histogram, type Latency } from './histogram.ts';

export const reportedPercentiles = [50, 75, 90, 95, 99, 99.9] as const;

export interface LoadReport {
  readonly begun: number;
  readonly answered: number;
  /** Answers that came while new requests were begun, per second of that time. */
  readonly perSecond: number;
  readonly durationMs: number;
  /** Without a complete answer, or answered with a status outside 200–399, or never sent. */
  readonly failed: number;
  /** Answers by status class: "2xx" …; empty for protocols without. */
  readonly classes: Readonly<Record<string, number>>;
  /** Requests without a complete answer, by what happened. */
  readonly errors: Readonly<Record<string, number>>;
  /** Open loop: requests whose time came while every lane was busy, and that were never sent. */
  readonly unsent: number;
  readonly connections: number;
  readonly bytesIn: number;
  /** Microseconds, from when a request was due to the end of its answer. */
  readonly latency: Latency;
}

export class Tally {
  begun = 0;
  answered = 0;
  unsent = 0;
  bytesIn = 0;
  connections = 0;
  readonly latency = new Histogram();
  readonly #classes = new Float64Array(10);
  readonly #errors = new Map<string, number>();

  answer(status: number, micros: number): void {
    this.answered++;
    this.#classes[Math.floor(status / 100)]!++;
    this.latency.record(micros);
  }

  error(why: string): void {
    this.#errors.set(why, (this.#errors.get(why) ?? 0) + 1);
  }

  get errors(): number {
    let sum = 0;
    for (const count of this.#errors.values()) sum += count;
    return sum;
  }

  get failed(): number {
    const wrongStatus = this.#classes.reduce((sum, count, i) => (i === 0 || i === 2 || i === 3 ? sum : sum + count), 0);
    return this.errors + wrongStatus + this.unsent;
  }

  /** @param inTime  answers that came while new requests were begun */
  report(durationMs: number, inTime: number): LoadReport {
    const classes: Record<string, number> = {};
    for (const [i, count] of this.#classes.entries()) if (i > 0 && count > 0) classes[`${i}xx`] = count;
    return {
      begun: this.begun,
      answered: this.answered,
      perSecond: (inTime * 1000) / durationMs,
      durationMs,
      failed: this.failed,
      classes,
      errors: Object.fromEntries([...this.#errors].sort()),
      unsent: this.unsent,
      connections: this.connections,
      bytesIn: this.bytesIn,
      latency: this.latency.summary(reportedPercentiles),
    };
  }
}
