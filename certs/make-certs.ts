// Throwaway certificates for local runs and tests: a CA and leaves below it.
// Invariant: nothing made here is for production; run directly, it writes to certs/out/, which git ignores.
import { generateKeyPairSync, type KeyObject, X509Certificate } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { issueCertificate } from '../src/certificates/x509.ts';

export interface LeafWish {
  /** Host names, `*.` wildcards, IP literals (IPv6 in brackets). */
  readonly names?: readonly string[];
  /** Subject common name; the first name unless given. */
  readonly commonName?: string;
  /** For a client that authenticates itself, not for a server. */
  readonly clientAuth?: boolean;
  /** Days of validity from now; negative: expired since. */
  readonly days?: number;
  readonly rsa?: boolean;
}

export interface MintedPair {
  /** PEM, leaf first, without the root. */
  readonly cert: string;
  /** PEM, PKCS#8. */
  readonly key: string;
}

export interface MintedCa extends MintedPair {
  leaf(wish: LeafWish): MintedPair;
}

const dayMs = 86_400_000;

export function mintCa(commonName = 'Throwaway CA'): MintedCa {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const now = Date.now();
  const cert = issueCertificate(
    {
      commonName,
      organization: null,
      publicKey,
      notBefore: now - 400 * dayMs,
      notAfter: now + 3650 * dayMs,
      names: [],
      use: { pathLength: 1 },
    },
    { certificate: null, key: privateKey },
  );
  const signer = { certificate: new X509Certificate(cert), key: privateKey };
  return {
    cert,
    key: exportKey(privateKey),
    leaf({ names = [], commonName: subject, clientAuth = false, days = 30, rsa = false }) {
      const pair = rsa
        ? generateKeyPairSync('rsa', { modulusLength: 2048 })
        : generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const end = Date.now() + days * dayMs;
      const leaf = issueCertificate(
        {
          commonName: subject ?? names[0] ?? 'leaf',
          organization: null,
          publicKey: pair.publicKey,
          notBefore: Math.min(Date.now() - dayMs, end - 30 * dayMs),
          notAfter: end,
          names,
          use: clientAuth ? 'client' : 'server',
        },
        signer,
      );
      return { cert: leaf, key: exportKey(pair.privateKey) };
    },
  };
}

function exportKey(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}

if (import.meta.main) {
  const names = process.argv.slice(2);
  if (names.length === 0) names.push('localhost', '127.0.0.1', '[::1]', 'app.localhost', '*.app.localhost');
  const directory = join(import.meta.dirname, 'out');
  mkdirSync(directory, { recursive: true });
  const ca = mintCa();
  const server = ca.leaf({ names });
  const client = ca.leaf({ commonName: 'client', clientAuth: true });
  const files = {
    'ca.pem': ca.cert,
    'ca.key': ca.key,
    'server.pem': server.cert,
    'server.key': server.key,
    'client.pem': client.cert,
    'client.key': client.key,
  };
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(directory, name), content, { mode: name.endsWith('.key') ? 0o600 : 0o644 });
  }
  process.stdout.write(`certs/out: ${Object.keys(files).join(', ')} for ${names.join(', ')}\n`);
}
