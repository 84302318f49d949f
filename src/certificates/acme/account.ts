// Our account at one CA: looked up, made, made again when it is lost, and asked with.
// Invariant: a key is durable before the CA hears of it, so no crash leaves an account that nobody can find again.
import { generateKeyPairSync } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { AcmeFailure } from './failure.ts';
import type { HttpAnswer } from './http.ts';
import type { AccountStore, ExternalAccount, StoredAccount } from './issuer.ts';
import { AccountKey, bindExternally } from './jose.ts';
import type { Ask, Session } from './session.ts';

export interface AccountOptions {
  readonly store: AccountStore;
  /** Mail addresses. */
  readonly contacts: readonly string[];
  readonly externalAccount: ExternalAccount | null;
}

export interface ActiveAccount {
  readonly keyPem: string;
  readonly key: AccountKey;
  readonly url: string;
}

export class Account {
  readonly #session: Session;
  readonly #options: AccountOptions;
  #active: ActiveAccount | null = null;
  /** Changes of the account run one after the other. */
  #work: Promise<unknown> = Promise.resolve();

  constructor(session: Session, options: AccountOptions) {
    this.#session = session;
    this.#options = options;
  }

  /** The account to ask with; looked up or made on first use. */
  current(signal: AbortSignal): Promise<ActiveAccount> {
    return this.#inTurn(() => this.#currentNow(signal));
  }

  /** A request in the account's name. An account that is gone or closed is replaced once, and the request repeated. */
  async ask(ask: Omit<Ask, 'key' | 'account'>, signal: AbortSignal): Promise<HttpAnswer> {
    const used = await this.current(signal);
    const { key, url } = used;
    try {
      return await this.#session.post({ ...ask, key, account: url }, signal);
    } catch (error) {
      const failure = asFailure(error);
      const isLost = failure.kind === 'account-lost';
      // "unauthorized" is also what one gets for other people's orders and certificates.
      if (!isLost && !(failure.problemType === 'unauthorized' && (await this.#isClosed(key, signal)))) throw failure;
      const next = await this.#inTurn(() => this.#replace(isLost, used, signal));
      return await this.#session.post({ ...ask, key: next.key, account: next.url }, signal);
    }
  }

  /** RFC 8555 §7.3.5. Both keys are in the store until the CA has decided. */
  rollover(newKeyPem: string, signal: AbortSignal): Promise<void> {
    return this.#inTurn(async () => {
      const { keyPem, key, url } = await this.#currentNow(signal);
      const newKey = readKey(newKeyPem);
      const { keyChange } = await this.#session.directory(signal);
      const payload = newKey.sign({ jwk: newKey.jwk, url: keyChange }, { account: url, oldKey: key.jwk });
      const { contacts } = this.#options;
      await this.#save({ keyPem, url, nextKeyPem: newKeyPem, contacts });
      // Whatever happens now, the next use finds out which key holds.
      this.#active = null;
      try {
        await this.#session.post({ url: keyChange, payload, key, account: url, what: 'key change' }, signal);
      } catch (error) {
        const failure = asFailure(error);
        const decided = failure.status !== null && failure.status >= 400 && failure.status < 500;
        if (decided) await this.#save({ keyPem, url, nextKeyPem: null, contacts });
        throw failure;
      }
      await this.#adopt(newKeyPem, newKey, url, contacts);
    });
  }

  async #currentNow(signal: AbortSignal): Promise<ActiveAccount> {
    const stored = await this.#load();
    // Another process, or an issuer of an earlier configuration, may have changed the key: the store tells.
    if (this.#active !== null && isOf(this.#active, stored)) return this.#active;
    if (stored === null) return await this.#make(signal);
    const key = readKey(stored.keyPem);
    if (stored.nextKeyPem !== null) {
      const nextKey = readKey(stored.nextKeyPem);
      // A key that is in use elsewhere leads to another account, and was refused for that.
      return stored.url !== null && (await this.#find(nextKey, signal)) === stored.url
        ? await this.#adopt(stored.nextKeyPem, nextKey, stored.url, stored.contacts)
        : await this.#findOrRegister(stored.keyPem, key, signal);
    }
    if (stored.url === null) return await this.#findOrRegister(stored.keyPem, key, signal);
    const active = { keyPem: stored.keyPem, key, url: stored.url };
    this.#active = active;
    await this.#tellContacts(active, stored.contacts, signal);
    return active;
  }

  /** RFC 8555 §7.3.2, when the configuration names other addresses than last time. No order shall fail for that. */
  async #tellContacts(
    { keyPem, key, url }: ActiveAccount,
    told: StoredAccount['contacts'],
    signal: AbortSignal,
  ): Promise<void> {
    const { contacts } = this.#options;
    if (told !== null && isDeepStrictEqual(told, contacts)) return;
    try {
      const payload = { contact: contacts.map(mailto) };
      await this.#session.post({ url, payload, key, account: url, what: 'contacts' }, signal);
      await this.#save({ keyPem, url, nextKeyPem: null, contacts });
    } catch {
      // Tried again by the next process.
    }
  }

  /** @param lost  the one that failed; another one, or another key, may have taken its place meanwhile */
  async #replace(sameKey: boolean, lost: ActiveAccount, signal: AbortSignal): Promise<ActiveAccount> {
    const now = await this.#currentNow(signal);
    if (now.url !== lost.url || now.keyPem !== lost.keyPem) return now;
    this.#active = null;
    try {
      return sameKey ? await this.#register(now.keyPem, now.key, signal) : await this.#make(signal);
    } catch (error) {
      const failure = asFailure(error);
      if (failure.kind !== 'rejected') throw failure;
      const kind = sameKey ? 'account-lost' : 'account-deactivated';
      const { status, problemType } = failure;
      const detail = `the CA ${sameKey ? 'lost' : 'closed'} the account and takes no other: ${failure.detail}`;
      throw new AcmeFailure(kind, detail, { status, problemType, scope: 'account', cause: failure });
    }
  }

