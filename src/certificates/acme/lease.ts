// Who of several processes may speak to the CA: a lease with a number that rises with every holder.
// Invariant: of all leases ever taken only the highest number counts; whoever is not its holder any more learns so by
// `holds`, and what it writes under its own number never hides what a later holder wrote.
import type { Clock, Timer } from '../../base/clock.ts';
import type { AcmeStore } from './store.ts';

export const leaseMs = 30_000;
const beatMs = 10_000;
const prefix = 'lease.';

export interface Lease {
  readonly term: number;
  /** Aborted when another process has taken over. */
  readonly lost: AbortSignal;
  holds(): Promise<boolean>;
  release(): Promise<void>;
}

/** What an observer remembers: a lease is over when its text has not changed for `leaseMs` of the observer's own time. */
interface Sighting {
  readonly name: string;
  readonly text: string;
  readonly since: number;
}

export class LeaseLock {
  readonly #store: AcmeStore;
  readonly #clock: Clock;
  readonly #holder: string;
  #seen: Sighting | null = null;

  /** `holder` tells processes apart. */
  constructor(store: AcmeStore, clock: Clock, holder: string) {
    this.#store = store;
    this.#clock = clock;
    this.#holder = holder;
  }

  /** Null: another process has it, or may have it. Wall clocks are not compared: they may differ between machines. */
  async tryAcquire(): Promise<Lease | null> {
    const newest = await this.#newest();
    if (newest !== null && !(await this.#isOver(newest))) return null;
    const term = (newest === null ? 0 : termOf(newest)) + 1;
    const name = nameOf(term);
    if (!(await this.#store.create(name, this.#text(0)))) return null;
    // A later holder may have come and cleared away in between: then this number is an old one.
    if ((await this.#newest()) !== name) {
      await this.#store.erase(name);
      return null;
    }
    for (const each of await this.#store.list(prefix)) if (each !== name) await this.#store.erase(each);
    return this.#held(term);
  }

  #held(term: number): Lease {
    const name = nameOf(term);
    const lost = new AbortController();
    let beats = 0;
    let released = false;
    let writing: Promise<void> = Promise.resolve();
    const holds = async (): Promise<boolean> => {
      if (lost.signal.aborted) return false;
      if ((await this.#newest()) === name) return true;
      lost.abort(new Error('another process has taken over'));
      return false;
    };
    const beat = async (): Promise<void> => {
      if (released || !(await holds()) || released) return;
      beats++;
      await this.#store.write(name, this.#text(beats));
    };
    const timer: Timer = this.#clock.every(beatMs, () => {
      // A beat that fails is no reason to stop: if it goes on, others take over and `holds` tells.
      writing = writing.then(beat).catch(() => {});
    });
    return {
      term,
      lost: lost.signal,
      holds,
      release: async () => {
        released = true;
        timer.cancel();
        await writing;
        // The file stays: its number must not be used again.
        if (await holds()) await this.#store.write(name, releasedText);
      },
    };
  }

  async #newest(): Promise<string | null> {
    const names = (await this.#store.list(prefix)).filter((name) => Number.isSafeInteger(termOf(name)));
    return names.length === 0 ? null : names.reduce((a, b) => (termOf(b) > termOf(a) ? b : a));
  }

  async #isOver(name: string): Promise<boolean> {
    // Unreadable, empty or full of NULs: whoever wrote it is judged by whether it changes.
    const text = (await this.#store.read(name).catch(() => null)) ?? '';
    if (text === releasedText) return true;
    const now = this.#clock.monotonic();
    if (this.#seen?.name !== name || this.#seen.text !== text) this.#seen = { name, text, since: now };
    return now - this.#seen.since >= leaseMs;
  }

  #text(beats: number): string {
    return `${JSON.stringify({ holder: this.#holder, beats })}\n`;
  }
}

const releasedText = 'released\n';
const nameOf = (term: number): string => `${prefix}${String(term).padStart(10, '0')}`;
const termOf = (name: string): number => Number(/^lease\.(\d+)$/.exec(name)?.[1] ?? Number.NaN);
