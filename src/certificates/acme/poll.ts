// Looks again until there is an outcome: as often as the CA asks for, and not for ever.
// Invariant: never sooner than Retry-After says; a look that fails in passing (network, 5xx, a limit) is followed by another
// one; the last such failure is what is told when the time is over.
import type { Clock } from '../../base/clock.ts';
import { asFailure } from './account.ts';
import { AcmeFailure } from './failure.ts';
import { sleep } from './sleep.ts';

export type Look<T> = { readonly done: T } | { readonly done?: never; readonly retryAfterMs: number | null };

export interface Patience {
  readonly clock: Clock;
  /** In all. */
  readonly withinMs: number;
  /** Between the first two looks, when the CA does not say; grows from there. */
  readonly pollMs: number;
  /** What is waited for: "the validation". */
  readonly what: string;
}

const growth = 1.5;
const slowestMs = 15_000;
/** A CA that says "0 seconds" means soon, not a loop. */
const quickestMs = 100;

export async function poll<T>(
  { clock, withinMs, pollMs, what }: Patience,
  signal: AbortSignal,
  look: () => Promise<Look<T>>,
): Promise<T> {
  const deadline = clock.monotonic() + withinMs;
  let pauseMs = pollMs;
  for (;;) {
    let retryAfterMs: number | null;
    let passing: AcmeFailure | null = null;
    try {
      const seen = await look();
      if ('done' in seen) return seen.done as T;
      retryAfterMs = seen.retryAfterMs;
    } catch (error) {
      passing = asFailure(error);
      if (!isPassing(passing)) throw passing;
      retryAfterMs = passing.retryAfterMs;
    }
    const waitMs = Math.max(quickestMs, retryAfterMs ?? pauseMs);
    if (clock.monotonic() + waitMs > deadline) {
      // To sleep until then here would hold an order for as long as a CA likes.
      if (passing !== null) throw passing;
      throw new AcmeFailure('timeout', `${what} took longer than ${Math.round(withinMs / 1000)} s`, { retryAfterMs });
    }
    await sleep(clock, waitMs, signal);
    pauseMs = Math.min(slowestMs, pauseMs * growth);
  }
}

function isPassing({ kind, status }: AcmeFailure): boolean {
  // An answer that is none, or too large, is not going to be another one.
  if (kind === 'server') return status !== null && status >= 500;
  return kind === 'network' || kind === 'timeout' || kind === 'rate-limited';
}
