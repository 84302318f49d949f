// Lets every process that shares the store answer the challenges of the one that orders: a CA asks whichever it reaches.
// Invariant: `publish` resolves when the workers here answer, and so do those of every other process that is known to live;
// one that does not say so in time is not waited for.
import type { Clock, Timer } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { ChallengesPart } from '../../model/snapshot.ts';
import { FencedDocument } from './fenced-document.ts';
import type { AcmeStore } from './store.ts';

export interface SharedChallengesDeps {
  readonly store: AcmeStore;
  readonly clock: Clock;
  readonly log: Log;
  /** Of this process. */
  readonly holder: string;
  /** Makes every worker of this process answer exactly these. */
  readonly publish: (challenges: ChallengesPart) => Promise<unknown>;
}

const aloneMs = 10_000;
const togetherMs = 1_000;
/** A process whose sign of life has not changed for so long is gone. */
const goneMs = 60_000;
const beatMs = 10_000;
const waitMs = 10_000;
const waitStepMs = 200;

interface Neighbour {
  readonly text: string;
  readonly since: number;
  /** Stamp of the challenges that it shows. */
  readonly shows: string;
}

interface Posted {
  readonly stamp: string;
  readonly holder: string;
  readonly challenges: ChallengesPart;
}

const nothing: ChallengesPart = { http: [], alpn: [] };

export class SharedChallenges {
  readonly #deps: SharedChallengesDeps;
  readonly #document: FencedDocument;
  readonly #neighbours = new Map<string, Neighbour>();
  /** Of the lease that this process has; null: it orders nothing. */
  #term: number | null = null;
  #posted = 0;
  #own: ChallengesPart = nothing;
  #others: ChallengesPart = nothing;
  #shown = '';
  #lastBeat = Number.NEGATIVE_INFINITY;
  #timer: Timer | null = null;
  #closed = false;

  constructor(deps: SharedChallengesDeps) {
    this.#deps = deps;
    this.#document = new FencedDocument(deps.store, 'challenges');
  }

  start(): void {
    this.#lookSoon(0);
  }

  leads(term: number | null): void {
    this.#term = term;
  }

  async publish(challenges: ChallengesPart): Promise<void> {
    this.#own = challenges;
    const stamp = `${this.#deps.holder} ${this.#term} ${++this.#posted}`;
    const term = this.#term;
    await Promise.all([
      this.#deps.publish(merged(this.#own, this.#others)),
      term === null ? null : this.#post(term, stamp, challenges),
    ]);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await this.#deps.store.erase(this.#name).catch(() => {});
  }

  get #name(): string {
    return `nodes/${this.#deps.holder}`;
  }

  async #post(term: number, stamp: string, challenges: ChallengesPart): Promise<void> {
    const { holder, clock, log } = this.#deps;
    await this.#meet();
    const isEmpty = challenges.http.length === 0 && challenges.alpn.length === 0;
    if (this.#neighbours.size === 0 && !isEmpty) return;
    const posted: Posted = { stamp, holder, challenges };
    await this.#document.write(term, `${JSON.stringify(posted)}\n`);
    if (isEmpty) return;
    const deadline = clock.monotonic() + waitMs;
    for (;;) {
      await this.#meet();
      const waiting = [...this.#neighbours].filter(([, { shows }]) => shows !== stamp);
      if (waiting.length === 0) return;
      if (clock.monotonic() > deadline) {
        log.warn('acme-neighbour-silent', { nodes: waiting.map(([name]) => name) });
        return;
      }
      await new Promise<void>((resolve) => clock.after(waitStepMs, resolve));
    }
  }

  #lookSoon(ms: number): void {
    if (this.#closed) return;
    this.#timer = this.#deps.clock.after(ms, () => {
      this.#look()
        // A store that cannot be used is told by those who need it.
        .catch(() => {})
        .finally(() => this.#lookSoon(this.#neighbours.size > 0 ? togetherMs : aloneMs));
    });
  }

  async #look(): Promise<void> {
    await this.#meet();
    const { clock } = this.#deps;
    const before = this.#shown;
    if (this.#neighbours.size > 0) await this.#take();
    // Alone, one sign of life is enough: who comes finds it, and is found.
    const isDue = this.#neighbours.size > 0 && clock.monotonic() - this.#lastBeat >= beatMs;
    if (before !== this.#shown || isDue || this.#lastBeat === Number.NEGATIVE_INFINITY) await this.#beat();
  }

  /** Shows what another process has posted. */
  async #take(): Promise<void> {
    const posted = parsePosted(await this.#document.read());
    if (posted === null || posted.holder === this.#deps.holder || posted.stamp === this.#shown) return;
    this.#others = posted.challenges;
    await this.#deps.publish(merged(this.#own, this.#others));
    this.#shown = posted.stamp;
  }

  async #beat(): Promise<void> {
    const { store, clock } = this.#deps;
    this.#lastBeat = clock.monotonic();
    await store.write(this.#name, `${JSON.stringify({ beat: this.#lastBeat, shows: this.#shown })}\n`);
  }

  /** Who else is there, by what changes. */
  async #meet(): Promise<void> {
    const { store, clock } = this.#deps;
    const now = clock.monotonic();
    const names = (await store.list('nodes/')).filter((name) => name !== this.#name);
    for (const name of this.#neighbours.keys()) if (!names.includes(name)) this.#neighbours.delete(name);
    for (const name of names) {
      const text = (await store.read(name).catch(() => null)) ?? '';
      const known = this.#neighbours.get(name) ?? this.#gone.get(name);
      const since = known?.text === text ? known.since : now;
      const neighbour: Neighbour = { text, since, shows: showsOf(text) };
      if (now - since < goneMs) {
        this.#neighbours.set(name, neighbour);
        this.#gone.delete(name);
        continue;
      }
      this.#neighbours.delete(name);
      this.#gone.set(name, neighbour);
      if (now - since > 10 * goneMs) {
        this.#gone.delete(name);
        await store.erase(name);
      }
    }
  }

  readonly #gone = new Map<string, Neighbour>();
}

function merged(a: ChallengesPart, b: ChallengesPart): ChallengesPart {
  return { http: [...a.http, ...b.http], alpn: [...a.alpn, ...b.alpn] };
}

function parsePosted(text: string | null): Posted | null {
  try {
    const posted = JSON.parse(text ?? 'null') as Posted | null;
    return posted !== null && Array.isArray(posted.challenges.http) && Array.isArray(posted.challenges.alpn)
      ? posted
      : null;
  } catch {
    return null;
  }
}

function showsOf(text: string): string {
  try {
    const { shows } = JSON.parse(text) as { readonly shows?: unknown };
    return typeof shows === 'string' ? shows : '';
  } catch {
    return '';
  }
}
