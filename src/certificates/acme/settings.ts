// What the configuration wants of the life cycle: names, CAs in order, and how names are proven.
// Invariant: plain data beside the issuers, which live as long as the settings that brought them.
import type { ChallengeKind, Issuer, KeyType } from './issuer.ts';
import type { Target } from './planner.ts';

export interface RenewalSettings {
  readonly targets: readonly RenewalTarget[];
  /** In order of preference, at least one. */
  readonly directories: readonly RenewalDirectory[];
  readonly keyType: KeyType;
  /** Ask CAs when they would like to renew (RFC 9773). */
  readonly announcements: boolean;
}

export interface RenewalTarget extends Target {
  readonly challenge: ChallengeKind;
  /** Why this one, for people. */
  readonly challengeWhy: string;
}

export interface RenewalDirectory {
  readonly url: string;
  readonly issuer: Issuer;
  readonly profile: string | null;
  readonly preferredChain: string | null;
}
