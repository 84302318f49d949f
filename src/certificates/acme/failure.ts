// What went wrong between us and a certificate authority, as data that a planner can decide by and a person can read.
// Invariant: `detail` never carries a key, a token or a key authorization.

export type AcmeFailureKind =
  /** The CA's limit; `retryAfterMs` says until when, `scope` for whom. */
  | 'rate-limited'
  /** The CA looked and was not convinced; `perName` says where. */
  | 'validation'
  /** We could not show the proof: publication failed, a DNS provider refused, a record did not become visible. */
  | 'presentation'
  /** The CA does not know the account, and a new one could not be made of the same key. */
  | 'account-lost'
  /** The CA closed the account, and a new one could not be made. */
  | 'account-deactivated'
  | 'eab-required'
  /** The certificate that was to be replaced has been replaced before: order again without `replaces`. */
  | 'already-replaced'
  /** The order itself is not acceptable to this CA: trying again without a change is useless. */
  | 'rejected'
  /** The CA's side: 5xx, an answer that is not ACME, nonces that are never right. */
  | 'server'
  /** No conversation: name, connection, TLS. */
  | 'network'
  /** The CA, or what it waits for, took too long. */
  | 'timeout'
  /** Keys or accounts could not be read or kept here. */
  | 'store'
  /** The caller's signal. */
  | 'aborted';

/** For whom a pause holds. */
export type FailureScope = 'names' | 'account';

export interface NameProblem {
  readonly name: string;
  /** URN without its prefix: `dns`, `connection`, `unauthorized`, `caa`, … */
  readonly problemType: string | null;
  readonly detail: string;
}

export interface FailureFacts {
  readonly retryAfterMs?: number | null;
  readonly scope?: FailureScope;
  readonly problemType?: string | null;
  readonly status?: number | null;
  readonly perName?: readonly NameProblem[];
  readonly cause?: unknown;
}

export class AcmeFailure extends Error {
  readonly kind: AcmeFailureKind;
  /** What the CA asked for; null: it did not say. */
  readonly retryAfterMs: number | null;
  readonly scope: FailureScope;
  /** URN without its prefix; null: it was no problem document. */
  readonly problemType: string | null;
  /** HTTP status; null: there was no answer. */
  readonly status: number | null;
  readonly perName: readonly NameProblem[];

  constructor(kind: AcmeFailureKind, detail: string, facts: FailureFacts = {}) {
    super(detail, { cause: facts.cause });
    this.name = 'AcmeFailure';
    this.kind = kind;
    this.retryAfterMs = facts.retryAfterMs ?? null;
    this.scope = facts.scope ?? 'names';
    this.problemType = facts.problemType ?? null;
    this.status = facts.status ?? null;
    this.perName = facts.perName ?? [];
  }

  /** For people; the same as `message`. */
  get detail(): string {
    return this.message;
  }
}
