// What `[tls.acme]` declares: whom to ask for certificates, for which names, and how to prove that they are ours.
// Invariant: plain frozen data, defaults filled in, paths absolute; secrets are named by their files, never held.
import type { ProblemPlace } from './problem.ts';

export type ChallengeType = 'http-01' | 'tls-alpn-01' | 'dns-01';

export interface DeclaredAcme {
  /** Certificate authorities, at least one: the next one is asked when one keeps failing. */
  readonly directories: readonly DeclaredDirectory[];
  /** Contact of the account; null: none is given. */
  readonly email: string | null;
  /** `auto` chooses for each name by what entrypoints and `dns` allow. */
  readonly challenge: ChallengeType | 'auto';
  readonly keyType: 'p256' | 'p384' | 'rsa2048' | 'rsa4096';
  /** Ask the authority when to renew (RFC 9773). */
  readonly ari: boolean;
  /** Name servers for preflight and propagation, `host:port`; empty: the system's. */
  readonly resolvers: readonly string[];
  /** Null: no dns-01, and so no wildcards. */
  readonly dns: DeclaredDns | null;
  /**
   * Names of the file that are to have a certificate, in its order. Which of them a static pair covers is known to the
   * certificate store only; hosts of apps come on top (`isOrderable` in acme-names.ts judges those too).
   */
  readonly targets: readonly AcmeTarget[];
}

export interface DeclaredDirectory {
  /** Also the identity of its account. */
  readonly url: string;
  /** External account binding (RFC 8555 §7.3.4). `hmacFile` holds the key as base64url. */
  readonly eab: { readonly keyId: string; readonly hmacFile: string } | null;
  readonly profile: string | null;
  /** Common name of the root whose chain is preferred among the alternates. */
  readonly preferredChain: string | null;
  /** PEM of the roots to trust when talking to it, read already; null: the system's. */
  readonly ca: string | null;
}

export interface AcmeTarget {
  /** Canonical host, `*.suffix`, or an IP address as hosts spell it. */
  readonly name: string;
  readonly origin: string;
  readonly place: ProblemPlace;
}

export interface DeclaredDns {
  readonly provider: DnsProvider;
  /** How long the record may take to be seen by every name server of the zone. */
  readonly propagationTimeoutMs: number;
  /** Waited before the first look. */
  readonly propagationDelayMs: number;
}

/** Files hold secrets and are read where they are used. */
export type DnsProvider =
  | { readonly kind: 'cloudflare'; readonly tokenFile: string }
  | {
      readonly kind: 'rfc2136';
      /** `host:port` */
      readonly server: string;
      readonly keyName: string;
      /** Base64. */
      readonly keyFile: string;
      readonly algorithm: TsigAlgorithm;
    }
  | { readonly kind: 'acme-dns'; readonly url: string; readonly credentialsFile: string }
  /** Called as `COMMAND… present|cleanup FQDN VALUE`. */
  | { readonly kind: 'exec'; readonly command: readonly string[]; readonly timeoutMs: number };

export type TsigAlgorithm = 'hmac-sha256' | 'hmac-sha384' | 'hmac-sha512';
