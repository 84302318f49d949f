// Accounts at CAs, kept in the store that everything else of them is kept in.
// Invariant: one account a directory URL; a document that cannot be read is no reason to make another account: it is an error.
import { createHash } from 'node:crypto';
import type { AccountStore, StoredAccount } from './issuer.ts';
import type { AcmeStore } from './store.ts';

export class StoredAccounts implements AccountStore {
  readonly #store: AcmeStore;

  constructor(store: AcmeStore) {
    this.#store = store;
  }

  async load(directoryUrl: string): Promise<StoredAccount | null> {
    const name = documentOf(directoryUrl);
    const text = await this.#store.read(name);
    if (text === null) return null;
    const { keyPem, url = null, nextKeyPem = null, contacts = null } = parse(text, name);
    if (typeof keyPem !== 'string') throw new Error(`${name} holds no account`);
    return { keyPem, url, nextKeyPem, contacts };
  }

  async save(directoryUrl: string, account: StoredAccount): Promise<void> {
    await this.#store.write(documentOf(directoryUrl), `${JSON.stringify({ directoryUrl, ...account }, null, 2)}\n`);
  }
}

function parse(text: string, name: string): Partial<StoredAccount> {
  try {
    return JSON.parse(text) as Partial<StoredAccount>;
  } catch {
    throw new Error(`${name} is damaged: restore it, or remove it to get a new account`);
  }
}

/** A name that people recognise, made unique by a digest. */
function documentOf(directoryUrl: string): string {
  const host = URL.canParse(directoryUrl) ? new URL(directoryUrl).hostname : 'ca';
  const digest = createHash('sha256').update(directoryUrl).digest('hex').slice(0, 8);
  return `accounts/${host.replaceAll(/[^a-z0-9.-]/g, '_')}-${digest}.json`;
}
