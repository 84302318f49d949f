// A chain and its key, as a CA gave them, → a certificate for the snapshot.
// Invariant: what comes out of here belongs together and names hosts.
import { createPrivateKey } from 'node:crypto';
import type { Certificate } from '../../model/snapshot.ts';
import { fingerprintOf, namesOf, readChain } from '../x509.ts';
import { commonName } from './chain.ts';

/** Throws a sentence about what keeps the pair from being served. */
export function readPair(chainPem: string, keyPem: string, id: string): Certificate {
  const chain = reading('the chain', () => readChain(chainPem));
  const [leaf] = chain;
  if (leaf === undefined) throw new Error(`the chain holds no certificate`);
  const key = reading('the key', () => createPrivateKey(keyPem));
  if (!leaf.checkPrivateKey(key)) throw new Error(`the key is not that of the certificate`);
  const names = namesOf(leaf);
  if (names.length === 0) throw new Error('the certificate names no host');
  return {
    id: fingerprintOf(leaf),
    source: 'acme',
    origin: `ACME ${id}`,
    names,
    notBefore: leaf.validFromDate.getTime(),
    notAfter: leaf.validToDate.getTime(),
    chain: chain.map((each) => each.toString()).join(''),
    key: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

/** Common name of who signed the leaf, for people. */
export function issuerOf(chainPem: string): string {
  return commonName(readChain(chainPem)[0]?.issuer ?? '');
}

function reading<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch {
    throw new Error(`${what} cannot be read`);
  }
}
