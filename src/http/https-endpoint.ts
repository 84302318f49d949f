// Whether and where a host can be reached over TLS: the precondition of every redirect to https.
// Invariant: null unless a bound TLS entrypoint serves the host and a certificate is usable or obtainable at once.

import { certificateIndex, hasCertificateFor } from '../model/certificate-index.ts';
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
  if (!hasCertificateFor(certificateIndex(certificates), name, host.pattern)) return null;
  for (const entrypointName of host.entrypoints) {
    const entrypoint = table.entrypoints.get(entrypointName)?.entrypoint;
    if (entrypoint === undefined) continue;
    const { protocol, port, publicPort } = entrypoint;
    if (endsTls(protocol)) return { port, publicPort };
  }
  return null;
}
