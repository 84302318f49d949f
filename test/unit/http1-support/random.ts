// A small seeded source of randomness, so that a failing run can be repeated from the seed it prints.

export class Random {
  readonly seed: number;
  #state: number;

  constructor(seed: number) {
    this.seed = seed;
    this.#state = seed >>> 0;
  }

  /** The seed of `TURNPIKE_TEST_SEED`, or a new one. */
  static fromEnvironment(): Random {
    const given = process.env['TURNPIKE_TEST_SEED'];
    return new Random(given === undefined ? Math.floor(Math.random() * 2 ** 32) : Number(given));
  }

  /** A whole number below `bound` (mulberry32). */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * bound);
  }

  chance(oneIn: number): boolean {
    return this.below(oneIn) === 0;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }
}
