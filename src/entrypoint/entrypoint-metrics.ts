// What entrypoints count: cells by entrypoint name, looked up when a snapshot is compiled.
// Invariant: a connection that has ended is in exactly one of `accepted`, `errors` and the `refused` cells.
import type { Cell, Family, Metrics } from '../base/metrics.ts';
import type { TlsRefusal } from '../tls/terminator.ts';

/** Why a connection was closed without having been served. */
export type Refusal = (typeof refusals)[number];

export const refusals = [
  /** By `trusted_cidrs`. */
  'source',
  'limit',
  'peer-limit',
  /** The machine has too much to do, or no descriptor left for it. */
  'overload',
  /** The client left before it was clear what it wanted. */
  'gone',
  /** A peer in `proxy_protocol_from` sent no valid PROXY header. */
  'proxy-expected',
  /** A PROXY header from someone else on a smart_tcp entrypoint. */
  'proxy',
  /** By `raw_fallback_trusted_cidrs`. */
  'raw-source',
  /** Neither HTTP nor TLS, and there is no raw fallback. */
  'no-fallback',
  /** Broken HTTP, or a broken ClientHello. */
  'malformed',
  'hello-too-large',
  /** Too slow to show what it speaks. */
  'sniff-timeout',
  /** TLS that was not ended: not TLS at all, an unknown name, no certificate. */
  'tls',
] as const;

/** What a connection turned out to carry. */
export type Spoken = (typeof spokens)[number];

export const spokens = ['http1', 'h2c', 'tls', 'passthrough', 'raw'] as const;

export interface EntrypointCells {
  readonly active: Cell;
  readonly accepted: Cell;
  readonly received: Cell;
  readonly sent: Cell;
  /** Connections that nobody could serve: no backend took them. */
  readonly errors: Cell;
  spoke(what: Spoken): Cell;
  refused(why: Refusal): Cell;
  handshake(result: 'ok' | 'proved' | TlsRefusal): Cell;
}

export interface EntrypointStats {
  readonly name: string;
  /** Why nobody can reach it; null: it listens. */
  readonly problem: string | null;
  /** Open now. */
  readonly connections: number;
  readonly accepted: number;
  readonly refused: number;
  readonly errors: number;
  readonly received: number;
  readonly sent: number;
}

export class EntrypointMetrics {
  readonly #active: Family;
  readonly #accepted: Family;
  readonly #refused: Family;
  readonly #errors: Family;
  readonly #spoken: Family;
  readonly #bytes: Family;
  readonly #handshakes: Family;
  readonly #all: readonly Family[];

  constructor(metrics: Metrics) {
    this.#active = metrics.gauge('entrypoint_connections', 'Client connections that are open.', ['entrypoint']);
    this.#accepted = metrics.counter('entrypoint_accepted_total', 'Client connections that were served.', [
      'entrypoint',
    ]);
    this.#refused = metrics.counter('entrypoint_refused_total', 'Client connections that were refused, by reason.', [
      'entrypoint',
      'reason',
    ]);
    this.#errors = metrics.counter('entrypoint_errors_total', 'Client connections that no backend took.', [
      'entrypoint',
    ]);
    this.#spoken = metrics.counter('entrypoint_protocols_total', 'Client connections by what they carry.', [
      'entrypoint',
      'protocol',
    ]);
    this.#bytes = metrics.counter('entrypoint_bytes_total', 'Bytes of client connections.', [
      'entrypoint',
      'direction',
    ]);
    this.#handshakes = metrics.counter('tls_handshakes_total', 'TLS handshakes by result.', ['entrypoint', 'result']);
    this.#all = [
      this.#active,
      this.#accepted,
      this.#refused,
      this.#errors,
      this.#spoken,
      this.#bytes,
      this.#handshakes,
    ];
  }

  cells(entrypoint: string): EntrypointCells {
    return {
      active: this.#active.cell(entrypoint),
      accepted: this.#accepted.cell(entrypoint),
      received: this.#bytes.cell(entrypoint, 'received'),
      sent: this.#bytes.cell(entrypoint, 'sent'),
      errors: this.#errors.cell(entrypoint),
      spoke: (what) => this.#spoken.cell(entrypoint, what),
      refused: (why) => this.#refused.cell(entrypoint, why),
      handshake: (result) => this.#handshakes.cell(entrypoint, result),
    };
  }

  stats(name: string, { active, accepted, errors, received, sent, refused }: EntrypointCells): EntrypointStats {
    return {
      name,
      problem: null,
      connections: active.value,
      accepted: accepted.value,
      refused: refusals.reduce((sum, why) => sum + refused(why).value, 0),
      errors: errors.value,
      received: received.value,
      sent: sent.value,
    };
  }

  /** The entrypoint left the configuration and its last connection is closed. */
  drop(entrypoint: string): void {
    for (const family of this.#all) family.drop('entrypoint', entrypoint);
  }
}
