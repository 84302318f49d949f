// The life cycle of all certificates that come from a CA: at the start, on a reload and by timer it looks what is due and
// has it done.
// Invariant: a certificate that is served is given up for a newer one only; nothing is ordered without the lease, without room
// in a ledger that is on disk, and for a name that is no target.
import { generateKeyPair } from 'node:crypto';
import { promisify } from 'node:util';
import type { Clock, Timer } from '../../base/clock.ts';
import { Fault } from '../../base/fault.ts';
import type { Log } from '../../base/log.ts';
import type { Certificate } from '../../model/snapshot.ts';
import { askAnnouncements, nextAnnouncement } from './announcements.ts';
import { type AttemptDeps, attempt } from './attempt.ts';
import { AcmeFailure } from './failure.ts';
import { Holdings } from './holdings.ts';
import type { RevocationReason } from './issuer.ts';
import { targetState, withTarget } from './journal.ts';
import { type Lease, LeaseLock } from './lease.ts';
import { Notebook } from './notebook.ts';
import { type Plan, type PlanRow, plan } from './planner.ts';
import type { Preflight } from './preflight.ts';
import type { RenewalMetrics } from './renewal-metrics.ts';
import type { RenewalSettings, RenewalTarget } from './settings.ts';
import type { AcmeStore, StoredCertificate } from './store.ts';
import { StoreTrouble } from './store-trouble.ts';
import { Upkeep, unusedLimitMs } from './unused.ts';

export interface RenewalDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: RenewalMetrics;
  readonly store: AcmeStore;
  /** Tells processes that share the store apart. */
  readonly holder: string;
  readonly preflight: Preflight;
  /** Certificates of targets, or what is missing, changed. Resolves when every worker serves them. */
  readonly onChange: () => Promise<void>;
  /** Told when the lease is taken (its term) and given back (null). */
  readonly onLease: (term: number | null) => void;
  readonly random?: () => number;
  /** How often to look whether another process changed the store. */
  readonly pollMs?: number;
}

/** Orders at the same time. */
const concurrency = 4;
const defaultPollMs = 10_000;
/** However good the plan is. */
const longestSleepMs = 3 * 3_600_000;
/** A wall clock that moves so much more or less than time passes has been set. */
const clockJumpMs = 60_000;
const againMs = 5_000;

export class Renewals {
  readonly #deps: RenewalDeps;
  readonly #lock: LeaseLock;
  readonly #holdings: Holdings;
  readonly #notebook: Notebook;
  readonly #unused: Upkeep;
  readonly #closing = new AbortController();
  #settings: RenewalSettings | null = null;
  #plan: Plan = { rows: [], due: [], nextAt: null };
  readonly #forced = new Set<string>();
  #running: Promise<void> = Promise.resolve();
  #started = false;
  #again = false;
  #timer: Timer | null = null;
  #poll: Timer | null = null;
  readonly #trouble: StoreTrouble;
  #lastTerm = 0;
  #clockOffset: number;

  constructor(deps: RenewalDeps) {
    const { store, clock, holder } = deps;
    this.#deps = deps;
    this.#lock = new LeaseLock(store, clock, holder);
    this.#holdings = new Holdings(store, clock);
    this.#notebook = new Notebook(store, clock);
    this.#unused = new Upkeep(clock);
    this.#trouble = new StoreTrouble(deps.log);
    this.#clockOffset = clock.now() - clock.monotonic();
  }

  /** Reads the store, so that what is there can be served from the first moment on. Orders nothing. */
  async load(): Promise<void> {
    await this.#refresh();
  }

