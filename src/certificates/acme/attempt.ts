// One certificate, from "it is due" to "it is served and kept", or to a failure that is remembered.
// Invariant: settles whatever the CA does; rejects only when the store cannot be written before the order, so that nothing is
// ordered that would be forgotten.
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { renewalId } from './chain.ts';
import { AcmeFailure } from './failure.ts';
import type { Holdings } from './holdings.ts';
import type { Issued, PendingOrder } from './issuer.ts';
import { targetState, withOrder, withoutCertificate, withTarget } from './journal.ts';
import type { Lease } from './lease.ts';
import type { Notebook } from './notebook.ts';
import { type Attempt, afterFailure, afterSuccess, backoffMs, type Failure } from './outcome.ts';
import { issuerOf, readPair } from './pair.ts';
import { failuresBeforeNext, type PlanRow } from './planner.ts';
import type { Preflight } from './preflight.ts';
import type { RenewalMetrics } from './renewal-metrics.ts';
import { dueTime } from './renewal-time.ts';
import type { RenewalDirectory, RenewalSettings, RenewalTarget } from './settings.ts';
import type { AcmeStore, NewCertificate } from './store.ts';

export interface AttemptDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: RenewalMetrics;
  readonly store: AcmeStore;
  readonly preflight: Preflight;
  readonly random: () => number;
  readonly holdings: Holdings;
  readonly notebook: Notebook;
  readonly changed: () => Promise<void>;
}

/** Looks that may go wrong in a row before the CA is asked nevertheless. */
const patience = 3;
const doubtBackoff = { firstMs: 60_000, longestMs: 3_600_000 } as const;

export async function attempt(
  row: PlanRow,
  target: RenewalTarget,
  directory: RenewalDirectory,
  settings: RenewalSettings,
  lease: Lease,
  signal: AbortSignal,
  deps: AttemptDeps,
): Promise<void> {
  const { clock, log, metrics, holdings, notebook, store } = deps;
  const { id, names } = row;
  const held = holdings.get(id)?.certificate ?? null;
  if (held === null && !(await passesPreflight(target, lease, signal, deps))) return;
  const now = clock.now();
  const order = { at: now, directory: directory.url, names, exempt: row.exempt, certificate: true };
  notebook.note((journal) => withTarget(withOrder(journal, order), id, { lastAttempt: now }));
  await notebook.flush(lease.term);
  const tried: Attempt = {
    id,
    names,
    directory: directory.url,
    notAfter: held?.notAfter ?? null,
    held: held?.id ?? null,
  };
  const pending = new PendingDocument(store, id, directory.url);
  const found = await pending.read();
  // A crash after the certificate was stored leaves its order behind. It has nothing to give but the same one again.
  const resume = found?.keyPem === held?.key ? null : found;
  /** A new order, whose record is the one above; one that is taken up again is on record already. */
  let counts = false;
  log.info('acme-order', { names, directory: directory.url, why: row.why, challenge: target.challenge });
  try {
    const issued = await directory.issuer.issue(
      {
        names,
        keyType: settings.keyType,
        profile: directory.profile,
        preferredChain: directory.preferredChain,
        replaces: row.replaces && held !== null ? renewalId(held.chain) : null,
        challengeFor: () => target.challenge,
        resume,
        onPending: (begun) => {
          counts = begun.url !== resume?.url;
          return pending.write(begun);
        },
      },
      signal,
    );
    if (!counts) notebook.note((journal) => withoutCertificate(journal, order));
    await keep(issued, tried, lease, deps);
  } catch (error) {
    const failure = failureOf(error);
    // The order stays counted as one; of one that is dead no certificate came, of another one may have.
    if (!counts || isDead(failure.kind)) notebook.note((journal) => withoutCertificate(journal, order));
    notebook.note((journal) => afterFailure(journal, tried, failure, clock.now(), deps.random));
    if (failure.kind !== 'aborted') {
      metrics.failed(directory.url, failure.kind);
      const { kind, detail } = failure;
      log.warn('acme-order-failed', { names, directory: directory.url, kind, detail });
    }
    if (isDead(failure.kind)) await pending.erase();
    else if (isHeld(failure.kind)) await pending.inVain();
    await notebook.flush(lease.term).catch(() => {});
    return;
  }
  await pending.erase();
}

