// The journal of this process: in memory, and in the store as its holder of the lease wrote it.
// Invariant: an order is on disk before the CA hears of it; what could not be written is kept and written later.
import type { Clock } from '../../base/clock.ts';
import { FencedDocument } from './fenced-document.ts';
import { emptyJournal, type Journal, parseJournal } from './journal.ts';
import { pruned } from './ledger.ts';
import type { AcmeStore } from './store.ts';

export class Notebook {
  readonly #document: FencedDocument;
  readonly #clock: Clock;
  #journal: Journal = emptyJournal;
  /** As in the store, and its text. */
  #written: Journal = emptyJournal;
  #text: string | null = null;
  #writing: Promise<void> = Promise.resolve();

  constructor(store: AcmeStore, clock: Clock) {
    this.#document = new FencedDocument(store, 'journal');
    this.#clock = clock;
  }

  get journal(): Journal {
    return this.#journal;
  }

  /** What others wrote. Something of our own that waits to be written is kept, unless others had the lease meanwhile. */
  async refresh(discard = false): Promise<void> {
    if (this.isDirty && !discard) return;
    const text = await this.#document.read();
    if (text === this.#text) {
      this.#journal = this.#written;
      return;
    }
    this.#text = text;
    this.#journal = parseJournal(text, this.#clock.now());
    this.#written = this.#journal;
  }

  /** In memory; `flush` makes it last. */
  note(change: (journal: Journal) => Journal): void {
    const now = this.#clock.now();
    const changed = change(this.#journal);
    this.#journal = { ...changed, ...pruned(changed, now) };
  }

  get isDirty(): boolean {
    return this.#journal !== this.#written;
  }

  /** Resolves when everything noted so far is on disk. Several callers share one write. */
  flush(term: number): Promise<void> {
    const wanted = this.#journal;
    const task = this.#writing.then(async () => {
      const journal = this.#journal;
      if (this.#written === journal) return;
      const text = `${JSON.stringify(journal)}\n`;
      await this.#document.write(term, text);
      this.#written = journal;
      this.#text = text;
    });
    this.#writing = task.catch(() => {});
    return wanted === this.#written ? Promise.resolve() : task;
  }
}
