// A part of the snapshot that the supervisor keeps up to date by itself: what changes at once is published at once, what
// fails is tried again.
// Invariant: the last request is published in the end, unless a later one took its place; at most one waits.
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Snapshot } from '../model/snapshot.ts';
import type { Publisher } from './publication.ts';
import type { Proposal } from './publication-run.ts';

/** Changes that come together are published together. */
const gatherMs = 50;
const firstRetryMs = 1000;
const longestRetryMs = 60_000;

export class Upkeep {
  readonly #part: string;
  readonly #publisher: Publisher;
  readonly #clock: Clock;
  readonly #log: Log;
  #wanted: ((committed: Snapshot) => Proposal) | null = null;
  #timer: Timer | null = null;
  #retryMs = firstRetryMs;
  #closed = false;

  constructor(part: string, publisher: Publisher, clock: Clock, log: Log) {
    this.#part = part;
    this.#publisher = publisher;
    this.#clock = clock;
    this.#log = log;
  }

  /** `propose` is asked when the publication has its turn. */
  request(propose: (committed: Snapshot) => Proposal): void {
    this.#wanted = propose;
    if (this.#retryMs > firstRetryMs) {
      // What waits is another try of something older.
      this.#timer?.cancel();
      this.#timer = null;
      this.#retryMs = firstRetryMs;
    }
    this.#schedule(gatherMs);
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  #schedule(delayMs: number): void {
    if (this.#timer !== null || this.#closed) return;
    this.#timer = this.#clock.after(delayMs, () => {
      this.#timer = null;
      void this.#publish();
    });
  }

  async #publish(): Promise<void> {
    const wanted = this.#wanted;
    if (wanted === null) return;
    this.#wanted = null;
    try {
      // Before the first publication there is nothing to keep up; that one carries the newest of everything.
      await this.#publisher.publish((committed) => (committed === null ? null : wanted(committed)));
    } catch (error) {
      this.#log.warn('upkeep-not-published', { part: this.#part, err: error });
      this.#wanted ??= wanted;
      this.#schedule(this.#retryMs);
      this.#retryMs = Math.min(this.#retryMs * 2, longestRetryMs);
    }
  }
}
