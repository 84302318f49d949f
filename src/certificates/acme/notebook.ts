// The journal of this process: in memory, and in the store as its holder of the lease wrote it.
// Invariant: an order is on disk before the CA hears of it; what could not be written is kept and written later.
import type { Clock } from '../../base/clock.ts';
import { FencedDocument } from './fenced-document.ts';
import { emptyJournal, type Journal, parseJournal, settled, shifted } from './journal.ts';
import { pruned } from './ledger.ts';
import type { AcmeStore } from './store.ts';

export class Notebook {
  readonly #document: FencedDocument;
  readonly #clock: Clock;
  #journal: Journal = emptyJournal;
  /** As in the store, and its text. */
  #written: Journal = emptyJournal;
  #text: string | null = null;
  #isBehind = false;
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
    this.#journal = parseJournal(text);
    this.#written = this.#journal;
  }

  /**
   * The wall clock may have been set back since the last look.
   * @param isBehind  it is known to be wrong: what is on record is neither old nor from the future by it
   */
  settle(isBehind: boolean): void {
    this.#isBehind = isBehind;
    this.#journal = settled(this.#journal, this.#clock.now());
  }

  /** The wall clock was set by `ms`; `now` is what it would have shown. */
  shift(ms: number, now: number): void {
    this.#journal = shifted(this.#journal, ms, now);
  }

  /** In memory; `flush` makes it last. */
  note(change: (journal: Journal) => Journal): void {
    const changed = change(this.#journal);
    this.#journal = this.#isBehind ? { ...changed } : { ...changed, ...pruned(changed, this.#clock.now()) };
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
