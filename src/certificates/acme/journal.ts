// What is remembered of orders and failures, over restarts and by all processes that share a store.
// Invariant: pure; a journal that cannot be read is an empty one, never a reason to stop; what a wrong clock wrote into the
// future is not believed.
import type { AcmeFailureKind } from './failure.ts';
import type { Ledger, OrderRecord } from './ledger.ts';

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

/** The pause that holds at `now`. */
export function pauseAt({ pause }: { readonly pause: Pause | null }, now: number): Pause | null {
  return pause !== null && pause.until > now ? pause : null;
}

/**
 * After the clock was set back: what it wrote into the future is not believed, but a pause that a CA asked for is one all the
 * same, and begins anew.
 */
export function settled(journal: Journal, now: number): Journal {
  const states = [...Object.values(journal.authorities), ...Object.values(journal.targets)];
  const isAhead = (at: number | null | undefined): boolean => (at ?? 0) > now + clockToleranceMs;
  const ahead =
    states.some(({ pause }) => isAhead(pause?.since)) ||
    Object.values(journal.targets).some(({ announced }) => isAhead(announced?.checkedAt));
  if (!ahead) return journal;
  const back = <T extends { readonly pause: Pause | null }>(state: T): T => {
    const { pause } = state;
    if (pause === null || !isAhead(pause.since)) return state;
    return { ...state, pause: { ...pause, since: now, until: now + (pause.until - pause.since) } };
  };
  const map = <T>(all: Readonly<Record<string, T>>, change: (each: T) => T): Readonly<Record<string, T>> =>
    Object.fromEntries(Object.entries(all).map(([key, each]) => [key, change(each)]));
  return {
    ...journal,
    authorities: map(journal.authorities, back),
    targets: map(journal.targets, (state) => {
      const { announced } = state;
      const asks = announced !== null && isAhead(announced.checkedAt);
      return { ...back(state), announced: asks ? { ...announced, checkedAt: now, askAgainAt: now } : announced };
    }),
  };
}

const clockToleranceMs = 60_000;

/**
 * The wall clock was set, by `ms`, while this process ran: what it wrote keeps its distance to now. What lay in the future
 * before (`now` then) was written by another clock and stays.
 */
export function shifted(journal: Journal, ms: number, now: number): Journal {
  const move = (at: number): number => (at <= now ? at + ms : at);
  const pauseOf = (pause: Pause | null): Pause | null =>
    pause === null || pause.since > now ? pause : { ...pause, since: pause.since + ms, until: pause.until + ms };
  const record = <T extends { readonly at: number }>(each: T): T => ({ ...each, at: move(each.at) });
  const map = <T>(all: Readonly<Record<string, T>>, change: (each: T) => T): Readonly<Record<string, T>> =>
    Object.fromEntries(Object.entries(all).map(([key, each]) => [key, change(each)]));
  return {
    ...journal,
    orders: journal.orders.map(record),
    failedValidations: journal.failedValidations.map(record),
    authorities: map(journal.authorities, (state) => ({ ...state, pause: pauseOf(state.pause) })),
    targets: map(journal.targets, (state) => ({
      ...state,
      pause: pauseOf(state.pause),
      lastAttempt: state.lastAttempt === null ? null : move(state.lastAttempt),
      lastError: state.lastError === null ? null : record(state.lastError),
    })),
  };
}

/** Damaged parts are left out, the others count. */
export function parseJournal(text: string | null): Journal {
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
