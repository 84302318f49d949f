// Who this server is for one client: which TLS profile and which certificate, or which alert.
// Invariant: pure; decided by the sniffed ClientHello alone, before any TLS engine is chosen, so nothing can fail open.
import { isIPv6 } from 'node:net';
import {
  type CertificateChoice,
  type CertificateIndex,
  chooseCertificate,
  fallbackCertificate,
} from '../model/certificate-index.ts';
import { canonicalHost, patternCovers } from '../model/host.ts';
import {
  defaultProfileId,
  findHost,
  type HostEntry,
  type RoutingTable,
  type TlsProfile,
  tunnelProfileId,
} from '../model/routing-table.ts';
import type { TlsTermination } from '../model/snapshot.ts';
import { Alert, type AlertDescription } from './alert.ts';

/** Why a TLS client was turned away. Metric label and log member. */
export type TlsRefusal =
  | 'not-tls'
  | 'malformed'
  | 'too-large'
  | 'old-version'
  | 'never-host'
  | 'unknown-name'
  | 'no-name'
  | 'no-certificate'
  /** A CA looks for a proof (RFC 8737) that we do not have. */
  | 'no-challenge'
  | 'timeout'
  | 'client-gone'
  | 'handshake-failed';

export type Identity =
  | {
      readonly kind: 'serve';
      /** Canonical; null when the client sent none. */
      readonly serverName: string | null;
      readonly profile: TlsProfile;
      readonly choice: Exclude<CertificateChoice, { kind: 'none' }>;
    }
  | { readonly kind: 'refuse'; readonly alert: AlertDescription; readonly reason: TlsRefusal };

/**
 * @param sentName  server_name as sent; null when the extension is absent
 * @param localAddress  the address the client connected to, for clients without a name
 */
export function chooseIdentity(
  table: RoutingTable,
  index: CertificateIndex,
  entrypoint: string,
  sentName: string | null,
  localAddress: string,
): Identity {
  if (sentName === null) return withoutName(table, index, entrypoint, localAddress);
  const name = canonicalServerName(sentName);
  if (name === null) return refuse(Alert.UnrecognizedName, 'unknown-name');
  const entry = findEntry(table, entrypoint, name);
  if (entry?.host.tls === 'never') return refuse(Alert.UnrecognizedName, 'never-host');
  const choice = chooseCertificate(index, name, certifiedPattern(table, entry, name));
  if (choice.kind === 'none') return refuse(Alert.UnrecognizedName, 'unknown-name');
  return { kind: 'serve', serverName: name, profile: profileOf(table, entry), choice };
}

/** What the internal CA may sign: on a port that takes every name, a name that some host of ours has. */
function certifiedPattern(table: RoutingTable, entry: HostEntry | null, name: string): string | null {
  if (entry?.host.tls !== 'either' || entry.host.pattern !== '*') return entry?.host.pattern ?? null;
  return findHost(table.reserved, name)?.host.pattern ?? null;
}

/** The default certificate if there is one; else the address itself may be a host of ours. */
function withoutName(table: RoutingTable, index: CertificateIndex, entrypoint: string, localAddress: string): Identity {
  const fallback = fallbackCertificate(index);
  if (fallback.kind !== 'none')
    return { kind: 'serve', serverName: null, profile: profileOf(table, null), choice: fallback };
  const address = canonicalServerName(localAddress);
  const entry = address === null ? null : findEntry(table, entrypoint, address);
  if (address !== null && entry !== null && entry.host.tls !== 'never') {
    const choice = chooseCertificate(index, address, entry.host.pattern);
    if (choice.kind !== 'none') return { kind: 'serve', serverName: null, profile: profileOf(table, entry), choice };
  }
  // RFC 8446 §9.2: what a server that needs the name answers to a hello without it; TLS 1.2 clients know the alert too.
  return refuse(Alert.MissingExtension, 'no-name');
}

/**
 * The same for a tunnel whose TLS is ended here: there are no hosts, and no protocol to agree on.
 * @param sentName  server_name as sent; null when the extension is absent
 */
export function chooseTermination(
  table: RoutingTable,
  index: CertificateIndex,
  { names }: TlsTermination,
  sentName: string | null,
): Identity {
  const profile = table.profiles.get(tunnelProfileId)!;
  if (sentName === null) {
    const fallback = fallbackCertificate(index);
    if (fallback.kind !== 'none') return { kind: 'serve', serverName: null, profile, choice: fallback };
    const only = names.find((each) => !each.startsWith('*.'));
    const choice = only === undefined ? null : chooseCertificate(index, only, only);
    if (choice === null || choice.kind === 'none') return refuse(Alert.MissingExtension, 'no-name');
    return { kind: 'serve', serverName: null, profile, choice };
  }
  const name = canonicalServerName(sentName);
  if (name === null) return refuse(Alert.UnrecognizedName, 'unknown-name');
  const pattern = names.find((each) => patternCovers(each, name)) ?? null;
  if (pattern === null && names.length > 0) return refuse(Alert.UnrecognizedName, 'unknown-name');
  const choice = chooseCertificate(index, name, pattern);
  if (choice.kind === 'none') return refuse(Alert.UnrecognizedName, 'unknown-name');
  return { kind: 'serve', serverName: name, profile, choice };
}

/**
 * Canonical form of a server name, or null when it is none. RFC 6066 §3 wants ASCII without a trailing dot and no
 * addresses; dots and addresses are taken all the same, since they can only mean one thing.
 */
export function canonicalServerName(sent: string): string | null {
  if (isIPv6(sent)) return canonicalHost(`[${sent}]`);
  return /^[\x21-\x7e]+$/.test(sent) ? canonicalHost(sent) : null;
}

/** The host that serves this name here; else its owner elsewhere, whose TLS policy holds on every entrypoint. */
function findEntry(table: RoutingTable, entrypoint: string, name: string): HostEntry | null {
  const here = table.entrypoints.get(entrypoint);
  return (here === undefined ? null : findHost(here.hosts, name)) ?? findHost(table.reserved, name);
}

function profileOf(table: RoutingTable, entry: HostEntry | null): TlsProfile {
  const profile = table.profiles.get(entry?.profileId ?? defaultProfileId);
  if (profile === undefined) throw new Error(`TLS profile ${entry?.profileId} is not in the table`);
  return profile;
}

function refuse(alert: AlertDescription, reason: TlsRefusal): Identity {
  return { kind: 'refuse', alert, reason };
}
