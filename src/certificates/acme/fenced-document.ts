// A document that only the holder of the lease writes, kept under the number of its lease.
// Invariant: readers take the highest number, so what a holder writes after it was replaced is never read.
import type { AcmeStore } from './store.ts';

export class FencedDocument {
  readonly #store: AcmeStore;
  readonly #prefix: string;

  constructor(store: AcmeStore, name: string) {
    this.#store = store;
    this.#prefix = `${name}.`;
  }

  /** Null: there is none. */
  async read(): Promise<string | null> {
    // The one that is read may just be cleared away by its successor.
    for (let i = 0; i < 3; i++) {
      const newest = (await this.#numbers()).at(0);
      if (newest === undefined) return null;
      const text = await this.#store.read(newest);
      if (text !== null) return text;
    }
    return null;
  }

  async write(term: number, text: string): Promise<void> {
    const name = `${this.#prefix}${String(term).padStart(10, '0')}`;
    await this.#store.write(name, text);
    for (const each of await this.#numbers()) if (numberOf(each) < term) await this.#store.erase(each);
  }

  /** Newest first. */
  async #numbers(): Promise<readonly string[]> {
    const names = await this.#store.list(this.#prefix);
    return names.filter((name) => numberOf(name) >= 0).sort((a, b) => numberOf(b) - numberOf(a));
  }
}

const numberOf = (name: string): number => Number(/\.(\d+)$/.exec(name)?.[1] ?? -1);
