// From what a CA offers to what we show: key authorizations and their three dresses (RFC 8555 §8, RFC 8737).
// Invariant: pure but for the key of a tls-alpn-01 certificate, which is new each time.
import { createHash, generateKeyPairSync } from 'node:crypto';
import { issueCertificate } from '../x509.ts';
import type { Challenge, ChallengeKind } from './issuer.ts';
import { serverNameOf } from './names.ts';

const dayMs = 86_400_000;

/**
 * @param name  canonical; a wildcard only with dns-01
 * @param authorization  the key authorization
 * @param now  epoch milliseconds
 */
export function proofFor(
  kind: ChallengeKind,
  name: string,
  token: string,
  authorization: string,
  now: number,
): Challenge {
  switch (kind) {
    case 'http-01':
      return { kind, name, token, answer: authorization };
    case 'tls-alpn-01':
      return { kind, name: serverNameOf(name), ...challengeCertificate(name, authorization, now) };
    case 'dns-01': {
      const base = name.startsWith('*.') ? name.slice(2) : name;
      const value = createHash('sha256').update(authorization).digest('base64url');
      return { kind, name: base, record: `_acme-challenge.${base}`, value };
    }
  }
}

/** Nobody looks at its times, so a wrong clock does no harm. */
function challengeCertificate(name: string, authorization: string, now: number): { chain: string; key: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const chain = issueCertificate(
    {
      commonName: 'ACME challenge',
      organization: null,
      publicKey,
      notBefore: now - dayMs,
      notAfter: now + 7 * dayMs,
      names: [name],
      use: 'server',
      acmeIdentifier: createHash('sha256').update(authorization).digest(),
    },
    { certificate: null, key: privateKey },
  );
  return { chain, key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string };
}
