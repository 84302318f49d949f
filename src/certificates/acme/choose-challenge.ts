// How a name is proved to a CA, and why that way.
// Invariant: pure; what is chosen can work by what the configuration says, or the reason says what it takes for granted.
import type { ChallengeType } from '../../config/declared-acme.ts';
import { endsTls, takesPlainHttp } from '../../model/entrypoint-protocol.ts';
import type { EntrypointProtocol } from '../../model/snapshot.ts';
import { bareAddress } from './names.ts';

export interface ChallengeFacts {
  /** All of them: challenges are answered whether an entrypoint serves the host or not. */
  readonly entrypoints: readonly ChallengeEntrypoint[];
  /** For messages: "cloudflare"; null: none is configured. */
  readonly dnsProvider: string | null;
}

export interface ChallengeEntrypoint {
  readonly name: string;
  readonly protocol: EntrypointProtocol;
  readonly port: number;
  /** By which clients reach it; null: `port`. */
  readonly publicPort: number | null;
  /** Who may connect; empty: everyone. */
  readonly trustedCidrs: readonly string[];
}

export type ChallengeChoice =
  | { readonly kind: ChallengeType; readonly why: string }
  /** It cannot be proved. */
  | { readonly kind: null; readonly why: string };

/** Where a CA looks (RFC 8555 §8.3, RFC 8737 §3). Nothing can change it. */
const httpPort = 80;
const tlsPort = 443;

/** @param wanted  what the configuration says: for all names, or `auto` for the best that each can have */
export function chooseChallenge(
  name: string,
  wanted: ChallengeType | 'auto',
  { entrypoints, dnsProvider }: ChallengeFacts,
): ChallengeChoice {
  const isAddress = bareAddress(name) !== null;
  if (name.startsWith('*.')) {
    const why = 'a wildcard can only be proved by dns-01';
    return dnsProvider === null
      ? { kind: null, why: `${why}, and no DNS provider is configured` }
      : { kind: 'dns-01', why: `${why}; provider: ${dnsProvider}` };
  }
  if (wanted !== 'auto') {
    if (wanted === 'dns-01' && isAddress) return { kind: null, why: 'an address has no DNS zone to prove it in' };
    return { kind: wanted, why: 'as configured' };
  }
  if (dnsProvider !== null && !isAddress) {
    return { kind: 'dns-01', why: `the DNS provider ${dnsProvider} is configured, and needs no open port` };
  }
  const plain = entrypoints.filter(({ protocol }) => takesPlainHttp(protocol));
  const tls = entrypoints.filter(({ protocol }) => endsTls(protocol));
  const onHttp = plain.find((each) => takesAnybody(each, httpPort));
  if (onHttp !== undefined) return { kind: 'http-01', why: `entrypoint ${onHttp.name} takes HTTP on port ${httpPort}` };
  const onTls = tls.find((each) => takesAnybody(each, tlsPort));
  if (onTls !== undefined) return { kind: 'tls-alpn-01', why: `entrypoint ${onTls.name} takes TLS on port ${tlsPort}` };
  const [anyPlain] = plain;
  if (anyPlain !== undefined) return { kind: 'http-01', why: takenForGranted(anyPlain, httpPort) };
  const [anyTls] = tls;
  if (anyTls !== undefined) return { kind: 'tls-alpn-01', why: takenForGranted(anyTls, tlsPort) };
  return { kind: null, why: 'no entrypoint takes HTTP or ends TLS, and no DNS provider is configured' };
}

function takesAnybody({ port, publicPort, trustedCidrs }: ChallengeEntrypoint, wanted: number): boolean {
  return (publicPort ?? port) === wanted && trustedCidrs.length === 0;
}

function takenForGranted({ name, port, publicPort, trustedCidrs }: ChallengeEntrypoint, wanted: number): string {
  const leads = `port ${wanted} of the internet leads to entrypoint ${name} on port ${port}`;
  const admits = `trusted_cidrs of entrypoint ${name} admit the CA`;
  if (trustedCidrs.length === 0) return `taking for granted that ${leads}`;
  return `taking for granted that ${(publicPort ?? port) === wanted ? admits : `${leads}, and that ${admits}`}`;
}