  /** With a new key. */
  async #make(signal: AbortSignal): Promise<ActiveAccount> {
    const keyPem = newKeyPem();
    await this.#save({ keyPem, url: null, nextKeyPem: null, contacts: null });
    return await this.#register(keyPem, readKey(keyPem), signal);
  }

  async #findOrRegister(keyPem: string, key: AccountKey, signal: AbortSignal): Promise<ActiveAccount> {
    const url = await this.#find(key, signal);
    if (url === null) return await this.#register(keyPem, key, signal);
    const active = await this.#adopt(keyPem, key, url, null);
    await this.#tellContacts(active, null, signal);
    return active;
  }

  /** Null: the CA knows no account by this key. */
  async #find(key: AccountKey, signal: AbortSignal): Promise<string | null> {
    const { newAccount } = await this.#session.directory(signal);
    try {
      const payload = { onlyReturnExisting: true };
      const what = 'account look-up';
      const answer = await this.#session.post({ url: newAccount, payload, key, account: null, what }, signal);
      return this.#session.resource(answer.header('location'), what);
    } catch (error) {
      if (asFailure(error).kind === 'account-lost') return null;
      throw error;
    }
  }

  /** RFC 8555 §7.3.6: nothing may be done with it any more; CAs tell so by its status or by refusing to tell. */
  async #isClosed(key: AccountKey, signal: AbortSignal): Promise<boolean> {
    const { newAccount } = await this.#session.directory(signal);
    try {
      const payload = { onlyReturnExisting: true };
      const what = 'account look-up';
      const { text } = await this.#session.post({ url: newAccount, payload, key, account: null, what }, signal);
      return /"status"\s*:\s*"(deactivated|revoked)"/.test(text);
    } catch (error) {
      const { kind, problemType } = asFailure(error);
      if (kind !== 'account-lost' && problemType !== 'unauthorized') throw error;
      return true;
    }
  }

  async #register(keyPem: string, key: AccountKey, signal: AbortSignal): Promise<ActiveAccount> {
    const { contacts, externalAccount } = this.#options;
    const { newAccount, meta } = await this.#session.directory(signal);
    if (meta.externalAccountRequired && externalAccount === null) {
      const hint = 'this CA wants an account of its own first: configure its key id and HMAC key';
      throw new AcmeFailure('eab-required', hint, { scope: 'account' });
    }
    const payload = {
      termsOfServiceAgreed: true,
      ...(contacts.length === 0 ? {} : { contact: contacts.map(mailto) }),
      ...(externalAccount === null
        ? {}
        : {
            externalAccountBinding: bindExternally(key.jwk, externalAccount.keyId, externalAccount.hmacKey, newAccount),
          }),
    };
    const what = 'new account';
    const answer = await this.#session.post({ url: newAccount, payload, key, account: null, what }, signal);
    return await this.#adopt(keyPem, key, this.#session.resource(answer.header('location'), what), contacts);
  }

  async #adopt(
    keyPem: string,
    key: AccountKey,
    url: string,
    contacts: StoredAccount['contacts'],
  ): Promise<ActiveAccount> {
    await this.#save({ keyPem, url, nextKeyPem: null, contacts });
    this.#active = { keyPem, key, url };
    return this.#active;
  }

  async #load(): Promise<StoredAccount | null> {
    try {
      return await this.#options.store.load(this.#session.directoryUrl);
    } catch (error) {
      throw storeFailure('cannot be read', error);
    }
  }

  async #save(account: StoredAccount): Promise<void> {
    try {
      await this.#options.store.save(this.#session.directoryUrl, account);
    } catch (error) {
      throw storeFailure('cannot be written', error);
    }
  }

  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const turn = this.#work.then(run, run);
    this.#work = turn.catch(() => {});
    return turn;
  }
}

function isOf({ keyPem, url }: ActiveAccount, stored: StoredAccount | null): boolean {
  return stored?.keyPem === keyPem && stored.url === url && stored.nextKeyPem === null;
}

const mailto = (mail: string): string => `mailto:${mail}`;

function newKeyPem(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}

function readKey(pem: string): AccountKey {
  try {
    return new AccountKey(pem);
  } catch (error) {
    throw storeFailure('holds an unusable key', error);
  }
}

function storeFailure(what: string, error: unknown): AcmeFailure {
  const why = error instanceof Error ? error.message : String(error);
  return new AcmeFailure('store', `the account ${what}: ${why}`, { scope: 'account', cause: error });
}

/** Everything that the layers below throw is one already; anything else is a bug of ours and keeps its stack as cause. */
export function asFailure(error: unknown): AcmeFailure {
  if (error instanceof AcmeFailure) return error;
  return new AcmeFailure('server', error instanceof Error ? error.message : String(error), { cause: error });
}
