// What the overload ladder of this worker says to whoever brings new work: take it, or not.
// Invariant: what Turnpike answers itself (fixed answers, redirects, challenges, the gate's own pages) never asks here and
// is never refused; what is refused is counted.
import type { Cell, Metrics } from '../base/metrics.ts';
import { calm, descriptorCeiling, type Overload, shedShare, shedsStays } from '../model/overload.ts';

/** What is refused, the first one first. */
export type ShedKind = 'flow' | 'tunnel' | 'websocket' | 'request';

export class OverloadGuard {
  state: Overload = calm;
  /** Descriptors that accepted connections may take until somebody counts again; Infinity: nobody counts. */
  #room = Number.POSITIVE_INFINITY;
  #debt = 0;
  readonly #recount: () => number;
  readonly #cells: Readonly<Record<ShedKind, Cell>>;

  /** @param recount  the room that there is now, see `reckon` */
  constructor(metrics: Metrics, recount: () => number = () => Number.POSITIVE_INFINITY) {
    this.#recount = recount;
    const family = metrics.counter('overload_shed_total', 'New work refused because the machine was overloaded', [
      'kind',
    ]);
    const cell = (kind: ShedKind): Cell => family.cell(kind);
    this.#cells = {
      flow: cell('flow'),
      tunnel: cell('tunnel'),
      websocket: cell('websocket'),
      request: cell('request'),
    };
  }

  /** Descriptors were counted: so many more may be taken by connections. */
  reckon(room: number): void {
    this.#room = room;
  }

  /** New work is here: is it to be refused? Counts it if so. */
  sheds(kind: ShedKind): boolean {
    if (this.state.rung === 0 || !this.#refuses(kind)) return false;
    this.#cells[kind].value++;
    return true;
  }

  /** A connection is here; there is a descriptor for it and for what it may ask of a backend, or there is not. */
  hasRoom(): boolean {
    if (this.#room < 2) this.#room = this.#recount();
    if (this.#room < 2) return false;
    this.#room -= 2;
    return true;
  }

  #refuses(kind: ShedKind): boolean {
    if (kind !== 'request') return shedsStays(this.state);
    // Evenly spread, without a dice: a share of 0.25 refuses every fourth.
    this.#debt += shedShare(this.state);
    if (this.#debt < 1) return false;
    this.#debt -= 1;
    return true;
  }
}

/** What connections may still take of so many descriptors. */
export function roomFor(descriptors: number, limit: number): number {
  return limit * descriptorCeiling - descriptors;
}
