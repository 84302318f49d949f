// Whether and where a host can be reached over TLS: the precondition of every redirect to https.
// Invariant: null unless a bound TLS entrypoint serves the host and a certificate is usable or obtainable at once; for
// `always`, unless one will be.
import { certificateFor, certificateIndex } from '../model/certificate-index.ts';
import { endsTls } from '../model/entrypoint-protocol.ts';
import type { RoutingTable } from '../model/routing-table.ts';
import type { CertificatesPart, Host } from '../model/snapshot.ts';

export interface HttpsEndpoint {
  readonly port: number;
  readonly publicPort: number | null;
}

/** @param name  the canonical host asked for; it matters for wildcard and catch-all hosts, whose names are not listed */
export function httpsEndpoint(
  host: Host,
  name: string,
  table: RoutingTable,
  certificates: CertificatesPart,
): HttpsEndpoint | null {
  const certificate = certificateFor(certificateIndex(certificates), name, host.pattern);
  // While the first certificate is on its way only who may never be served in plaintext is sent to where it will be.
  if (certificate === null || (certificate === 'soon' && host.tls !== 'always')) return null;
  for (const entrypointName of host.entrypoints) {
    const entrypoint = table.entrypoints.get(entrypointName)?.entrypoint;
    if (entrypoint === undefined) continue;
    const { protocol, port, publicPort } = entrypoint;
    if (endsTls(protocol)) return { port, publicPort };
  }
  return null;
}
