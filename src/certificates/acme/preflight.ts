// A look before the first order of a name: does it lead anywhere, and does what answers there belong to us?
// Invariant: costs the CA nothing; what cannot be told from here (a router that does not lead back in) is no reason against
// the order, only what is certainly wrong is.
import type { RenewalTarget } from './settings.ts';

export interface Doubt {
  readonly detail: string;
  /** No order while it lasts; otherwise the order goes ahead after a few more looks. */
  readonly certain: boolean;
}

/** Null: go ahead. Never rejects. */
export type Preflight = (target: RenewalTarget, signal: AbortSignal) => Promise<Doubt | null>;
