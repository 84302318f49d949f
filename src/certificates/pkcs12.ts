// Takes the key and the certificates out of a PKCS#12 file.
// Invariant: node-forge only opens the bags; keys and certificates are read by node:crypto, EC ones included.
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import type forge from 'node-forge';
import { toDer, wholeForge } from './der.ts';

export interface Pkcs12Content {
  readonly key: KeyObject;
  /** The key's certificate first, then its issuers in order; others are left out. */
  readonly chain: readonly X509Certificate[];
}

/** Throws an Error whose message completes "FILE …". */
export function openPkcs12(file: Buffer, passphrase: string): Pkcs12Content {
  const bags = openBags(file, passphrase);
  const keys = [
    ...bagsOf(bags, wholeForge().pki.oids.pkcs8ShroudedKeyBag),
    ...bagsOf(bags, wholeForge().pki.oids.keyBag),
  ];
  if (keys.length !== 1) throw new Error(`holds ${keys.length === 0 ? 'no' : 'more than one'} private key`);
  const key = createPrivateKey({ key: keys[0]!, format: 'der', type: 'pkcs8' });
  const certificates = bagsOf(bags, wholeForge().pki.oids.certBag).map((der) => new X509Certificate(der));
  const leaf = certificates.find((certificate) => certificate.checkPrivateKey(key));
  if (leaf === undefined) throw new Error('holds no certificate of its private key');
  return { key, chain: orderChain(leaf, certificates) };
}

function openBags(file: Buffer, passphrase: string): forge.pkcs12.Pkcs12Pfx {
  try {
    return wholeForge().pkcs12.pkcs12FromAsn1(wholeForge().asn1.fromDer(file.toString('latin1')), passphrase);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (/password|MAC could not be verified/i.test(reason)) throw new Error('does not open with this passphrase');
    throw new Error(`is not a PKCS#12 file that can be read: ${reason}`);
  }
}

function bagsOf(pfx: forge.pkcs12.Pkcs12Pfx, type: string | undefined): Buffer[] {
  if (type === undefined) return [];
  return (pfx.getBags({ bagType: type })[type] ?? []).map((bag) => {
    // RSA bags come decoded, others as the structure that they hold.
    if (bag.cert !== undefined && bag.cert !== null) return toDer(wholeForge().pki.certificateToAsn1(bag.cert));
    if (bag.key !== undefined && bag.key !== null)
      return toDer(wholeForge().pki.wrapRsaPrivateKey(wholeForge().pki.privateKeyToAsn1(bag.key)));
    return toDer(bag.asn1);
  });
}

function orderChain(leaf: X509Certificate, certificates: readonly X509Certificate[]): X509Certificate[] {
  const chain = [leaf];
  for (;;) {
    const last = chain.at(-1)!;
    const issuer = certificates.find((each) => !chain.includes(each) && last.checkIssued(each));
    if (issuer === undefined) return chain;
    chain.push(issuer);
  }
}
