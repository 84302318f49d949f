// Orders, authorizations and challenges as a CA tells them (RFC 8555 §7.1.3–7.1.5), read with suspicion.
// Invariant: pure; a member of the wrong type is an AcmeFailure, never a value that goes on.
import { AcmeFailure } from './failure.ts';
import type { HttpAnswer } from './http.ts';
import { nameOf } from './names.ts';
import { type ProblemDocument, readProblem } from './problem.ts';

export type OrderStatus = 'pending' | 'ready' | 'processing' | 'valid' | 'invalid';

export interface OrderAnswer {
  readonly status: OrderStatus;
  /** Canonical; identifiers that are no names of ours are left out. */
  readonly names: readonly string[];
  readonly authorizations: readonly string[];
  readonly finalize: string;
  readonly certificate: string | null;
  readonly error: ProblemDocument | null;
}

export interface Authorization {
  /** Canonical, wildcards as `*.`. */
  readonly name: string;
  readonly status: string;
  readonly challenges: readonly OfferedChallenge[];
}

export interface OfferedChallenge {
  readonly type: string;
  readonly url: string;
  readonly token: string;
  readonly status: string;
  readonly error: ProblemDocument | null;
}

const orderStatuses: ReadonlySet<unknown> = new Set(['pending', 'ready', 'processing', 'valid', 'invalid']);

/** @param resolve  makes an absolute URL of one in the answer, or throws */
export function readOrder(answer: HttpAnswer, resolve: (url: unknown) => string): OrderAnswer {
  const { status, identifiers, authorizations, finalize, certificate, error } = object(answer, 'order');
  if (!orderStatuses.has(status)) throw odd('order', 'it has no known status');
  if (!Array.isArray(authorizations)) throw odd('order', 'it lists no authorizations');
  return {
    status: status as OrderStatus,
    names: (Array.isArray(identifiers) ? identifiers : []).flatMap((each) => nameOf(each, false) ?? []),
    authorizations: authorizations.map(resolve),
    finalize: resolve(finalize),
    certificate: certificate === undefined ? null : resolve(certificate),
    error: readProblem(error),
  };
}

export function readAuthorization(answer: HttpAnswer, resolve: (url: unknown) => string): Authorization {
  const { identifier, wildcard, status, challenges } = object(answer, 'authorization');
  const name = nameOf(identifier, wildcard);
  if (name === null) throw odd('authorization', 'it is for no name');
  if (typeof status !== 'string') throw odd('authorization', 'it has no status');
  const offered: OfferedChallenge[] = [];
  for (const each of Array.isArray(challenges) ? (challenges as readonly unknown[]) : []) {
    const { type, url, token, status, error } = (each ?? {}) as Record<string, unknown>;
    // Of kinds that we do not know, some have no token.
    if (typeof type !== 'string' || typeof token !== 'string') continue;
    // RFC 8555 §8.1. It becomes part of a path and a host's answers: nothing else may come through here.
    if (!/^[A-Za-z0-9_-]{1,256}$/.test(token)) throw odd('authorization', 'a token is not base64url');
    const state = typeof status === 'string' ? status : 'pending';
    offered.push({ type, url: resolve(url), token, status: state, error: readProblem(error) });
  }
  return { name, status, challenges: offered };
}

function object(answer: HttpAnswer, what: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(answer.text);
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  } catch {
    // Told below.
  }
  throw odd(what, 'it is no JSON object');
}

function odd(what: string, why: string): AcmeFailure {
  return new AcmeFailure('server', `the CA sent an ${what} that is not one: ${why}`, { scope: 'account' });
}
