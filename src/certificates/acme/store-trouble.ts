// A store that cannot be used: told once, tried again at growing intervals, and told when it is over.
// Invariant: one line in the log for each change, however often it is tried.
import type { Log } from '../../base/log.ts';

const firstMs = 60_000;
const longestMs = 600_000;

export class StoreTrouble {
  readonly #log: Log;
  #detail: string | null = null;
  #failures = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  /** For people; null: it works. */
  get detail(): string | null {
    return this.#detail;
  }

  over(): void {
    if (this.#detail === null) return;
    this.#detail = null;
    this.#failures = 0;
    this.#log.info('acme-store-recovered');
  }

  /** @returns when to try again */
  met(error: unknown): number {
    const detail = `the certificate store cannot be used: ${error instanceof Error ? error.message : String(error)}`;
    if (this.#detail !== detail) this.#log.error('acme-store-unusable', { detail });
    this.#detail = detail;
    this.#failures++;
    return Math.min(longestMs, firstMs * 2 ** (this.#failures - 1));
  }
}
