// What is to be ordered, from whom, when, and why: the whole judgement of the life cycle in one pure function.
// Invariant: pure; only targets are ever ordered; what one name failed at changes nothing for another, and no wait that a CA
// asked for is cut short.

import { authorityState, type Journal, type Pause, pauseAt, type TargetState, targetState } from './journal.ts';
import { type Room, roomFor } from './ledger.ts';
import { type AnnouncedWindow, dueTime, type Urgency, urgencyOf, type Validity } from './renewal-time.ts';

export interface Target {
  /** Of its entry in the store. */
  readonly id: string;
  /** Canonical. */
  readonly names: readonly string[];
  /** Entry of a wildcard that would do as well; null: none. */
  readonly coveredBy: string | null;
  /** CAs that may sign for it, in order of preference. */
  readonly directories: readonly string[];
  /** Why there can be no order at all; null: there can. */
  readonly impossible: string | null;
}

export interface Held {
  readonly certificate: Validity;
  readonly directory: string | null;
  /** By how much the wall clock has fallen behind since the certificate was first seen; 0 for one that runs well. */
  readonly lagMs: number;
}

export interface Situation {
  readonly now: number;
  readonly targets: readonly Target[];
  readonly held: ReadonlyMap<string, Held>;
  readonly journal: Journal;
  /** Entries that an operator wants renewed now. */
  readonly forced: ReadonlySet<string>;
}

export interface PlanRow {
  readonly id: string;
  readonly names: readonly string[];
  readonly urgency: 'missing' | Urgency;
  /** When the next order is made; null: none will be. */
  readonly at: number | null;
  readonly directory: string | null;
  /** The CA announced this renewal, so it is named as the successor of the one that is held. */
  readonly replaces: boolean;
  /** The CA counts it against no limit: a successor inside the window that was announced. */
  readonly exempt: boolean;
  /** A sentence without its full stop. */
  readonly why: string;
}

export interface Plan {
  /** One for each target, in their order. */
  readonly rows: readonly PlanRow[];
  /** What is due now, the most pressing first. */
  readonly due: readonly PlanRow[];
  /** When the next one is due; null: never. */
  readonly nextAt: number | null;
}

/** Failures in a row at one CA before the next one in order is asked. */
export const failuresBeforeNext = 3;
/** In an emergency our own backoff counts no longer than this: five validations an hour may fail. */
const emergencyRetryMs = 12 * 60_000;

export function plan(situation: Situation): Plan {
  const rows = situation.targets.map((target) => rowOf(target, situation));
  const { now } = situation;
  const due = rows.filter(({ at }) => at !== null && at <= now).sort((a, b) => pressing(a, b, situation.journal));
  const later = rows.flatMap(({ at }) => (at !== null && at > now ? [at] : []));
  return { rows, due, nextAt: later.length === 0 ? null : Math.min(...later) };
}

const rank = { emergency: 0, missing: 1, late: 2, calm: 3 } as const;

function pressing(a: PlanRow, b: PlanRow, journal: Journal): number {
  const failures = ({ id }: PlanRow): number => targetState(journal, id).failures;
  return rank[a.urgency] - rank[b.urgency] || failures(a) - failures(b) || (a.at ?? 0) - (b.at ?? 0);
}

function rowOf(target: Target, situation: Situation): PlanRow {
  const { now, journal, forced } = situation;
  const { id, names } = target;
  const state = targetState(journal, id);
  const found = situation.held.get(id);
  const held = found === undefined || state.revoked === found.certificate.id ? null : found;
  const none = (why: string): PlanRow => ({ ...base, at: null, directory: null, replaces: false, exempt: false, why });
  const urgency: PlanRow['urgency'] = held === null ? 'missing' : urgencyOf(held.certificate, now + held.lagMs);
  const base = { id, names, urgency };
  const isForced = forced.has(id);
  if (target.impossible !== null) return none(target.impossible);
  const cover = isForced ? null : coverOf(target, situation);
  if (cover !== null) return none(cover);
  if (target.directories.length === 0) return none('no CA that is configured signs for such a name');

  const due = dueOf(held, state, isForced, now);
  const pause = effectivePause(state, urgency, isForced, now);
  const start = Math.max(due.at, pause?.until ?? 0);
  const announced = held !== null && isAnnounced(held, state);
  const inWindow = announced && isWithin(state.announced?.window ?? null, Math.max(now, start) + held.lagMs);
  const options = target.directories.map((directory): Option => {
    // What is announced by one CA says nothing to another.
    const replaces = announced && held.directory === directory;
    const exempt = replaces && inWindow;
    return { directory, replaces, exempt, ...whenAt(directory, target, exempt, start, situation) };
  });
  const chosen = choose(options, state.failures, urgency, start);
  const { directory, replaces, exempt, at } = chosen;
  const waiting = chosen.why ?? (pause !== null && pause.until > due.at ? pause.why : null);
  return {
    ...base,
    at,
    directory,
    replaces,
    exempt,
    why: waiting === null ? due.why : `${due.why}; waits: ${waiting}`,
  };
}

