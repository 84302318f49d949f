// Proves control over the names of one order (RFC 8555 §7.5): shows all proofs, lets the CA look, waits for its verdicts.
// Invariant: nothing is shown for a name that is proved already; the CA is told to look only when everything is shown; what
// was shown is withdrawn, whatever happens.
import type { Clock } from '../../base/clock.ts';
import { type Account, asFailure } from './account.ts';
import { type Authorization, type OfferedChallenge, readAuthorization } from './answers.ts';
import { AcmeFailure, type NameProblem } from './failure.ts';
import type { Challenge, ChallengeKind, ChallengePresenter } from './issuer.ts';
import { poll } from './poll.ts';
import { retryAfter } from './problem.ts';
import { proofFor } from './proof.ts';
import type { Session } from './session.ts';

export interface AuthorizationDeps {
  readonly session: Session;
  readonly account: Account;
  readonly presenter: ChallengePresenter;
  readonly clock: Clock;
  readonly validationMs: number;
  readonly pollMs: number;
}

interface Task {
  readonly url: string;
  readonly authorization: Authorization;
  readonly challenge: OfferedChallenge;
}

/** Resolves when every authorization is valid; rejects with `validation` naming those that are not. */
export async function authorize(
  urls: readonly string[],
  challengeFor: (name: string) => ChallengeKind,
  deps: AuthorizationDeps,
  signal: AbortSignal,
): Promise<void> {
  const tasks: Task[] = [];
  const problems: NameProblem[] = [];
  for (const url of urls) {
    const { authorization } = await fetchAuthorization(url, deps, signal);
    if (authorization.status === 'valid') continue;
    if (authorization.status !== 'pending') problems.push(problemOf(authorization));
    else tasks.push({ url, authorization, challenge: pick(authorization, challengeFor(authorization.name)) });
  }
  if (problems.length > 0) throw refusal(problems);
  if (tasks.length > 0) await prove(tasks, deps, signal);
}

async function prove(tasks: readonly Task[], deps: AuthorizationDeps, signal: AbortSignal): Promise<void> {
  const { account, presenter, clock } = deps;
  const { key } = await account.current(signal);
  const proofs = tasks.map(({ authorization, challenge }) =>
    proofFor(
      challenge.type as ChallengeKind,
      authorization.name,
      challenge.token,
      key.authorizationFor(challenge.token),
      clock.now(),
    ),
  );
  try {
    await present(presenter, proofs, signal);
    const unheard = new Set<Task>();
    for (const task of tasks) {
      // One that a run before this one asked for may be under way.
      if (task.challenge.status !== 'pending') continue;
      if (!(await isHeard(task, deps, signal))) unheard.add(task);
    }
    await verdicts(tasks, unheard, deps, signal);
  } finally {
    await presenter.withdraw(proofs);
  }
}

async function present(
  presenter: ChallengePresenter,
  proofs: readonly Challenge[],
  signal: AbortSignal,
): Promise<void> {
  try {
    await presenter.present(proofs, signal);
  } catch (error) {
    if (error instanceof AcmeFailure) throw error;
    if (signal.aborted) throw new AcmeFailure('aborted', 'stopped', { cause: error });
    const why = error instanceof Error ? error.message : String(error);
    throw new AcmeFailure('presentation', `the challenge could not be shown: ${why}`, { cause: error });
  }
}

/**
 * "Look now" (RFC 8555 §7.5.1). False: it cannot be known whether the CA heard it.
 * @param again  it may have been heard before: then a CA refuses what is not pending any more, and the next look tells
 */
async function isHeard(
  { challenge: { url }, authorization: { name } }: Task,
  { account }: AuthorizationDeps,
  signal: AbortSignal,
  again = false,
): Promise<boolean> {
  try {
    await account.ask({ url, payload: {}, what: 'challenge', names: [name] }, signal);
    return true;
  } catch (error) {
    const failure = asFailure(error);
    if (again && failure.kind === 'rejected') return true;
    if (failure.kind !== 'network' && failure.kind !== 'timeout') throw failure;
    return false;
  }
}

/**
 * Waits until each name has its verdict, so that a failure can tell them all.
 * @param unheard  about which the CA is asked again, as long as there is no verdict
 */
async function verdicts(
  tasks: readonly Task[],
  unheard: Set<Task>,
  deps: AuthorizationDeps,
  signal: AbortSignal,
): Promise<void> {
  const { clock, validationMs: withinMs, pollMs } = deps;
  const open = new Set(tasks);
  const problems: NameProblem[] = [];
  await poll({ clock, withinMs, pollMs, what: 'the validation' }, signal, async () => {
    let retryAfterMs: number | null = null;
    for (const task of open) {
      const seen = await fetchAuthorization(task.url, deps, signal);
      const { status } = seen.authorization;
      if (status === 'pending') {
        if (unheard.has(task) && (await isHeard(task, deps, signal, true))) unheard.delete(task);
        if (seen.retryAfterMs !== null) retryAfterMs = Math.max(retryAfterMs ?? 0, seen.retryAfterMs);
        continue;
      }
      open.delete(task);
      if (status !== 'valid') problems.push(problemOf(seen.authorization));
    }
    return open.size === 0 ? { done: null } : { retryAfterMs };
  });
  if (problems.length > 0) throw refusal(problems);
}

async function fetchAuthorization(
  url: string,
  { session, account, clock }: AuthorizationDeps,
  signal: AbortSignal,
): Promise<{ authorization: Authorization; retryAfterMs: number | null }> {
  const answer = await account.ask({ url, payload: null, what: 'authorization' }, signal);
  const authorization = readAuthorization(answer, (value) => session.resource(value, 'authorization'));
  return { authorization, retryAfterMs: retryAfter(answer, clock.now()) };
}

function pick({ name, challenges }: Authorization, wanted: ChallengeKind): OfferedChallenge {
  const challenge = challenges.find(({ type }) => type === wanted);
  if (challenge !== undefined) return challenge;
  const offered = challenges.map(({ type }) => type).join(', ') || 'none';
  throw new AcmeFailure('rejected', `${name}: the CA does not offer ${wanted}; on offer: ${offered}`);
}

function problemOf({ name, status, challenges }: Authorization): NameProblem {
  const error = challenges.find((each) => each.error !== null)?.error ?? null;
  return { name, problemType: error?.type ?? null, detail: error?.detail ?? `the authorization is ${status}` };
}

function refusal(perName: readonly NameProblem[]): AcmeFailure {
  const detail = perName.map(({ name, detail }) => `${name}: ${detail}`).join('; ');
  return new AcmeFailure('validation', detail, { perName, problemType: perName[0]?.problemType ?? null });
}
