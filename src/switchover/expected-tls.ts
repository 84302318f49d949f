// What a probe expects of a backend that speaks TLS: what traffic will expect, its name and its issuer.
// Invariant: pure; verification is on unless the service says otherwise.
import { isIP } from 'node:net';
import type { UpstreamTls } from '../model/snapshot.ts';

export interface ExpectedTls {
  readonly servername: string;
  readonly rejectUnauthorized: boolean;
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** @param host  of the backend */
export function expectedTls(upstreamTls: UpstreamTls | null, host: string): ExpectedTls {
  const { sni = '', verify = true, ca = '', cert = '', key = '' } = upstreamTls ?? {};
  return {
    // An IP literal must not be sent as SNI (RFC 6066 §3); the certificate is then checked against the address.
    servername: sni !== '' ? sni : isIP(host) === 0 ? host : '',
    rejectUnauthorized: verify,
    ...(ca === '' ? {} : { ca }),
    ...(cert === '' ? {} : { cert, key }),
  };
}