/** Null: it needs a certificate of its own. */
function coverOf({ coveredBy }: Target, { held, journal, now }: Situation): string | null {
  if (coveredBy === null) return null;
  const wildcard = held.get(coveredBy);
  const state = targetState(journal, coveredBy);
  const usable =
    wildcard !== undefined && wildcard.certificate.notAfter > now && state.revoked !== wildcard.certificate.id;
  if (usable) return 'a wildcard certificate covers it';
  return state.failures < failuresBeforeNext ? 'a wildcard certificate that is being ordered will cover it' : null;
}

function dueOf(held: Held | null, state: TargetState, forced: boolean, now: number): { at: number; why: string } {
  if (forced) return { at: now, why: 'asked for' };
  if (held === null) {
    const why = state.revoked === null ? 'it has no certificate yet' : 'its certificate was revoked';
    return { at: now, why };
  }
  const { certificate, lagMs } = held;
  const { announced } = state;
  const window = announced?.certificate === certificate.id ? announced.window : null;
  const due = dueTime(certificate, window);
  return { at: Math.max(0, due.at - lagMs), why: dueWords[due.why] };
}

const dueWords = {
  lifetime: 'most of its lifetime is over',
  announced: 'the CA announced this time',
  emergency: 'little of its lifetime is left',
} as const;

/** Our own backoff counts less when little time is left, and not at all when an operator asks. */
function effectivePause(state: TargetState, urgency: PlanRow['urgency'], forced: boolean, now: number): Pause | null {
  const pause = pauseAt(state, now);
  if (pause === null || pause.by === 'ca') return pause?.directory === null ? pause : null;
  if (forced) return null;
  if (urgency !== 'emergency') return pause;
  const until = Math.min(pause.until, (state.lastAttempt ?? 0) + emergencyRetryMs);
  return until > now ? { ...pause, until } : null;
}

interface Option extends Room {
  readonly directory: string;
  readonly replaces: boolean;
  readonly exempt: boolean;
}

function whenAt(
  directory: string,
  { id, names }: Target,
  exempt: boolean,
  start: number,
  { journal, now }: Situation,
): Room {
  const ofCa = pauseAt(authorityState(journal, directory), now);
  const here = pauseAt(targetState(journal, id), now);
  const ofName = here?.by === 'ca' && here.directory === directory ? here : null;
  let latest: Room = { at: start, why: null };
  for (const pause of [ofCa, ofName]) {
    if (pause !== null && pause.until > latest.at) latest = { at: pause.until, why: pause.why };
  }
  const room = roomFor(journal, names, directory, exempt, now);
  return room.at > latest.at ? room : latest;
}

/** The CA whose turn it is; another one that can be asked earlier when there is no time to wait. */
function choose(options: readonly Option[], failures: number, urgency: PlanRow['urgency'], start: number): Option {
  const turn = Math.floor(failures / failuresBeforeNext) % options.length;
  const inTurn = [...options.slice(turn), ...options.slice(0, turn)];
  const [first] = inTurn;
  if (first!.at <= start || (urgency === 'calm' && failures < failuresBeforeNext)) return first!;
  return inTurn.reduce((a, b) => (b.at < a.at ? b : a));
}

/** Before and after it a renewal is one like any other. */
function isWithin(window: AnnouncedWindow | null, at: number): boolean {
  return window !== null && window.start <= at && at <= window.end;
}

/** The CA has said when, and this successor is named for the first time. */
export function isAnnounced({ certificate }: Held, { announced, notReplaced }: TargetState): boolean {
  return announced?.certificate === certificate.id && announced.window !== null && notReplaced !== certificate.id;
}
