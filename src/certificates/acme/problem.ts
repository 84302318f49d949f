// Reads what a CA says when it says no: problem documents (RFC 7807, RFC 8555 §6.7) and bare statuses.
// Invariant: pure; whatever comes, the outcome is an AcmeFailure with a short, printable, redacted sentence.
import { AcmeFailure, type AcmeFailureKind, type FailureScope, type NameProblem } from './failure.ts';
import type { HttpAnswer } from './http.ts';

/** The members that we read. */
export interface ProblemDocument {
  readonly type: string | null;
  readonly detail: string;
  readonly perName: readonly NameProblem[];
}

const urn = 'urn:ietf:params:acme:error:';
const maxDetailLength = 400;

const kinds: Readonly<Record<string, AcmeFailureKind>> = {
  rateLimited: 'rate-limited',
  accountDoesNotExist: 'account-lost',
  externalAccountRequired: 'eab-required',
  alreadyReplaced: 'already-replaced',
  serverInternal: 'server',
  badNonce: 'server',
  // What a CA finds out by looking, also when it looks again at the last moment.
  caa: 'validation',
  connection: 'validation',
  dns: 'validation',
  incorrectResponse: 'validation',
  tls: 'validation',
};

/** @param names  that the request was about, to tell a limit on one of them from a limit on the account */
export function failureOf(answer: HttpAnswer, what: string, names: readonly string[], now: number): AcmeFailure {
  const { status } = answer;
  const retryAfterMs = retryAfter(answer, now);
  const isProblem = (answer.header('content-type') ?? '').includes('json');
  const problem = isProblem ? parseProblem(answer.text) : null;
  if (problem === null || (problem.type === null && status !== 429 && status < 500)) {
    const kind = status === 429 ? 'rate-limited' : 'server';
    const detail = problem?.detail || `answered ${status} and nothing that ACME knows`;
    return new AcmeFailure(kind, `${what}: ${detail}`, { status, retryAfterMs, scope: 'account' });
  }
  const { type, detail, perName } = problem;
  const facts = { status, retryAfterMs, problemType: type, perName };
  const kind = kindOf(type, status);
  const scope = kind === 'rate-limited' ? limitScope(problem, names) : kind === 'server' ? 'account' : 'names';
  return new AcmeFailure(kind, `${what}: ${detail}`, { ...facts, scope });
}

/** By what it says, and where that is nothing we know, by the status it came with. */
export function kindOf(type: string | null, status: number): AcmeFailureKind {
  const known = type === null ? undefined : kinds[type];
  if (known !== undefined) return known;
  if (status === 429) return 'rate-limited';
  return status >= 500 ? 'server' : 'rejected';
}

/** Limits per registered domain and per set of names say which; all others hold for the account. */
function limitScope({ detail, perName }: ProblemDocument, names: readonly string[]): FailureScope {
  if (perName.length > 0) return 'names';
  const text = detail.toLowerCase();
  const isNamed = names.some((name) => {
    const labels = name.replace(/^\*\./, '').split('.');
    return labels.some((_, i) => i < labels.length - 1 && text.includes(labels.slice(i).join('.')));
  });
  return isNamed ? 'names' : 'account';
}

/** Null: no problem document. */
export function parseProblem(text: string): ProblemDocument | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  return readProblem(value);
}

export function readProblem(value: unknown): ProblemDocument | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const { type, detail, title, subproblems } = value as Record<string, unknown>;
  const perName: NameProblem[] = [];
  for (const each of Array.isArray(subproblems) ? subproblems.slice(0, 100) : []) {
    const problem = readProblem(each);
    const { identifier } = (each ?? {}) as { identifier?: { value?: unknown } };
    if (problem === null || typeof identifier?.value !== 'string') continue;
    perName.push({ name: printable(identifier.value), problemType: problem.type, detail: problem.detail });
  }
  const text = typeof detail === 'string' ? detail : typeof title === 'string' ? title : '';
  const known = typeof type === 'string' && type.startsWith(urn) ? type.slice(urn.length) : null;
  return { type: known, detail: printable(text || known || 'no reason given'), perName };
}

/** Key authorizations are cut out (a CA quotes what it read), control characters too; the rest stays short. */
export function printable(text: string): string {
  const clean = text
    .replace(/[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{43}/g, '…')
    .replace(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .trim();
  return clean.length <= maxDetailLength ? clean : `${clean.slice(0, maxDetailLength)}…`;
}

/**
 * Seconds, or a date (RFC 9110 §10.2.3). A date is taken relative to what the CA takes for now, where it says so: our clock
 * may be wrong.
 */
export function retryAfter(answer: Pick<HttpAnswer, 'header'>, now: number): number | null {
  const value = answer.header('retry-after');
  if (value === null) return null;
  if (/^\d{1,9}$/.test(value.trim())) return Number(value) * 1000;
  // `Date.parse` sees a date in nearly everything.
  const until = /^[A-Z][a-z]{2}/.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(until)) return null;
  const theirNow = Date.parse(answer.header('date') ?? '');
  return Math.max(0, until - (Number.isNaN(theirNow) ? now : theirNow));
}
