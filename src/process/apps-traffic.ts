// How apps move traffic: a publication that makes their services active, and what it cost.
// Invariant: translates only; order and failure are the deploy's and the publication's business.
import type { AppsStore, AppTraffic, DrainResult, Moved } from '../apps/ports.ts';
import type { AppsChange } from '../apps/state.ts';
import type { Drain } from './drains.ts';
import { claimsOf } from './inspection.ts';
import type { Serving } from './serving.ts';
import type { StateStore } from './state-store.ts';
import { troublesOf } from './switch-ground.ts';

export class ServingTraffic implements AppTraffic {
  readonly #serving: Serving;

  constructor(serving: Serving) {
    this.#serving = serving;
  }

  async move(change: AppsChange): Promise<Moved> {
    const { published, drains } = await this.#serving.moveApps(change);
    const { revision, changed, flips, holdMs } = published;
    return {
      revision,
      changed,
      inFlight: flips.reduce((sum, flip) => sum + flip.active, 0),
      held: flips.reduce((sum, flip) => sum + flip.held, 0),
      holdMs: Math.round(holdMs),
      drains: drains.map((drain) => ({ service: drain.service, done: resultOf(drain) })),
    };
  }

  async errors(services: readonly string[]): Promise<number> {
    let errors = 0;
    for (const service of services) errors += (await troublesOf(this.#serving, service)).errors;
    return errors;
  }

  async claimed(services: readonly string[]): Promise<number> {
    const stats = (await this.#serving.stats()).map(([, worker]) => worker);
    let claimed = 0;
    for (const name of services) {
      const number = this.#serving.service(name)?.generation.number;
      if (number !== undefined) claimed += claimsOf(name, number, stats).claimed;
    }
    return claimed;
  }
}

async function resultOf(drain: Drain): Promise<DrainResult> {
  await drain.done;
  return { claimed: drain.claimed, forced: drain.forced, tookMs: drain.tookMs ?? 0 };
}

export function appsStoreOf(store: StateStore): AppsStore {
  return { write: (change) => store.transaction(() => store.apps.put(change)) };
}
