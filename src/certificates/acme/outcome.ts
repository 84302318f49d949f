// What an attempt that is over means for the next ones.
// Invariant: pure; a failure delays the name it is about, and a CA only when it is the CA that fails; a success takes all of
// it back.
import type { AcmeFailure, AcmeFailureKind } from './failure.ts';
import {
  authorityState,
  freshAuthority,
  type Journal,
  type Pause,
  targetState,
  withAuthority,
  withTarget,
} from './journal.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const longestPauseMs = 7 * 24 * hourMs;

export interface Attempt {
  readonly id: string;
  readonly names: readonly string[];
  readonly directory: string;
  /** End of the certificate that is served meanwhile; null: there is none. */
  readonly notAfter: number | null;
  /** Fingerprint of it. */
  readonly held: string | null;
}

/** What can be told of a failure besides our own `AcmeFailure`s. */
export type Failure = Pick<AcmeFailure, 'retryAfterMs' | 'scope' | 'perName' | 'detail'> & {
  readonly kind: AcmeFailureKind | 'clock';
};

interface Backoff {
  readonly firstMs: number;
  readonly longestMs: number;
}

/** For a name, by what failed. */
const backoffs: Readonly<Record<Failure['kind'], Backoff>> = {
  // Five an hour and name may fail.
  validation: { firstMs: 12 * minuteMs, longestMs: 6 * hourMs },
  presentation: { firstMs: 5 * minuteMs, longestMs: 6 * hourMs },
  rejected: { firstMs: hourMs, longestMs: 24 * hourMs },
  clock: { firstMs: hourMs, longestMs: 7 * 24 * hourMs },
  'already-replaced': { firstMs: 0, longestMs: 0 },
  'rate-limited': { firstMs: hourMs, longestMs: 6 * hourMs },
  server: { firstMs: 2 * minuteMs, longestMs: 6 * hourMs },
  timeout: { firstMs: 2 * minuteMs, longestMs: 6 * hourMs },
  network: { firstMs: 0, longestMs: 0 },
  'account-lost': { firstMs: 0, longestMs: 0 },
  'account-deactivated': { firstMs: 0, longestMs: 0 },
  'eab-required': { firstMs: 0, longestMs: 0 },
  store: { firstMs: minuteMs, longestMs: 10 * minuteMs },
  aborted: { firstMs: 0, longestMs: 0 },
};

/** For a CA as a whole. */
const caBackoffs: Readonly<Partial<Record<Failure['kind'], Backoff>>> = {
  network: { firstMs: minuteMs, longestMs: hourMs },
  server: { firstMs: minuteMs, longestMs: 15 * minuteMs },
  'account-lost': { firstMs: 10 * minuteMs, longestMs: 6 * hourMs },
  'account-deactivated': { firstMs: 10 * minuteMs, longestMs: 6 * hourMs },
  'eab-required': { firstMs: hourMs, longestMs: 24 * hourMs },
};

export function afterSuccess(journal: Journal, { id, directory }: Attempt): Journal {
  // A pause that the CA asked for over another order holds all the same.
  const { pause } = authorityState(journal, directory);
  const asked = pause?.by === 'ca' ? pause : null;
  const kept = withAuthority(journal, directory, { ...freshAuthority, pause: asked });
  return withTarget(kept, id, { failures: 0, pause: null, lastError: null, doubts: 0, revoked: null });
}

export function afterFailure(
  journal: Journal,
  attempt: Attempt,
  failure: Failure,
  now: number,
  random: () => number,
): Journal {
  const { id, directory, notAfter } = attempt;
  const { kind, detail, retryAfterMs } = failure;
  if (kind === 'aborted') return journal;
  let next = journal;
  if (kind === 'validation') next = withFailedValidations(next, attempt, failure, now);
  const state = targetState(next, id);
  const ofCa = caBackoffs[kind];
  const ofName = kind === 'network' || backoffs[kind].longestMs === 0 ? null : backoffs[kind];
  const failures = ofName === null ? state.failures : state.failures + 1;
  let pause: Pause | null = null;
  if (ofName !== null) {
    const own = backoffMs(ofName, failures, random);
    // The less time is left, the more often it is tried.
    const isClock = kind === 'clock';
    const hurried = notAfter === null || isClock ? own : Math.max(ofName.firstMs, Math.min(own, (notAfter - now) / 8));
    const why = `pause after ${failures} failures in a row`;
    // By a clock that is wrong everything is an emergency: that must not cut this pause short.
    pause = { since: now, until: now + hurried, by: isClock ? 'ca' : 'us', directory: null, why };
  }
  const asked = retryAfterMs === null ? null : Math.min(retryAfterMs, longestPauseMs);
  const why = 'the CA asked for a pause';
  const wish = (ms: number): Pause => ({ since: now, until: now + ms, by: 'ca', directory, why });
  if (kind === 'rate-limited') {
    const limited = wish(asked ?? hourMs);
    if (failure.scope === 'account') next = withAuthority(next, directory, { failures: 0, pause: limited });
    pause = failure.scope === 'account' ? null : limited;
  } else if (ofCa !== undefined) {
    const before = authorityState(next, directory).failures + 1;
    const ms = backoffMs(ofCa, before, random);
    const failed = `${directory} has failed ${before} times in a row`;
    const own: Pause = { since: now, until: now + ms, by: 'us', directory, why: failed };
    const caPause = asked !== null && asked > ms ? wish(asked) : own;
    const earlier = authorityState(next, directory).pause;
    const longest = earlier !== null && earlier.until > caPause.until ? earlier : caPause;
    next = withAuthority(next, directory, { failures: before, pause: longest });
  } else if (asked !== null && (pause === null || now + asked > pause.until)) {
    pause = wish(asked);
  }
  return withTarget(next, id, {
    failures,
    pause,
    lastError: { at: now, kind, directory, detail },
    ...(kind === 'already-replaced' ? { notReplaced: attempt.held } : {}),
  });
}

function withFailedValidations(journal: Journal, { names }: Attempt, { perName }: Failure, now: number): Journal {
  const failed = perName.length === 0 ? names : perName.map(({ name }) => name);
  const records = failed.map((name) => ({ at: now, name }));
  return { ...journal, failedValidations: [...journal.failedValidations, ...records] };
}

/** Doubles with every failure in a row; a quarter more or less by chance, so that not all come back together. */
export function backoffMs({ firstMs, longestMs }: Backoff, failures: number, random: () => number): number {
  const doubled = Math.min(longestMs, firstMs * 2 ** Math.min(failures - 1, 20));
  return doubled * (0.75 + random() / 2);
}
