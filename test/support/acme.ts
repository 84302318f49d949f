// What tests of the ACME client share: accounts in memory, a wish with nothing special, the data plane as what proves.
// Invariant: nothing here knows a CA.
import { generateKeyPairSync } from 'node:crypto';
import { AcmeFailure } from '../../src/certificates/acme/failure.ts';
import type { AccountStore, OrderWish, StoredAccount } from '../../src/certificates/acme/issuer.ts';

export class MemoryAccounts implements AccountStore {
  readonly accounts = new Map<string, StoredAccount>();
  /** Everything that was ever saved, in order. */
  readonly saved: StoredAccount[] = [];

  async load(directoryUrl: string): Promise<StoredAccount | null> {
    return this.accounts.get(directoryUrl) ?? null;
  }

  async save(directoryUrl: string, account: StoredAccount): Promise<void> {
    this.accounts.set(directoryUrl, account);
    this.saved.push(account);
  }
}

export function wish(names: readonly string[], over: Partial<OrderWish> = {}): OrderWish {
  return {
    names,
    keyType: 'p256',
    profile: null,
    preferredChain: null,
    replaces: null,
    challengeFor: () => 'http-01',
    resume: null,
    onPending: null,
    ...over,
  };
}

export function newAccountKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}

/** What a promise failed with; fails itself when it did not. */
export async function failureOf(promise: Promise<unknown>): Promise<AcmeFailure> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof AcmeFailure) return error;
    throw error;
  }
  throw new Error('it did not fail');
}

export const unhurried: AbortSignal = new AbortController().signal;
