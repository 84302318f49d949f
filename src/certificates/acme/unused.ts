// Entries of the store that no host wants any more: kept for thirty days of running time, then removed.
// Invariant: counted by the monotonic clock only: a wall clock that is wrong removes nothing.
import type { Clock } from '../../base/clock.ts';
import type { Journal } from './journal.ts';

const dayMs = 86_400_000;
export const unusedLimitMs = 30 * dayMs;
const everyMs = dayMs;

export class Upkeep {
  readonly #clock: Clock;
  #countedAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#countedAt = clock.monotonic();
  }

  isDue(): boolean {
    return this.#clock.monotonic() - this.#countedAt >= everyMs;
  }

  count(journal: Journal, ids: readonly string[], wanted: ReadonlySet<string>): Journal {
    const now = this.#clock.monotonic();
    const passed = now - this.#countedAt;
    this.#countedAt = now;
    const without = ids.filter((id) => !wanted.has(id));
    return { ...journal, unused: Object.fromEntries(without.map((id) => [id, (journal.unused[id] ?? 0) + passed])) };
  }

  over(journal: Journal): readonly string[] {
    return Object.entries(journal.unused).flatMap(([id, ms]) => (ms >= unusedLimitMs ? [id] : []));
  }
}
