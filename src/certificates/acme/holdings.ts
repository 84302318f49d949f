// The certificates of the store, as this process has them in memory.
// Invariant: what was good once is not given up because the store cannot be read, or written, any more; which of two
// certificates is the later one is told by their versions, never by a clock.
import type { Clock } from '../../base/clock.ts';
import type { Held } from './planner.ts';
import { type AcmeStore, isNewer, type NewCertificate, type StoredCertificate, type Version } from './store.ts';

interface Holding {
  readonly stored: StoredCertificate;
  /**
   * Both clocks when it was first seen: how far the wall clock falls behind is told by them. Wall null: by it the certificate
   * was over already, so it told the wrong time, or nobody was there for long.
   */
  readonly wall: number | null;
  readonly monotonic: number;
  /** Served, and not in the store yet. */
  readonly unsaved: NewCertificate | null;
}

/** By how much CAs date certificates back. */
const backdatedMs = 2 * 3_600_000;

export class Holdings {
  readonly #store: AcmeStore;
  readonly #clock: Clock;
  readonly #entries = new Map<string, Holding>();
  #stamp: string | null = null;
  #problems: readonly string[] = [];

  constructor(store: AcmeStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Broken entries, for people. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  get ids(): readonly string[] {
    return [...this.#entries.keys()];
  }

  get(id: string): StoredCertificate | null {
    return this.#entries.get(id)?.stored ?? null;
  }

  /** What the planner needs to know. */
  held(): ReadonlyMap<string, Held> {
    const wall = this.#clock.now();
    const monotonic = this.#clock.monotonic();
    return new Map(
      [...this.#entries].map(([id, { stored, ...seen }]) => {
        const behind = seen.wall === null ? 0 : seen.wall + (monotonic - seen.monotonic) - wall;
        const { certificate, directory } = stored;
        return [id, { certificate, directory, lagMs: Math.max(0, behind) }];
      }),
    );
  }

  /** By certificates that have been signed, the wall clock must be later than it says. */
  get clockIsBehind(): boolean {
    const now = this.#clock.now();
    return [...this.#entries.values()].some(({ stored }) => stored.certificate.notBefore > now + backdatedMs);
  }

  /** True when other certificates are held than before. */
  async refresh(): Promise<boolean> {
    const stamp = await this.#store.stamp();
    if (stamp === this.#stamp) return false;
    let changed = false;
    const known = (id: string): Version | null => this.#entries.get(id)?.stored.version ?? null;
    const problems: string[] = [];
    const seen = new Set<string>();
    const entries = await this.#store.certificates(known);
    // Whoever removes the last entry leaves a stamp.
    if (stamp === '' && entries.length === 0 && this.#hasSaved) throw new Error('it is empty: is it mounted?');
    for (const { id, current, problems: broken } of entries) {
      seen.add(id);
      problems.push(...broken);
      const before = this.#entries.get(id);
      if (
        current === null ||
        current === 'known' ||
        (before !== undefined && !isNewer(current.version, before.stored.version))
      )
        continue;
      this.#hold(id, current, null);
      changed = true;
    }
    for (const [id, { unsaved }] of this.#entries) {
      if (seen.has(id) || unsaved !== null) continue;
      this.#entries.delete(id);
      changed = true;
    }
    this.#stamp = stamp;
    this.#problems = problems;
    return changed;
  }

  /** It is served from now on, also when it cannot be saved; then the error is thrown. */
  async add(
    id: string,
    term: number,
    content: NewCertificate,
    certificate: StoredCertificate['certificate'],
  ): Promise<void> {
    const { issuer, directory } = content;
    // Newer than everything under this lease until the store has given it a number.
    const version = { term, serial: Number.MAX_SAFE_INTEGER };
    this.#hold(id, { version, certificate, issuer, directory }, content);
    const holding = this.#entries.get(id)!;
    // It was signed just now: a wall clock that says something else is wrong.
    const wall = Math.min(this.#clock.now(), certificate.notBefore + backdatedMs);
    this.#entries.set(id, { ...holding, wall });
    await this.#save(id, term, content);
  }

  get unsaved(): boolean {
    return [...this.#entries.values()].some(({ unsaved }) => unsaved !== null);
  }

  get #hasSaved(): boolean {
    return [...this.#entries.values()].some(({ unsaved }) => unsaved === null);
  }

  async saveUnsaved(term: number): Promise<void> {
    for (const [id, { unsaved }] of this.#entries) if (unsaved !== null) await this.#save(id, term, unsaved);
  }

  async remove(id: string): Promise<void> {
    await this.#store.remove(id);
    this.#entries.delete(id);
  }

  async #save(id: string, term: number, content: NewCertificate): Promise<void> {
    const stored = await this.#store.put(id, term, content);
    const holding = this.#entries.get(id);
    if (holding?.unsaved === content) this.#entries.set(id, { ...holding, stored, unsaved: null });
  }

  #hold(id: string, stored: StoredCertificate, unsaved: NewCertificate | null): void {
    const now = this.#clock.now();
    const wall = now < stored.certificate.notAfter ? now : null;
    this.#entries.set(id, { stored, wall, monotonic: this.#clock.monotonic(), unsaved });
  }
}
