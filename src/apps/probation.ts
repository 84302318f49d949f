// The first minute of a new generation: does it serve, or does it fail?
// Invariant: looks only, at counters of exchanges; told at most once for each generation that does not pass.
import type { Clock, Timer } from '../base/clock.ts';
import type { AppTraffic } from './ports.ts';

export const probationMs = 60_000;
const everyMs = 1000;
/** So many failed exchanges, and no fewer than served ones: one bad request is no bad generation. */
const budget = 5;

export class Probation {
  readonly #clock: Clock;
  readonly #traffic: AppTraffic;
  readonly #timers = new Map<string, Timer>();

  constructor(clock: Clock, traffic: AppTraffic) {
    this.#clock = clock;
    this.#traffic = traffic;
  }

  /** Every worker serves this generation of these services of the routing since now. */
  async begin(instance: string, services: readonly string[], onFailed: () => void): Promise<void> {
    if (services.length === 0) return;
    const until = this.#clock.monotonic() + probationMs;
    const before = await this.#traffic.errors(services);
    let looking = false;
    const look = async (): Promise<void> => {
      if (looking) return;
      looking = true;
      const errors = (await this.#traffic.errors(services)) - before;
      const served = (await this.#traffic.claimed(services)) - errors;
      looking = false;
      const failed = errors >= budget && errors >= served;
      if (!failed && this.#clock.monotonic() < until) return;
      if (!this.#timers.has(instance)) return;
      this.#end(instance);
      if (failed) onFailed();
    };
    this.#timers.set(
      instance,
      this.#clock.every(everyMs, () => void look()),
    );
  }

  close(): void {
    for (const instance of [...this.#timers.keys()]) this.#end(instance);
  }

  #end(instance: string): void {
    this.#timers.get(instance)?.cancel();
    this.#timers.delete(instance);
  }
}
