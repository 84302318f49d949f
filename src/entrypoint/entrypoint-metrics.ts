// What entrypoints count: cells by entrypoint name, looked up when a snapshot is compiled.
// Invariant: a connection that was accepted by the kernel is either in `accepted` or in one `refused` cell.
import type { Cell, Family, Metrics } from '../base/metrics.ts';
import type { TlsRefusal } from '../tls/terminator.ts';

/** Why a connection was closed before anything was read from it. */
export type Refusal = 'source' | 'limit' | 'peer-limit' | 'gone';

export interface EntrypointCells {
  readonly active: Cell;
  readonly accepted: Cell;
  readonly received: Cell;
  readonly sent: Cell;
  refused(why: Refusal): Cell;
  handshake(result: 'ok' | TlsRefusal): Cell;
}

export interface EntrypointStats {
  readonly name: string;
  /** Open now. */
  readonly connections: number;
  readonly accepted: number;
  /** By source policy or by a connection limit. */
  readonly refused: number;
  /** Bytes of connections that have ended. */
  readonly received: number;
  readonly sent: number;
}

const refusals: readonly Refusal[] = ['source', 'limit', 'peer-limit', 'gone'];

export class EntrypointMetrics {
  readonly #active: Family;
  readonly #accepted: Family;
  readonly #refused: Family;
  readonly #bytes: Family;
  readonly #handshakes: Family;

  constructor(metrics: Metrics) {
    this.#active = metrics.gauge('entrypoint_connections', 'Client connections that are open.', ['entrypoint']);
    this.#accepted = metrics.counter('entrypoint_accepted_total', 'Client connections that were taken.', [
      'entrypoint',
    ]);
    this.#refused = metrics.counter('entrypoint_refused_total', 'Client connections closed at once, by reason.', [
      'entrypoint',
      'reason',
    ]);
    this.#bytes = metrics.counter('entrypoint_bytes_total', 'Bytes of client connections that have ended.', [
      'entrypoint',
      'direction',
    ]);
    this.#handshakes = metrics.counter('tls_handshakes_total', 'TLS handshakes by result.', ['entrypoint', 'result']);
  }

  cells(entrypoint: string): EntrypointCells {
    return {
      active: this.#active.cell(entrypoint),
      accepted: this.#accepted.cell(entrypoint),
      received: this.#bytes.cell(entrypoint, 'received'),
      sent: this.#bytes.cell(entrypoint, 'sent'),
      refused: (why) => this.#refused.cell(entrypoint, why),
      handshake: (result) => this.#handshakes.cell(entrypoint, result),
    };
  }

  stats(name: string, { active, accepted, received, sent, refused }: EntrypointCells): EntrypointStats {
    return {
      name,
      connections: active.value,
      accepted: accepted.value,
      refused: refusals.reduce((sum, why) => sum + refused(why).value, 0),
      received: received.value,
      sent: sent.value,
    };
  }

  /** The entrypoint left the configuration and its last connection is closed. */
  drop(entrypoint: string): void {
    for (const family of [this.#active, this.#accepted, this.#refused, this.#bytes, this.#handshakes]) {
      family.drop('entrypoint', entrypoint);
    }
  }
}
