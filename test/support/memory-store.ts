// The certificate store in memory, for simulations of years: what a shared store that is no directory would have to do.
// Invariant: the same promises as the files keep: whole values, one winner of `create`, the highest version counts.
import { readPair } from '../../src/certificates/acme/pair.ts';
import {
  type AcmeStore,
  isNewer,
  isSame,
  type NewCertificate,
  type StoredCertificate,
  type StoredEntry,
  type Version,
} from '../../src/certificates/acme/store.ts';

export class MemoryStore implements AcmeStore {
  readonly #entries = new Map<string, StoredCertificate>();
  readonly #documents = new Map<string, string>();
  #changes = 0;

  async certificates(known: (id: string) => Version | null): Promise<readonly StoredEntry[]> {
    return [...this.#entries].map(([id, current]) => ({
      id,
      current: isSame(current.version, known(id)) ? 'known' : current,
      problems: [],
    }));
  }

  async stamp(): Promise<string> {
    return String(this.#changes);
  }

  async put(id: string, term: number, content: NewCertificate): Promise<StoredCertificate> {
    const { issuer, directory } = content;
    const version = { term, serial: ++this.#changes };
    const stored = { version, certificate: readPair(content.chain, content.key, id), issuer, directory };
    const before = this.#entries.get(id);
    if (before === undefined || isNewer(version, before.version)) this.#entries.set(id, stored);
    return stored;
  }

  async remove(id: string): Promise<void> {
    this.#entries.delete(id);
    this.#changes++;
  }

  async read(name: string): Promise<string | null> {
    return this.#documents.get(name) ?? null;
  }

  async write(name: string, text: string): Promise<void> {
    this.#documents.set(name, text);
  }

  async create(name: string, text: string): Promise<boolean> {
    if (this.#documents.has(name)) return false;
    this.#documents.set(name, text);
    return true;
  }

  async erase(name: string): Promise<void> {
    this.#documents.delete(name);
  }

  async list(prefix: string): Promise<readonly string[]> {
    return [...this.#documents.keys()].filter((name) => name.startsWith(prefix)).toSorted();
  }
}
