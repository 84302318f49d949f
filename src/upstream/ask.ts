// What an exchange asks of `upstream/`, and what every file here is given to work with.
// Invariant: an ask is answered exactly once (`backendReady` or `responseFailed`), possibly before `open` returns, unless
// its opening was cancelled first.
import type { Clock } from '../base/clock.ts';
import type { Deadlines } from '../base/deadlines.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { RequestHead } from '../message/head.ts';
import type { Limits } from '../model/snapshot.ts';

export interface Ask {
  readonly head: RequestHead;
  /** Address of the client after trusted proxies were believed: the key of `hash_client`. */
  readonly clientAddress: string;
  /** The address that just failed this request; chosen again only when no other is live. */
  readonly avoid: string | null;
  /** The second and last try: it gets a fresh connection, so that a second stale one cannot fail it as well. */
  readonly replay: boolean;
}

export interface Opening {
  /** The backend that was chosen; null when the ask was answered before `open` returned. */
  readonly address: string | null;
  /** The asker is gone. Harmless when the ask is already answered. */
  cancel(): void;
}

/** The opening of an ask that was answered at once: nothing is left to cancel, nothing is allocated. */
export const answered: Opening = Object.freeze({ address: null, cancel() {} });

/** Bounds for what a backend may send as a head or as trailers. */
export type AnswerLimits = Pick<Limits, 'headerSize' | 'headerCount' | 'targetSize'>;

export interface UpstreamDeps {
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Asked anew for each answer: limits are reloadable. */
  readonly limits: () => AnswerLimits;
  /** The key that names backends in sticky cookies; the same in all workers, kept over restarts. */
  readonly cookieKey: () => Buffer;
  /** A backend was ejected after consecutive failures, until this wall-clock time. */
  readonly onEjected?: (service: string, address: string, until: number) => void;
}
