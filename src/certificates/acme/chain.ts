// What a CA delivered, judged before anything relies on it: does the chain hang together, is it for our key and our names.
// Invariant: pure; a chain that passes can be given to OpenSSL beside its key.
import { createPrivateKey, type X509Certificate } from 'node:crypto';
import { authorityKeyId, namesOf, readChain, serialBytes } from '../x509.ts';
import { AcmeFailure } from './failure.ts';

export interface JudgedChain {
  /** PEM, nothing but the certificates. */
  readonly pem: string;
  readonly leaf: X509Certificate;
  /** Common name of the last certificate's issuer: the root that the chain leads to. */
  readonly root: string;
}

/** Throws an AcmeFailure of kind `server`. */
export function judgeChain(text: string, keyPem: string, names: readonly string[]): JudgedChain {
  const { certificates, leaf, last } = readable(text);
  if (!leaf.checkPrivateKey(createPrivateKey(keyPem))) throw bad('the certificate is for another key');
  const covered = new Set(namesOf(leaf));
  const missing = names.filter((name) => !covered.has(name));
  if (missing.length > 0) throw bad(`the certificate leaves out ${missing.join(', ')}`);
  certificates.forEach((certificate, i) => {
    const issuer = certificates[i + 1];
    if (issuer !== undefined && !(certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey))) {
      throw bad('the chain is out of order');
    }
  });
  const pem = certificates.map((certificate) => certificate.toString().trimEnd()).join('\n');
  return { pem: `${pem}\n`, leaf, root: commonName(last.issuer) };
}

function readable(text: string): { certificates: X509Certificate[]; leaf: X509Certificate; last: X509Certificate } {
  let certificates: X509Certificate[];
  try {
    certificates = readChain(text);
  } catch (error) {
    throw bad('it holds a certificate that cannot be read', error);
  }
  const [leaf] = certificates;
  const last = certificates.at(-1);
  if (leaf === undefined || last === undefined) throw bad('there is no certificate in it');
  return { certificates, leaf, last };
}

/** Does any certificate of the chain, or the root behind it, go by this common name? */
export function leadsTo(text: string, issuer: string): boolean {
  try {
    return readChain(text).some((certificate) => commonName(certificate.issuer) === issuer);
  } catch {
    return false;
  }
}

/** Of a distinguished name as node:crypto prints it. */
export function commonName(distinguishedName: string): string {
  const [, name] = /^CN=(.*)$/m.exec(distinguishedName) ?? [];
  return name ?? distinguishedName.replaceAll('\n', ', ');
}

/**
 * How renewal information calls a certificate (RFC 9773 §4.1): key identifier of its issuer and its serial number, each
 * base64url. Null: the certificate names no issuer key.
 */
export function renewalId(chainPem: string): string | null {
  const [leaf] = readChain(chainPem);
  if (leaf === undefined) return null;
  const keyId = authorityKeyId(leaf);
  return keyId === null ? null : `${keyId.toString('base64url')}.${serialBytes(leaf).toString('base64url')}`;
}

function bad(why: string, cause?: unknown): AcmeFailure {
  return new AcmeFailure('server', `the CA delivered an unusable chain: ${why}`, { cause });
}
