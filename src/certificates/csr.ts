// Certificate signing requests (PKCS#10, RFC 2986): the key's holder asks for these names.
// Invariant: the names are in the SAN extension alone; the subject is empty, since a common name says nothing more.
import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto';
import { asn1, bitString, fromDer, integer, objectId, sequence, toDer } from './der.ts';
import { signatureAlgorithm, subjectAltName } from './x509.ts';

const extensionRequest = '1.2.840.113549.1.9.14';

/**
 * @param names  canonical host names, one-label wildcards and IP literals
 * @returns DER
 */
export function signingRequest(names: readonly string[], key: KeyObject | string): Buffer {
  const privateKey = typeof key === 'string' ? createPrivateKey(key) : key;
  const publicKey = createPublicKey(privateKey).export({ type: 'spki', format: 'der' });
  const set = asn1().create(asn1().Class.UNIVERSAL, asn1().Type.SET, true, [sequence(subjectAltName(names))]);
  const attributes = asn1().create(asn1().Class.CONTEXT_SPECIFIC, 0, true, [sequence(objectId(extensionRequest), set)]);
  const info = sequence(integer(Buffer.of(0)), sequence(), fromDer(publicKey), attributes);
  const signature = sign('sha256', toDer(info), privateKey);
  return toDer(sequence(info, signatureAlgorithm(privateKey), bitString(signature)));
}
