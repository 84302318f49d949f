// What a state directory remembers of itself for the sake of container engines.
// Invariant: the id is made once and never changes, because everything on an engine that is ours carries it.
import { randomBytes, randomUUID } from 'node:crypto';
import type { StateStore } from './state-store.ts';

export class Installation {
  readonly id: string;
  /** A secret of the installation's own. */
  readonly seal: Buffer;
  readonly #store: StateStore;
  #engineUsed: boolean;

  constructor(store: StateStore) {
    this.#store = store;
    this.#engineUsed = this.#read('engine-used') !== null;
    const known = this.#read('installation');
    this.id = known ?? randomUUID();
    if (known === null) this.#write('installation', this.id);
    const seal = this.#read('installation-seal') ?? randomBytes(32).toString('base64url');
    this.seal = Buffer.from(seal, 'base64url');
    this.#write('installation-seal', seal);
  }

  get engineUsed(): boolean {
    return this.#engineUsed;
  }

  /** On disk when it returns. */
  useEngine(): void {
    if (this.#engineUsed) return;
    this.#write('engine-used', 'yes');
    this.#engineUsed = true;
  }

  /** Incarnations of apps whose hooks after an installation have run. */
  readonly hooks = {
    has: (incarnation: string): boolean => this.#read(`installed ${incarnation}`) !== null,
    add: (incarnation: string): void => this.#write(`installed ${incarnation}`, 'yes'),
  };

  #read(name: string): string | null {
    const row = this.#store.tables((database) => database.prepare('SELECT value FROM meta WHERE name = ?').get(name));
    return row === undefined ? null : String(row['value']);
  }

  #write(name: string, value: string): void {
    this.#store.transaction(() => {
      this.#store.tables((database) => database.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)').run(name, value));
    });
  }
}
