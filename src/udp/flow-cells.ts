// What the flows of an entrypoint count, looked up when a snapshot is compiled.
// Invariant: a datagram from a client is in `datagramsIn` and goes on, or is in one `dropped` or `sourceRefused` cell.
import type { Cell, Family, Metrics } from '../base/metrics.ts';
import type { Reason } from '../model/reason.ts';

/** Why a datagram went no further. */
export type Drop =
  /** No router leads anywhere from here. */
  | 'no-router'
  | 'stopped'
  | 'no-live-backend'
  /** More datagrams, or more flows, wait for a hold to end than may. */
  | 'hold-full'
  /** Kept for a hold, or for a backend's address, until the flow was given up. */
  | 'given-up'
  /** The kernel has no socket left for us. */
  | 'no-socket'
  /** The network takes datagrams more slowly than they come. */
  | 'queue-full'
  /** The entrypoint takes no new flows any more. */
  | 'draining'
  /** The machine has too much to do for another flow. */
  | 'overload';

export const drops: readonly Drop[] = [
  'no-router',
  'stopped',
  'no-live-backend',
  'hold-full',
  'given-up',
  'no-socket',
  'queue-full',
  'draining',
  'overload',
];

/** Why a flow ended. */
export type FlowEnd = Extract<
  Reason,
  | 'idle'
  | 'evicted'
  | 'drained'
  | 'not-admitted'
  | 'upstream-failed'
  | 'no-live-backend'
  | 'hold-timeout'
  | 'hold-full'
  | 'stopped'
>;

/** Cells that every entrypoint has, whatever its protocol. */
export interface SharedCells {
  /** Flows that exist. */
  readonly active: Cell;
  /** Flows ever begun. */
  readonly accepted: Cell;
  /** Bytes from clients. */
  readonly received: Cell;
  /** Bytes to clients. */
  readonly sent: Cell;
  /** Datagrams whose sender may not use the entrypoint. */
  readonly sourceRefused: Cell;
}

export interface FlowCells extends SharedCells {
  readonly datagramsIn: Cell;
  readonly datagramsOut: Cell;
  /** Datagrams that a backend's machine sent back as undeliverable (ICMP), as far as the kernel tells. */
  readonly refused: Cell;
  /** Any other failure of a socket. */
  readonly errors: Cell;
  dropped(why: Drop): Cell;
  ended(why: FlowEnd): Cell;
}

export class FlowMetrics {
  readonly #datagrams: Family;
  readonly #dropped: Family;
  readonly #refused: Family;
  readonly #errors: Family;
  readonly #ended: Family;

  constructor(metrics: Metrics) {
    const labels = ['entrypoint'];
    this.#datagrams = metrics.counter('udp_datagrams_total', 'Datagrams from (in) and to (out) clients.', [
      'entrypoint',
      'direction',
    ]);
    this.#dropped = metrics.counter('udp_dropped_total', 'Datagrams that went no further, by reason.', [
      'entrypoint',
      'reason',
    ]);
    this.#refused = metrics.counter('udp_refused_total', 'Datagrams that backends refused (ICMP).', labels);
    this.#errors = metrics.counter('udp_errors_total', 'Other failures of UDP sockets.', labels);
    this.#ended = metrics.counter('udp_flows_ended_total', 'UDP flows that ended, by reason.', [
      'entrypoint',
      'reason',
    ]);
  }

  cells(entrypoint: string, shared: SharedCells): FlowCells {
    return {
      ...shared,
      datagramsIn: this.#datagrams.cell(entrypoint, 'in'),
      datagramsOut: this.#datagrams.cell(entrypoint, 'out'),
      refused: this.#refused.cell(entrypoint),
      errors: this.#errors.cell(entrypoint),
      dropped: (why) => this.#dropped.cell(entrypoint, why),
      ended: (why) => this.#ended.cell(entrypoint, why),
    };
  }

  /** The entrypoint left the configuration and its last flow is gone. */
  drop(entrypoint: string): void {
    for (const family of [this.#datagrams, this.#dropped, this.#refused, this.#errors, this.#ended]) {
      family.drop('entrypoint', entrypoint);
    }
  }
}
