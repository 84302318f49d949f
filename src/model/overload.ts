// The overload ladder: how far a worker goes to keep serving when the machine is not enough. Pure.
// Invariant: a rung is left downwards only, one at a time, and only after it was not needed for a while; one long pause of
// the event loop alone never climbs it.

/** What is given up, rung by rung; each includes those before it. */
export const rungs = [
  'calm',
  /** Connections without a request in work are closed: they keep descriptors and memory from those who ask. */
  'close-idle',
  /** New work is refused: all that would stay (tunnels, flows, WebSockets), and a share of the requests. */
  'shed',
  /** Connections wait in the backlog for another worker, or for better times. */
  'stop-accepting',
] as const;

export type Rung = (typeof rungs)[number];

/** What a worker knows of its own load. */
export interface LoadReading {
  /** How late the event loop comes to what is due, milliseconds. */
  readonly delayMs: number;
  /** Descriptors in use. */
  readonly descriptors: number;
  /** As many as there may be. */
  readonly descriptorLimit: number;
}

export interface Overload {
  /** Index in `rungs`. */
  readonly rung: number;
  /** 0–1: how sure we are of this rung. The share of requests that is shed on it; at 0 it is left. */
  readonly heat: number;
  /** The rung that the delay of the last reading asked for. */
  readonly lastByDelay: number;
}

export const calm: Overload = { rung: 0, heat: 0, lastByDelay: 0 };

/** Of `limits.overload_delay`, by rung. */
const delayFactors = [0, 0.5, 1, 4] as const;
/** Of the descriptors that there may be, by rung. */
const descriptorShares = [0, 0.8, 0.9, 0.95] as const;
/** A rung is kept until a reading is this much below the one that leads to it. */
const slack = 0.9;

const firstHeat = 0.5;
const heating = 0.25;
/** A reading every half second: a rung is left after two seconds at the earliest, the hottest after four. */
const cooling = 0.125;

const shedRung = rungs.indexOf('shed');
const stopRung = rungs.indexOf('stop-accepting');

/** Above this, descriptors are kept for the requests that are here already. */
export const descriptorCeiling: number = descriptorShares[stopRung]!;

/** The state after one more reading; `delayLimitMs` is the delay from which new work is refused. */
export function climb(state: Overload, reading: LoadReading, delayLimitMs: number): Overload {
  const byDelay = rungFor(reading.delayMs / delayLimitMs, delayFactors);
  const used = reading.descriptors / reading.descriptorLimit;
  // A pause shows in one reading, work that is too much in every one. Descriptors do not come and go by chance.
  const wanted = Math.max(Math.min(byDelay, state.lastByDelay), rungFor(used, descriptorShares));
  if (wanted > state.rung) return { rung: wanted, heat: firstHeat, lastByDelay: byDelay };
  if (state.rung === 0) return { ...calm, lastByDelay: byDelay };
  const kept = Math.max(
    rungFor(reading.delayMs / delayLimitMs / slack, delayFactors),
    rungFor(used / slack, descriptorShares),
  );
  if (kept >= state.rung) {
    const heat = wanted === state.rung ? Math.min(1, state.heat + heating) : state.heat;
    return { rung: state.rung, heat, lastByDelay: byDelay };
  }
  const heat = state.heat - cooling;
  if (heat > 0) return { rung: state.rung, heat, lastByDelay: byDelay };
  const below = state.rung - 1;
  return { rung: below, heat: below === 0 ? 0 : firstHeat, lastByDelay: byDelay };
}

/** The share of requests that are refused. */
export function shedShare({ rung, heat }: Overload): number {
  if (rung < shedRung) return 0;
  return rung === shedRung ? heat : 1;
}

/** New work that would stay for long is the first to be refused. */
export function shedsStays({ rung }: Overload): boolean {
  return rung >= shedRung;
}

export function stopsAccepting({ rung }: Overload): boolean {
  return rung >= stopRung;
}

function rungFor(level: number, steps: readonly number[]): number {
  let rung = 0;
  while (rung + 1 < steps.length && level >= steps[rung + 1]!) rung++;
  return rung;
}
