// What apps need of the process they live in: a store, and traffic that can be moved.
// Invariant: interfaces only; `process/` gives the real ones, tests their own.
import type { AppsChange } from './state.ts';

/** Rows outside publications: revisions, incarnations, the journal. On disk when `write` returns. */
export interface AppsStore {
  write(change: AppsChange): void;
}

/** Generations of an app's services that no longer serve. */
export interface Moved {
  /** Every worker serves it since this revision. */
  readonly revision: number;
  readonly changed: boolean;
  /** Requests that were in work on the old generations at the moment of the switch. */
  readonly inFlight: number;
  /** Arrivals that waited for it, and for how long at most. */
  readonly held: number;
  readonly holdMs: number;
  readonly drains: readonly MovedDrain[];
}

export interface MovedDrain {
  /** Of the routing. */
  readonly service: string;
  /** The generation has no claim left. */
  readonly done: Promise<DrainResult>;
}

export interface DrainResult {
  readonly claimed: number;
  readonly forced: number;
  readonly tookMs: number;
}

export interface AppTraffic {
  /**
   * Publishes what the change makes active, and writes the whole change in the same transaction. Resolves when every
   * worker serves it; rejects with a Fault when nothing has changed.
   */
  move(change: AppsChange): Promise<Moved>;
  /** Failed exchanges ever of these services of the routing, together. */
  errors(services: readonly string[]): Promise<number>;
  /** Requests, tunnels and flows ever on the generations of these services that serve now. */
  claimed(services: readonly string[]): Promise<number>;
}

/** Told before every step of a deploy is written down, and before it is carried out; a test ends the process there. */
export type AppsObserver = (step: string) => void;
