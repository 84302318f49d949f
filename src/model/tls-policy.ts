// The TLS policy table of a host as a pure decision: auto / always / never × the connection's facts.
// Invariant: `always` is judged by the connection alone; only `auto` believes a trusted peer's X-Forwarded-Proto.
import { patternCovers } from './host.ts';
import type { HostTls } from './snapshot.ts';

export type PlaintextVerdict = 'serve' | 'redirect' | 'misdirected';

/**
 * A request that arrived without TLS.
 * @param endpoint  a TLS entrypoint serves this host and a certificate is usable or obtainable at once
 * @param forwardedHttps  the peer is trusted and says the client used https
 */
export function judgePlaintext(
  policy: HostTls,
  endpoint: boolean,
  redirects: boolean,
  forwardedHttps: boolean,
): PlaintextVerdict {
  switch (policy) {
    case 'never':
    case 'either':
      return 'serve';
    case 'always':
      return endpoint ? 'redirect' : 'misdirected';
    case 'auto':
      return endpoint && redirects && !forwardedHttps ? 'redirect' : 'serve';
  }
}

export type TlsVerdict = 'serve' | 'misdirected-never' | 'misdirected-identity' | 'misdirected-profile';

/**
 * A request for a reserved host that arrived over TLS (RFC 9110 §7.4, RFC 9113 §9.1.2).
 * @param names  names covered by the certificate that this connection presented
 * @param trustedPeer  a load balancer in `trusted_proxies`: exempt from the identity test, never from the profile test
 */
export function judgeTls(
  policy: HostTls,
  host: string,
  hostProfileId: string,
  connectionProfileId: string,
  names: readonly string[],
  trustedPeer: boolean,
): TlsVerdict {
  if (policy === 'never') return 'misdirected-never';
  if (hostProfileId !== connectionProfileId) return 'misdirected-profile';
  if (!trustedPeer && !names.some((name) => patternCovers(name, host))) return 'misdirected-identity';
  return 'serve';
}

/**
 * The port of a redirect to https: the TLS entrypoint's public port if set; Host without a port →
 * none; Host with the plaintext listener's port → the TLS listener's; any other port is kept. 443 is never written.
 */
export function redirectPort(
  requestPort: number | null,
  plainPort: number,
  tlsPort: number,
  tlsPublicPort: number | null,
): number | null {
  let port: number | null;
  if (tlsPublicPort !== null) port = tlsPublicPort;
  else if (requestPort === null) port = null;
  else port = requestPort === plainPort ? tlsPort : requestPort;
  return port === 443 ? null : port;
}
