// What a CA's directory says (RFC 8555 §7.1.1): where its resources are and what it expects.
// Invariant: every URL in a Directory is absolute and https, or has the plaintext origin that the directory itself came from.
import { AcmeFailure } from './failure.ts';
import type { DirectoryMeta } from './issuer.ts';

export interface Directory {
  readonly newNonce: string;
  readonly newAccount: string;
  readonly newOrder: string;
  readonly revokeCert: string;
  readonly keyChange: string;
  /** RFC 9773 §4.1; null: not offered. */
  readonly renewalInfo: string | null;
  readonly meta: DirectoryMeta;
}

/** Throws an AcmeFailure of kind `server`. */
export function readDirectory(text: string, base: string): Directory {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = null;
  }
  if (typeof value !== 'object' || value === null) throw notOne(base, 'it is no JSON object');
  const resources = value as Record<string, unknown>;
  const required = (name: string): string => {
    const url = resourceUrl(resources[name], base);
    if (url === null) throw notOne(base, `it has no usable ${name}`);
    return url;
  };
  const renewalInfo = resourceUrl(resources['renewalInfo'], base);
  return {
    newNonce: required('newNonce'),
    newAccount: required('newAccount'),
    newOrder: required('newOrder'),
    revokeCert: required('revokeCert'),
    keyChange: required('keyChange'),
    renewalInfo,
    meta: readMeta(resources['meta'], renewalInfo !== null),
  };
}

function readMeta(value: unknown, renewalInfo: boolean): DirectoryMeta {
  const { profiles, externalAccountRequired, termsOfService } = (value ?? {}) as Record<string, unknown>;
  const named = new Map<string, string>();
  for (const [name, about] of Object.entries((profiles as object | null | undefined) ?? {})) {
    named.set(name, typeof about === 'string' ? about : '');
  }
  return {
    profiles: named,
    externalAccountRequired: externalAccountRequired === true,
    termsOfService: typeof termsOfService === 'string' ? termsOfService : null,
    renewalInfo,
  };
}

/** Null: not a URL that may be spoken to on the word of `base`. */
export function resourceUrl(value: unknown, base: string): string | null {
  const url = typeof value === 'string' ? URL.parse(value, base) : null;
  if (url === null) return null;
  // In the clear only where we began in the clear, and to nobody else.
  return url.protocol === 'https:' || (url.protocol === 'http:' && url.origin === URL.parse(base)?.origin)
    ? url.href
    : null;
}

function notOne(base: string, why: string): AcmeFailure {
  return new AcmeFailure('server', `${base} is no ACME directory: ${why}`);
}
