// How often something may happen: a burst, and a rate at which the burst comes back.
// Invariant: pure arithmetic on the times it is given; nothing to start, stop or clean up.

export class Allowance {
  readonly #burst: number;
  readonly #perMs: number;
  #used = 0;
  #at = 0;

  constructor(burst: number, perSecond: number) {
    this.#burst = burst;
    this.#perMs = perSecond / 1000;
  }

  /** One more at `now` (monotonic milliseconds). False: that was one too many. */
  take(now: number): boolean {
    this.#used = Math.max(0, this.#used - (now - this.#at) * this.#perMs) + 1;
    this.#at = now;
    return this.#used <= this.#burst;
  }
}
