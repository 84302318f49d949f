// The host of ours that a request is for, as it was judged.
// Invariant: frozen facts; `plan` is null exactly when `fault` is set.
import type { Fault } from '../base/fault.ts';
import type { FieldBlock } from '../message/fields.ts';
import type { Reason } from '../model/reason.ts';
import type { HostPlan, Plans } from './plans.ts';

export interface HostMatch {
  readonly plans: Plans;
  /** What it was judged from. */
  readonly authority: string | null;
  readonly otherAuthority: string | null;
  readonly version: number;
  /** Set: the request is answered with it. */
  readonly fault: Fault | null;
  /** Why, when the log should know more than the fault says. */
  readonly faultReason: Reason | null;
  /** Canonical; '' when there is none. */
  readonly host: string;
  readonly port: number | null;
  /** `host[:port]` in canonical form: the Host that backends get. */
  readonly hostHeader: string;
  /** The port that clients reach this entrypoint on. */
  readonly listenPort: number;
  /** The forwarded fields of every request like this one; null: the peer is trusted, and they depend on what it says. */
  readonly block: FieldBlock | null;
  /** Null exactly when `fault` is set. */
  readonly plan: HostPlan | null;
}
