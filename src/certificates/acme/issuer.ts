// What the rest of the house knows of a certificate authority: one order from wish to chain, and the few other things that
// a CA is asked for.
// Invariant: every method settles within bounded time, rejects only with an AcmeFailure, and keeps no timer or connection
// after it settled. Nothing here remembers when something may be tried again: that is the caller's.
import type { Clock } from '../../base/clock.ts';
import type { AcmeFailure } from './failure.ts';

export type { AcmeFailure } from './failure.ts';

/** One CA directory with one account. Calls may run side by side; they share connections, nonces and the account. */
export interface Issuer {
  readonly directoryUrl: string;
  /** From the wish to a chain that was checked against its key. Rejects with an {@link AcmeFailure}. */
  issue(wish: OrderWish, signal: AbortSignal): Promise<Issued>;
  /** When the CA would like this certificate renewed (RFC 9773); null: it does not say. */
  renewalInfo(chainPem: string, signal: AbortSignal): Promise<RenewalWindow | null>;
  revoke(chainPem: string, reason: RevocationReason, signal: AbortSignal): Promise<void>;
  /** Replaces the account's key (RFC 8555 §7.3.5). A crash at any point leaves a store that finds its account again. */
  rolloverKey(newKeyPem: string, signal: AbortSignal): Promise<void>;
  directoryMeta(signal: AbortSignal): Promise<DirectoryMeta>;
  /** Closes idle connections. */
  close(): Promise<void>;
}

/** What `acmeIssuer` (acme-issuer.ts) makes an issuer of. */
export interface IssuerOptions {
  /** https, except to a loopback address. */
  readonly directoryUrl: string;
  /** Mail addresses; may be empty. Naming a CA in the configuration agrees to its terms. */
  readonly contacts: readonly string[];
  /** Trusted for the directory in place of the system's roots; null: those. */
  readonly caPem: string | null;
  readonly externalAccount: ExternalAccount | null;
  readonly accounts: AccountStore;
  readonly presenter: ChallengePresenter;
  readonly clock: Clock;
  readonly timings?: Partial<IssuerTimings>;
}

export interface IssuerTimings {
  /** One HTTP request, from connecting to the last byte. */
  readonly requestMs: number;
  /** From "look now" to the CA's verdict on all names of an order. */
  readonly validationMs: number;
  /** From finalising to the certificate. */
  readonly issuanceMs: number;
  /** Between two looks, when the CA does not say. */
  readonly pollMs: number;
}

export type ChallengeKind = 'http-01' | 'tls-alpn-01' | 'dns-01';
export type KeyType = 'p256' | 'p384' | 'rsa2048' | 'rsa4096';

export interface OrderWish {
  /** Canonical hosts, one-label wildcards (`*.app.test`) and IP literals (IPv6 in brackets). At least one. */
  readonly names: readonly string[];
  readonly keyType: KeyType;
  /** A profile that the directory offers; null: the CA's default. */
  readonly profile: string | null;
  /** Common name of the issuer that the chain shall end at; null, or not on offer: the CA's default chain. */
  readonly preferredChain: string | null;
  /** {@link renewalId} of the certificate that this one replaces (RFC 9773 §5). */
  readonly replaces: string | null;
  challengeFor(name: string): ChallengeKind;
  /** An order that was begun before, as `onPending` told it; taken up again if the CA still knows it. */
  readonly resume: PendingOrder | null;
  /**
   * The CA has the order, and this key belongs to it. What is kept here saves the certificate of an order that a crash
   * interrupts. Awaited before the order is finalised.
   */
  readonly onPending: ((pending: PendingOrder) => Promise<void>) | null;
}

export interface PendingOrder {
  readonly url: string;
  readonly keyPem: string;
}

export interface Issued {
  /** PEM, leaf first. */
  readonly chain: string;
  /** PEM (PKCS#8). */
  readonly key: string;
  /** Common name of the leaf's issuer, for people. */
  readonly issuer: string;
  /** Epoch milliseconds. */
  readonly notBefore: number;
  readonly notAfter: number;
  /** Of the order. */
  readonly url: string;
}

export interface RenewalWindow {
  /** Epoch milliseconds. */
  readonly start: number;
  readonly end: number;
  readonly explanationUrl: string | null;
  /** When to ask again, as the CA says; null: it does not. */
  readonly retryAfterMs: number | null;
}

export interface DirectoryMeta {
  /** Name → what the CA says about it. */
  readonly profiles: ReadonlyMap<string, string>;
  readonly externalAccountRequired: boolean;
  readonly termsOfService: string | null;
  readonly renewalInfo: boolean;
}

/** RFC 5280 §5.3.1, those that a subscriber may give. */
export type RevocationReason = 'unspecified' | 'key-compromise' | 'affiliation-changed' | 'superseded' | 'cessation';

/** Where accounts are kept, by directory URL. Rejections become an AcmeFailure of kind `store`. */
export interface AccountStore {
  load(directoryUrl: string): Promise<StoredAccount | null>;
  /** Durable when it resolves. */
  save(directoryUrl: string, account: StoredAccount): Promise<void>;
}

export interface StoredAccount {
  /** PEM (PKCS#8). */
  readonly keyPem: string;
  /** What the CA calls the account; null: not told yet. */
  readonly url: string | null;
  /** A rollover was begun: after a crash the CA may know the account by either key. */
  readonly nextKeyPem: string | null;
  /** Mail addresses that the CA was told last; null: nobody knows. */
  readonly contacts: readonly string[] | null;
}

/** External account binding (RFC 8555 §7.3.4), as the CA handed it out. */
export interface ExternalAccount {
  readonly keyId: string;
  /** base64url */
  readonly hmacKey: string;
}

/** Proof of control over one name, ready to be shown: plain data. */
export type Challenge = HttpProof | AlpnProof | DnsProof;

export interface HttpProof {
  readonly kind: 'http-01';
  /** Canonical host. */
  readonly name: string;
  readonly token: string;
  /** The whole body of the answer. */
  readonly answer: string;
}

export interface AlpnProof {
  readonly kind: 'tls-alpn-01';
  /** Canonical host; for an address, the name under in-addr.arpa or ip6.arpa that comes in the SNI (RFC 8738 §6). */
  readonly name: string;
  /** PEM of the certificate with the acmeIdentifier extension, and its key. */
  readonly chain: string;
  readonly key: string;
}

export interface DnsProof {
  readonly kind: 'dns-01';
  /** Canonical host, without `*.`. */
  readonly name: string;
  /** `_acme-challenge.` and the name. Several proofs may have the same record and different values. */
  readonly record: string;
  readonly value: string;
}

/** Shows proofs to whoever looks. All of one order come in one call. */
export interface ChallengePresenter {
  /** Resolves when every worker answers, or every nameserver that was asked shows the records. */
  present(challenges: readonly Challenge[], signal: AbortSignal): Promise<void>;
  /** Also called after `present` rejected, and for what is not shown any more. Best effort: never rejects. */
  withdraw(challenges: readonly Challenge[]): Promise<void>;
}