  /** From now on these are the targets, and the CAs. Certificates of others are kept in the store and not served. */
  follow(settings: RenewalSettings | null): void {
    this.#settings = settings;
    this.#replan();
    if (this.#started) this.check();
  }

  /** What is held for a target is served by now: begin to order what is missing. */
  start(): void {
    this.#started = true;
    this.#poll = this.#deps.clock.every(this.#deps.pollMs ?? defaultPollMs, () => void this.#lookAround());
    this.check();
  }

  /** Looks now what is due, unless it is looking already: then once more afterwards. */
  check(): void {
    if (!this.#started || this.#closing.signal.aborted) return;
    this.#timer?.cancel();
    this.#timer = null;
    if (this.#again) return;
    this.#again = true;
    this.#running = this.#running.then(() => {
      this.#again = false;
      return this.#pass();
    });
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    for (let running = null; running !== this.#running; ) {
      running = this.#running;
      await running;
    }
  }

  /** Of these targets: the last good certificate of each, and the names that are to have one and have none yet. */
  acquired(targets: readonly RenewalTarget[]): { certificates: readonly Certificate[]; pending: readonly string[] } {
    const held = (id: string | null): Certificate | null =>
      id === null ? null : (this.#holdings.get(id)?.certificate ?? null);
    return {
      certificates: targets.flatMap(({ id }) => held(id) ?? []),
      pending: targets.flatMap(({ id, coveredBy, impossible, names }) =>
        impossible !== null || held(id) !== null || held(coveredBy) !== null ? [] : names,
      ),
    };
  }

  /** Certificates of the targets that it follows. */
  get certificates(): readonly Certificate[] {
    return this.acquired(this.#targets()).certificates;
  }

  get settings(): RenewalSettings | null {
    return this.#settings;
  }

  get plan(): Plan {
    return this.#plan;
  }

  get journal(): Notebook['journal'] {
    return this.#notebook.journal;
  }

  get storeTrouble(): string | null {
    return this.#trouble.detail;
  }

  get problems(): readonly string[] {
    return this.#holdings.problems;
  }

  held(id: string): StoredCertificate | null {
    return this.#holdings.get(id);
  }

  /** Orders a new certificate for this name now. Throws a Fault that says why there is none. */
  async renew(name: string): Promise<StoredCertificate> {
    const target = this.#targetOf(name);
    const before = this.#holdings.get(target.id)?.certificate.id ?? null;
    const asked = this.#deps.clock.now();
    this.#forced.add(target.id);
    try {
      this.check();
      await this.idle();
    } finally {
      this.#forced.delete(target.id);
    }
    const held = this.#holdings.get(target.id);
    if (held !== null && held.certificate.id !== before) return held;
    const { lastError } = targetState(this.#notebook.journal, target.id);
    const row = this.#plan.rows.find(({ id }) => id === target.id);
    if (this.#trouble.detail !== null) throw new Fault('acme-failed', this.#trouble.detail);
    if (lastError !== null && lastError.at >= asked) throw new Fault('acme-failed', `${name}: ${lastError.detail}`);
    throw new Fault('acme-failed', `${name} was not ordered: ${row?.why ?? 'another process is at it'}`);
  }

  /** Tells the CA that the certificate is not to be trusted; a new one is ordered at once. */
  async revoke(name: string, reason: RevocationReason): Promise<StoredCertificate> {
    const target = this.#targetOf(name);
    const stored = this.#holdings.get(target.id);
    if (stored === null) throw new Fault('acme-failed', `${name} has no certificate that could be revoked`);
    const { directories } = this.#settings!;
    const url = stored.directory ?? directories[0]?.url ?? '';
    const issuer = directories.find((each) => each.url === url)?.issuer;
    if (issuer === undefined) throw new Fault('acme-failed', `${url} is not configured any more`);
    await this.#underLease(async (lease) => {
      await failing(() => issuer.revoke(stored.certificate.chain, reason, this.#signal(lease)));
      this.#notebook.note((journal) => withTarget(journal, target.id, { revoked: stored.certificate.id, pause: null }));
      await this.#notebook.flush(lease.term);
    });
    this.#deps.log.warn('certificate-revoked', { names: target.names, reason });
    this.check();
    return stored;
  }

  /** New account keys at every CA. */
  async rollover(): Promise<readonly string[]> {
    const done: string[] = [];
    await this.#underLease(async (lease) => {
      for (const { url, issuer } of this.#settings?.directories ?? []) {
        const { privateKey } = await generatePair('ec', { namedCurve: 'P-256' });
        const keyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
        await failing(() => issuer.rolloverKey(keyPem, this.#signal(lease)));
        this.#deps.log.info('acme-account-rolled-over', { directory: url });
        done.push(url);
      }
    });
    return done;
  }

  /** Ends what is under way. What was ordered is taken up again by whoever comes next. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('Turnpike is ending'));
    this.#timer?.cancel();
    this.#poll?.cancel();
    await this.idle();
  }

  async #lookAround(): Promise<void> {
    const jumped = this.#noticeClock();
    if ((await this.#refreshes()) || jumped) this.check();
  }

  /** True when the wall clock was set since the last look. */
  #noticeClock(): boolean {
    const { clock } = this.#deps;
    const now = clock.now();
    const offset = now - clock.monotonic();
    const jump = offset - this.#clockOffset;
    if (Math.abs(jump) < clockJumpMs) return false;
    this.#clockOffset = offset;
    this.#notebook.shift(jump, now - jump);
    this.#deps.log.warn('acme-clock-set', { seconds: Math.round(jump / 1000) });
    return true;
  }

  /** False, without a word, when the store cannot be read right now: a pass will say so. */
  async #refreshes(): Promise<boolean> {
    try {
      const changed = await this.#holdings.refresh();
      if (changed) await this.#changed();
      return changed;
    } catch {
      return false;
    }
  }

  /** `discard`: another process had the lease; what was noted here and not written is not to hide what it wrote. */
  async #refresh(discard = false): Promise<void> {
    this.#noticeClock();
    const changed = await this.#holdings.refresh();
    await this.#notebook.refresh(discard);
    this.#notebook.settle(this.#holdings.clockIsBehind);
    this.#replan();
    if (changed && this.#started) await this.#changed();
  }

  #replan(): void {
    const { clock } = this.#deps;
    const now = clock.now();
    this.#plan = plan({
      now,
      targets: this.#targets(),
      held: this.#holdings.held(),
      journal: this.#notebook.journal,
      forced: this.#forced,
    });
  }

