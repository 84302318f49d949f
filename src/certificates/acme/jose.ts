// Signed requests as ACME has them: JWS in flattened JSON (RFC 7515, RFC 8555 §6.2), and what is derived from account keys.
// Invariant: a key never leaves this file except as its public half.
import { createHash, createHmac, createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto';

/** Public half, members in the order that RFC 7638 §3 hashes them in. */
export type Jwk = Readonly<Record<string, string>>;

export interface Jws {
  readonly protected: string;
  readonly payload: string;
  readonly signature: string;
}

/** How a signed request names its account. */
export type Signatory = { readonly kid: string } | { readonly jwk: Jwk };

/** `algorithm` is what an EC key of this curve, or an RSA key, signs with (RFC 7518 §3.1). */
interface Signing {
  readonly algorithm: string;
  readonly hash: string;
}

const ecSignings: Readonly<Record<string, Signing & { readonly curve: string }>> = {
  prime256v1: { algorithm: 'ES256', hash: 'sha256', curve: 'P-256' },
  secp384r1: { algorithm: 'ES384', hash: 'sha384', curve: 'P-384' },
};

export class AccountKey {
  readonly jwk: Jwk;
  /** RFC 7638, base64url: half of every key authorization. */
  readonly thumbprint: string;
  readonly #key: KeyObject;
  readonly #signing: Signing;

  /** Throws when the PEM holds no EC (P-256, P-384) or RSA private key. */
  constructor(pem: string) {
    const key = createPrivateKey(pem);
    this.#key = key;
    this.#signing = signingOf(key);
    this.jwk = publicJwk(key);
    this.thumbprint = createHash('sha256').update(JSON.stringify(this.jwk)).digest('base64url');
  }

  /** @param payload  null: POST-as-GET, an empty payload (RFC 8555 §6.3) */
  sign(header: object, payload: object | null): Jws {
    const { algorithm, hash } = this.#signing;
    const parts = encode({ alg: algorithm, ...header }, payload);
    const input = Buffer.from(`${parts.protected}.${parts.payload}`, 'latin1');
    // JWS wants r and s side by side (RFC 7518 §3.4), not the DER of X.509.
    const signature = sign(hash, input, { key: this.#key, dsaEncoding: 'ieee-p1363' });
    return { ...parts, signature: signature.toString('base64url') };
  }

  /** RFC 8555 §8.1 */
  authorizationFor(token: string): string {
    return `${token}.${this.thumbprint}`;
  }
}

/** External account binding (RFC 8555 §7.3.4): the account's public key, under a key that the CA gave out. */
export function bindExternally(jwk: Jwk, keyId: string, hmacKey: string, url: string): Jws {
  const parts = encode({ alg: 'HS256', kid: keyId, url }, jwk);
  const key = Buffer.from(hmacKey, 'base64url');
  const signature = createHmac('sha256', key).update(`${parts.protected}.${parts.payload}`).digest('base64url');
  return { ...parts, signature };
}

function encode(header: object, payload: object | null): Pick<Jws, 'protected' | 'payload'> {
  const encoded = (value: object): string => Buffer.from(JSON.stringify(value), 'utf8').toString('base64url');
  return { protected: encoded(header), payload: payload === null ? '' : encoded(payload) };
}

function signingOf(key: KeyObject): Signing {
  if (key.asymmetricKeyType === 'rsa') return { algorithm: 'RS256', hash: 'sha256' };
  const signing = ecSignings[key.asymmetricKeyDetails?.namedCurve ?? ''];
  if (signing === undefined) throw new Error('an account key is an EC key on P-256 or P-384, or an RSA key');
  return signing;
}

function publicJwk(key: KeyObject): Jwk {
  const { kty = '', crv = '', x = '', y = '', e = '', n = '' } = createPublicKey(key).export({ format: 'jwk' });
  return kty === 'RSA' ? { e, kty, n } : { crv, kty, x, y };
}
