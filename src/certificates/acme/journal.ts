// What is remembered of orders and failures, over restarts and by all processes that share a store.
// Invariant: pure; a journal that cannot be read is an empty one, never a reason to stop; what a wrong clock wrote into the
// future is not believed.
import type { AcmeFailureKind } from './failure.ts';
import { type Ledger, type OrderRecord, pruned } from './ledger.ts';

export interface Journal extends Ledger {
  /** By directory URL. */
  readonly authorities: Readonly<Record<string, AuthorityState>>;
  /** By entry id. */
  readonly targets: Readonly<Record<string, TargetState>>;
  /** How long entries have been without a host that wants them, in milliseconds of running time. */
  readonly unused: Readonly<Record<string, number>>;
}

export interface AuthorityState {
  /** In a row. */
  readonly failures: number;
  /** Null: it may be asked. */
  readonly pause: Pause | null;
}

export interface Pause {
  readonly since: number;
  readonly until: number;
  /** `ca`: it asked for it, so nothing overrules it. */
  readonly by: 'us' | 'ca';
  /** A name's pause at this CA only; null: at every one. */
  readonly directory: string | null;
  readonly why: string;
}

export interface TargetState {
  /** In a row. */
  readonly failures: number;
  readonly lastAttempt: number | null;
  readonly pause: Pause | null;
  readonly lastError: AttemptError | null;
  readonly announced: Announcement | null;
  /** Looks before the first order that went wrong. */
  readonly doubts: number;
  /** The CA said that this certificate has been replaced before: it is not named again. */
  readonly notReplaced: string | null;
  /** Certificate that was revoked: it is as good as none. */
  readonly revoked: string | null;
}

export interface AttemptError {
  readonly at: number;
  readonly kind: AcmeFailureKind | 'preflight' | 'clock';
  readonly directory: string | null;
  readonly detail: string;
}

/** What the CA says about one certificate (RFC 9773). */
export interface Announcement {
  readonly certificate: string;
  /** Null: it does not say. */
  readonly window: { readonly start: number; readonly end: number } | null;
  readonly explanationUrl: string | null;
  readonly checkedAt: number;
  readonly askAgainAt: number;
}

export const emptyJournal: Journal = {
  orders: [],
  failedValidations: [],
  authorities: {},
  targets: {},
  unused: {},
};

export const freshTarget: TargetState = {
  failures: 0,
  lastAttempt: null,
  pause: null,
  lastError: null,
  announced: null,
  doubts: 0,
  notReplaced: null,
  revoked: null,
};

export const freshAuthority: AuthorityState = { failures: 0, pause: null };

export function targetState(journal: Journal, id: string): TargetState {
  return journal.targets[id] ?? freshTarget;
}

export function authorityState(journal: Journal, directory: string): AuthorityState {
  return journal.authorities[directory] ?? freshAuthority;
}

export function withTarget(journal: Journal, id: string, change: Partial<TargetState>): Journal {
  return { ...journal, targets: { ...journal.targets, [id]: { ...targetState(journal, id), ...change } } };
}

export function withAuthority(journal: Journal, directory: string, state: AuthorityState): Journal {
  return { ...journal, authorities: { ...journal.authorities, [directory]: state } };
}

export function withOrder(journal: Journal, order: OrderRecord): Journal {
  return { ...journal, orders: [...journal.orders, { ...order, names: order.names.toSorted() }] };
}

/** No certificate came of it. */
export function withoutCertificate(journal: Journal, order: OrderRecord): Journal {
  const set = order.names.toSorted().join();
  const orders = journal.orders.map((each) =>
    each.at === order.at && each.directory === order.directory && each.names.join() === set
      ? { ...each, certificate: false }
      : each,
  );
  return { ...journal, orders };
}

/** The pause that holds at `now`; one that begins in the future was made by a clock that was wrong. */
export function pauseAt(state: { readonly pause: Pause | null }, now: number): Pause | null {
  const { pause } = state;
  return pause !== null && pause.since <= now + 60_000 && pause.until > now ? pause : null;
}

export function parseJournal(text: string | null, now: number): Journal {
  const journal = readJournal(text);
  return { ...journal, ...pruned(journal, now) };
}

/** Damaged parts are left out, the others count. */
function readJournal(text: string | null): Journal {
  let value: Partial<Record<keyof Journal, unknown>>;
  try {
    value = text === null ? {} : (JSON.parse(text) as typeof value);
  } catch {
    return emptyJournal;
  }
  const list = <T>(part: unknown): readonly T[] => (Array.isArray(part) ? (part as T[]) : []);
  const map = <T>(part: unknown): Readonly<Record<string, T>> =>
    typeof part === 'object' && part !== null && !Array.isArray(part) ? (part as Record<string, T>) : {};
  const targets = Object.entries(map<Partial<TargetState>>(value?.targets));
  const authorities = Object.entries(map<Partial<AuthorityState>>(value?.authorities));
  return {
    orders: list<OrderRecord>(value?.orders).filter((each) => Number.isFinite(each?.at) && Array.isArray(each.names)),
    failedValidations: list<Journal['failedValidations'][number]>(value?.failedValidations).filter((each) =>
      Number.isFinite(each?.at),
    ),
    authorities: Object.fromEntries(authorities.map(([key, state]) => [key, { ...freshAuthority, ...state }])),
    targets: Object.fromEntries(targets.map(([key, state]) => [key, { ...freshTarget, ...state }])),
    unused: map<number>(value?.unused),
  };
}
