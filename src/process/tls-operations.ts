// What an operator may ask about certificates, and have done with them.
// Invariant: plain data without a key; what a CA refused is a Fault `acme-failed` that says why. Times are epoch ms.
import type { RevocationReason } from '../certificates/acme/issuer.ts';

/** RFC 5280 §5.3.1, those that a subscriber may give. */
export const revocationReasons: readonly RevocationReason[] = [
  'unspecified',
  'key-compromise',
  'affiliation-changed',
  'superseded',
  'cessation',
];

export interface TlsOperations {
  names(): readonly TlsNameStatus[];
  /** Null: nothing is ordered from anybody. */
  plan(): TlsPlan | null;
  /** Orders a new certificate now; resolves when it is served. */
  renew(name: string): Promise<RenewedCertificate>;
  /** Tells the CA, and orders another one at once. */
  revoke(name: string, reason: RevocationReason): Promise<RevokedCertificate>;
  /** New account keys at every CA. */
  rollover(): Promise<{ readonly directories: readonly string[] }>;
}

/** A name that clients reach over TLS, and what they get. */
export interface TlsNameStatus {
  readonly name: string;
  /** `pending`: the first one is being ordered. */
  readonly source: 'static' | 'acme' | 'internal' | 'pending' | 'none';
  /** Why this one. */
  readonly why: string;
  readonly issuer: string | null;
  readonly notAfter: number | null;
  /** Null: none will be made. */
  readonly nextAttempt: number | null;
  readonly lastError: TlsError | null;
  readonly challenge: { readonly kind: string; readonly why: string } | null;
}

export interface TlsError {
  readonly at: number;
  readonly kind: string;
  readonly detail: string;
}

export interface TlsPlan {
  readonly now: number;
  readonly rows: readonly TlsPlanRow[];
  readonly authorities: readonly AuthorityStatus[];
  /** What keeps the store from being used; null: nothing. */
  readonly storeTrouble: string | null;
}

export interface TlsPlanRow {
  readonly names: readonly string[];
  readonly urgency: 'missing' | 'calm' | 'late' | 'emergency';
  readonly at: number | null;
  readonly directory: string | null;
  readonly why: string;
  readonly challenge: string;
  /** Failures in a row. */
  readonly failures: number;
}

export interface AuthorityStatus {
  readonly directory: string;
  readonly failures: number;
  readonly pausedUntil: number | null;
  readonly pausedWhy: string | null;
  /** Orders that its limits leave for the next three hours. */
  readonly ordersLeft: number;
}

export interface RenewedCertificate {
  readonly names: readonly string[];
  readonly issuer: string;
  readonly notAfter: number;
}

export interface RevokedCertificate {
  readonly names: readonly string[];
  readonly id: string;
}