async function keep(issued: Issued, tried: Attempt, lease: Lease, deps: AttemptDeps): Promise<void> {
  const { clock, log, metrics, holdings, notebook } = deps;
  const { id, names, directory } = tried;
  const { chain, key } = issued;
  const content: NewCertificate = { chain, key, issuer: issued.issuer || issuerOf(chain), directory };
  const certificate = readPair(chain, key, id);
  try {
    await holdings.add(id, lease.term, content, certificate);
  } catch (error) {
    // It is served from memory, and written as soon as that is possible again.
    log.error('certificate-not-stored', { names, err: error });
  }
  metrics.obtained(directory);
  log.info(tried.held === null ? 'certificate-obtained' : 'certificate-renewed', {
    names,
    issuer: content.issuer,
    notAfter: new Date(certificate.notAfter).toISOString(),
  });
  const now = clock.now();
  notebook.note((journal) => {
    const done = afterSuccess(journal, tried);
    // By our clock it is due already: one of us and the CA is wrong about the time. Asking again at once helps nobody.
    if (dueTime(certificate, null).at > now) return done;
    const detail = `by the clock of this machine (${new Date(now).toISOString()}) the new certificate is already due`;
    const failure: Failure = { kind: 'clock', detail, retryAfterMs: null, scope: 'names', perName: [] };
    const { failures } = targetState(journal, id);
    return afterFailure(withTarget(done, id, { failures }), tried, failure, now, deps.random);
  });
  await notebook.flush(lease.term).catch(() => {});
  await deps.changed();
}

async function passesPreflight(
  target: RenewalTarget,
  lease: Lease,
  signal: AbortSignal,
  { clock, log, metrics, notebook, preflight, random }: AttemptDeps,
): Promise<boolean> {
  const { id, names } = target;
  const { doubts, failures } = targetState(notebook.journal, id);
  // What the CA has looked at itself is known better than from here.
  if (failures > 0) return true;
  const doubt = await preflight(target, signal);
  if (doubt === null || signal.aborted) return !signal.aborted;
  if (!doubt.certain && doubts + 1 >= patience) return true;
  const now = clock.now();
  const { detail } = doubt;
  const pause = {
    since: now,
    until: now + backoffMs(doubtBackoff, doubts + 1, random),
    by: 'us',
    directory: null,
    why: `nothing was ordered: ${detail}`,
  } as const;
  const lastError = { at: now, kind: 'preflight', directory: null, detail } as const;
  notebook.note((journal) => withTarget(journal, id, { doubts: doubts + 1, pause, lastError }));
  metrics.doubted();
  log.warn('acme-preflight-failed', { names, detail });
  await notebook.flush(lease.term);
  return false;
}

interface PendingText extends PendingOrder {
  readonly directory: string;
  readonly vain: number;
}

/** What a crash would lose: an order that the CA has and the key that belongs to it. */
class PendingDocument {
  readonly #store: AcmeStore;
  readonly #name: string;
  readonly #directory: string;
  #order: PendingOrder | null = null;
  /** Attempts that ended with no verdict on this order. */
  #vain = 0;

  constructor(store: AcmeStore, id: string, directory: string) {
    this.#store = store;
    this.#name = `orders/${id}`;
    this.#directory = directory;
  }

  async read(): Promise<PendingOrder | null> {
    try {
      const text = await this.#store.read(this.#name);
      if (text === null) return null;
      const { directory, url, keyPem, vain = 0 } = JSON.parse(text) as Partial<PendingText>;
      if (directory !== this.#directory || typeof url !== 'string' || typeof keyPem !== 'string') return null;
      this.#order = { url, keyPem };
      this.#vain = Number(vain);
      return this.#order;
    } catch {
      return null;
    }
  }

  async write({ url, keyPem }: PendingOrder): Promise<void> {
    if (this.#order?.url !== url) this.#vain = 0;
    this.#order = { url, keyPem };
    const text: PendingText = { directory: this.#directory, url, keyPem, vain: this.#vain };
    await this.#store.write(this.#name, `${JSON.stringify(text)}\n`);
  }

  /** An order that stays stuck must not keep its name from a new one for ever. */
  async inVain(): Promise<void> {
    if (this.#order === null) return;
    this.#vain++;
    if (this.#vain >= failuresBeforeNext) await this.erase();
    else await this.write(this.#order).catch(() => {});
  }

  async erase(): Promise<void> {
    await this.#store.erase(this.#name).catch(() => {});
  }
}

/** What may happen to an order whose certificate is signed, or still will be: "too many requests" is said at any moment. */
const undecided: ReadonlySet<Failure['kind']> = new Set([
  'network',
  'timeout',
  'aborted',
  'store',
  'server',
  'rate-limited',
]);

/** The order cannot become a certificate any more. */
const isDead = (kind: Failure['kind']): boolean => !undecided.has(kind);

/** The CA was there, and the order came no further. */
const isHeld = (kind: Failure['kind']): boolean => kind === 'timeout' || kind === 'server';

function failureOf(error: unknown): Failure {
  if (error instanceof AcmeFailure) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return { kind: 'server', detail, retryAfterMs: null, scope: 'names', perName: [] };
}