  async #pass(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    let retryMs = againMs;
    try {
      await this.#refresh();
      if (this.#isBusy()) {
        const lease = await this.#lock.tryAcquire();
        if (lease !== null) await this.#hold(lease, () => this.#work(lease));
      }
      this.#trouble.over();
    } catch (error) {
      retryMs = this.#trouble.met(error);
    }
    this.#replan();
    this.#sleep(retryMs);
  }

  /** Until something is due; what is due already waits for the lease, for the store, or for another CA. */
  #sleep(retryMs: number): void {
    if (this.#closing.signal.aborted || this.#timer !== null) return;
    const next = Math.min(this.#plan.nextAt ?? Number.POSITIVE_INFINITY, this.#nextAnnouncement());
    const ms = Math.max(1000, Math.min(longestSleepMs, this.#isBusy() ? retryMs : next - this.#deps.clock.now()));
    this.#timer = this.#deps.clock.after(ms, () => this.check());
  }

  #isBusy(): boolean {
    const { clock } = this.#deps;
    return (
      this.#plan.due.length > 0 ||
      this.#holdings.unsaved ||
      this.#notebook.isDirty ||
      this.#nextAnnouncement() <= clock.now() ||
      this.#unused.isDue()
    );
  }

  async #hold(lease: Lease, task: () => Promise<void>): Promise<void> {
    const { onLease } = this.#deps;
    onLease(lease.term);
    try {
      // Others may have been at it between the last look and the lease.
      await this.#refresh(lease.term !== this.#lastTerm + 1);
      this.#lastTerm = lease.term;
      await task();
    } finally {
      onLease(null);
      await lease.release();
    }
  }

  /** For what an operator asks: waits a little for a lease that another has. */
  async #underLease(task: (lease: Lease) => Promise<void>): Promise<void> {
    const done = this.#running.then(async () => {
      const lease = await this.#lock.tryAcquire();
      if (lease === null) {
        throw new Fault('acme-failed', 'another process that shares the store is ordering; try again in a minute');
      }
      await this.#hold(lease, () => task(lease));
    });
    this.#running = done.catch(() => {});
    await done;
  }

  async #work(lease: Lease): Promise<void> {
    const { term } = lease;
    await this.#holdings.saveUnsaved(term);
    await this.#notebook.flush(term);
    await this.#ask(lease);
    await this.#orderAll(lease);
    if (this.#unused.isDue()) await this.#tidy();
    await this.#notebook.flush(term);
  }

  /** Counts for how long entries have had no host, and removes those that have had none for long enough. */
  async #tidy(): Promise<void> {
    const wanted = new Set(this.#targets().map(({ id }) => id));
    this.#notebook.note((journal) => this.#unused.count(journal, this.#holdings.ids, wanted));
    for (const id of this.#unused.over(this.#notebook.journal)) {
      await this.#holdings.remove(id);
      this.#deps.log.info('certificate-removed', { entry: id, unusedDays: unusedLimitMs / 86_400_000 });
    }
  }

  /** Starts what is due, a few at a time, until nothing is; what fails has its pause by then. */
  async #orderAll(lease: Lease): Promise<void> {
    const running = new Map<string, Promise<void>>();
    const tried = new Set<string>();
    const signal = this.#signal(lease);
    for (;;) {
      this.#replan();
      const next = signal.aborted ? [] : this.#plan.due.filter(({ id }) => !tried.has(id));
      for (const row of next.slice(0, concurrency - running.size)) {
        tried.add(row.id);
        // Once is what was asked for.
        this.#forced.delete(row.id);
        const order = this.#order(row, lease, signal).finally(() => running.delete(row.id));
        running.set(row.id, order);
      }
      if (running.size === 0) return;
      try {
        await Promise.race(running.values());
      } catch (error) {
        await Promise.allSettled(running.values());
        throw error;
      }
    }
  }

  async #order(row: PlanRow, lease: Lease, signal: AbortSignal): Promise<void> {
    const target = this.#targets().find(({ id }) => id === row.id);
    const directory = this.#settings?.directories.find(({ url }) => url === row.directory);
    if (target === undefined || directory === undefined) return;
    const deps: AttemptDeps = {
      ...this.#deps,
      random: this.#deps.random ?? Math.random,
      holdings: this.#holdings,
      notebook: this.#notebook,
      changed: () => this.#changed(),
    };
    await attempt(row, target, directory, this.#settings!, lease, signal, deps);
  }

  async #ask(lease: Lease): Promise<void> {
    const settings = this.#settings;
    if (settings === null || !settings.announcements) return;
    const { clock, log } = this.#deps;
    const asked = await askAnnouncements(
      { settings, holdings: this.#holdings, journal: this.#notebook.journal, clock, log },
      this.#signal(lease),
    );
    if (asked === null) return;
    this.#notebook.note(asked);
  }

  #nextAnnouncement(): number {
    const settings = this.#settings;
    if (settings === null || !settings.announcements) return Infinity;
    return nextAnnouncement(settings, this.#holdings, this.#notebook.journal);
  }

  async #changed(): Promise<void> {
    await this.#deps.onChange().catch((error: unknown) => this.#deps.log.warn('acme-not-published', { err: error }));
  }

  #signal(lease: Lease): AbortSignal {
    return AbortSignal.any([this.#closing.signal, lease.lost]);
  }

  #targets(): readonly RenewalTarget[] {
    return this.#settings?.targets ?? [];
  }

  #targetOf(name: string): RenewalTarget {
    const target = this.#targets().find(({ names }) => names.includes(name));
    if (target !== undefined) return target;
    throw new Fault('acme-unknown-name', `no certificate is ordered for ${name}`);
  }
}

const generatePair = promisify(generateKeyPair);

async function failing<T>(task: () => Promise<T>): Promise<T> {
  try {
    return await task();
  } catch (error) {
    throw error instanceof AcmeFailure ? new Fault('acme-failed', error.detail, { cause: error }) : error;
  }
}
