// One backend of a generation in one worker: whether it may be chosen, what it is doing, and its connections.
// Invariant: `inflight` counts every exchange from the moment this backend was chosen for it to its end, tunnels included.
import { BulkReads } from '../base/bulk-reads.ts';
import type { Fault } from '../base/fault.ts';
import type { Cell } from '../base/metrics.ts';
import type { BackendReceiver } from '../message/stream.ts';
import type { Backend, Service } from '../model/snapshot.ts';
import type { Opening, UpstreamDeps } from './ask.ts';
import { BackendTls, sameTls, usesTls } from './backend-tls.ts';
import { type Candidate, hashText, Standing } from './balance.ts';
import { type Attempt, type ConnectListener, Connector } from './connect.ts';
import { H1Dial } from './h1-connection.ts';
import { H2Dial, streamsPerConnection } from './h2-session.ts';
import type { Ledger } from './ledger.ts';
import { PassiveState } from './passive.ts';
import { type Dial, Pool } from './pool.ts';

export interface BackendStats {
  readonly address: string;
  readonly state: 'live' | 'returning' | 'ejected' | 'down';
  /** Exchanges and tunnels in work. */
  readonly inflight: number;
  /** Open connections, idle ones included. */
  readonly connections: number;
  /** Requests that wait for a connection. */
  readonly waiting: number;
  /** Exchanges begun since the generation exists in this worker. */
  readonly total: number;
  /** Connections and exchanges that the backend failed. */
  readonly failures: number;
}

export interface BackendCells {
  readonly connections: Cell;
  readonly connects: Cell;
  readonly idleClosed: Cell;
  readonly failures: Cell;
  readonly ejections: Cell;
}

export class LiveBackend implements Candidate, Ledger {
  readonly address: string;
  readonly addressHash: number;
  readonly #backend: Backend;
  readonly #deps: UpstreamDeps;
  readonly #cells: BackendCells;
  readonly #passive: PassiveState;
  #service: Service;
  /** For requests; null when the backend belongs to a network service. */
  #pool: Pool | null;
  /** For tunnels; null when the backend takes requests or nothing but datagrams. */
  #connector: Connector<BulkReads> | null;
  /** Pools of an earlier protocol or TLS identity, until their last exchange ends. */
  #oldPools: Pool[] = [];
  #down: boolean;
  #retired = false;
  #inWork = 0;
  #total = 0;
  #failures = 0;

  /** `tls`: shared by the backends of the service; null for plaintext. */
  constructor(
    backend: Backend,
    service: Service,
    tls: BackendTls | null,
    down: boolean,
    deps: UpstreamDeps,
    cells: BackendCells,
  ) {
    this.address = backend.address;
    this.addressHash = hashText(backend.address);
    this.#backend = backend;
    this.#service = service;
    this.#deps = deps;
    this.#cells = cells;
    this.#down = down;
    this.#passive = new PassiveState(passiveRules(service));
    this.#pool = carriesRequests(service) ? this.#makePool(tls) : null;
    this.#connector = this.#makeConnector(tls);
  }

  get backend(): Backend {
    return this.#backend;
  }

  /** A backend that does not answer the phone looks busy, too: who waits for a connection counts. */
  get inflight(): number {
    return this.#pool === null ? this.#inWork : this.#inWork + this.#pool.waiting;
  }

  get hasRoom(): boolean {
    return this.#pool === null || this.#pool.hasRoom;
  }

  standing(now: number): Standing {
    if (this.#down) return Standing.out;
    const passive = this.#passive;
    if (passive.whole) return Standing.open;
    if (passive.ejected(now)) return Standing.out;
    return passive.admits(this.inflight) ? Standing.open : Standing.limited;
  }

  open(receiver: BackendReceiver, fresh: boolean): Opening {
    return this.#pool!.open(receiver, fresh);
  }

  /**
   * A connection of its own for one tunnel, whose owner keeps the ledger. It may be half-open.
   * @param preface  goes out first, before TLS begins
   */
  connect(listener: ConnectListener<BulkReads>, preface: Buffer | null): Attempt<BulkReads> {
    return this.#connector!.connect(this.#service.backendLimits.backendConnectTimeoutMs, listener, preface);
  }

  /** `tls`: null keeps the pool and its TLS identity. */
  update(service: Service, down: boolean, replaced: { readonly tls: BackendTls | null } | null): void {
    this.#service = service;
    this.#passive.update(passiveRules(service));
    if (this.#down && !down) this.#passive.returns();
    this.#down = down;
    if (replaced === null) {
      this.#pool?.update(service.backendLimits);
      return;
    }
    this.#connector = this.#makeConnector(replaced.tls);
    this.#pool?.retire();
    this.#oldPools = this.#pools().filter((pool) => !pool.empty);
    this.#pool = carriesRequests(service) ? this.#makePool(replaced.tls) : null;
    if (this.#retired) this.#pool?.retire();
  }

  retire(): void {
    this.#retired = true;
    for (const pool of this.#pools()) pool.retire();
  }

  close(): void {
    this.#retired = true;
    for (const pool of this.#pools()) pool.close();
  }

  stats(): BackendStats {
    let connections = 0;
    let waiting = 0;
    for (const pool of this.#pools()) {
      connections += pool.connections;
      waiting += pool.waiting;
    }
    const { address } = this;
    return {
      address,
      state: this.#state(),
      inflight: this.#inWork,
      connections,
      waiting,
      total: this.#total,
      failures: this.#failures,
    };
  }

  // ---- Ledger ----------------------------------------------------------------------------------------------------

  began(): void {
    this.#inWork++;
    this.#total++;
  }

  succeeded(): void {
    this.#passive.succeeded();
  }

  failed(fault: Fault): void {
    // A shortage of our own, a stream that was turned away unread: nothing is wrong with the backend.
    if (fault.side !== 'upstream') return;
    this.#failures++;
    this.#cells.failures.value++;
    const { clock, deadlines, log, onEjected } = this.#deps;
    const ms = this.#passive.failed(deadlines.now);
    if (ms === 0) return;
    this.#cells.ejections.value++;
    const service = this.#service.name;
    log.warn('backend-ejected', { service, backend: this.address, forMs: ms, fault: fault.code });
    onEjected?.(service, this.address, clock.now() + ms);
  }

  ended(): void {
    this.#inWork--;
  }

  // ---- inside ----------------------------------------------------------------------------------------------------

  #state(): BackendStats['state'] {
    if (this.#down) return 'down';
    if (this.#passive.whole) return 'live';
    return this.#passive.ejected(this.#deps.deadlines.now) ? 'ejected' : 'returning';
  }

  #pools(): Pool[] {
    return this.#pool === null ? this.#oldPools : [...this.#oldPools, this.#pool];
  }

  #makeConnector(tls: BackendTls | null): Connector<BulkReads> | null {
    const { protocol } = this.#service;
    if (protocol !== 'tcp' && protocol !== 'tls') return null;
    return new Connector(this.#backend, tls, true, this.#deps.deadlines, () => new BulkReads());
  }

  #makePool(tls: BackendTls | null): Pool {
    const { protocol, backendLimits } = this.#service;
    const { deadlines, limits } = this.#deps;
    const { address } = this;
    const h2 = protocol === 'h2' || protocol === 'h2c';
    // Only HTTP/1.1 tunnels can use a direction that the backend has closed its side of.
    const connector = new Connector(this.#backend, tls, !h2, deadlines, h2 ? null : () => new BulkReads());
    const cells = this.#cells;
    const dial = h2
      ? (pool: Pool, timeoutMs: number): Dial =>
          new H2Dial(pool, connector, timeoutMs, {
            address,
            scheme: tls === null ? 'http' : 'https',
            deadlines,
            ledger: this,
            limits,
          })
      : (pool: Pool, timeoutMs: number): Dial =>
          new H1Dial(pool, connector, timeoutMs, { address, ledger: this, limits });
    return new Pool({
      address,
      limits: backendLimits,
      exchangesPerConnection: h2 ? streamsPerConnection : 1,
      deadlines,
      dial,
      onDialFailed: (fault) => this.failed(fault),
      onCount: (change) => {
        cells.connections.value += change;
        if (change > 0) cells.connects.value++;
      },
      onIdleClosed: () => {
        cells.idleClosed.value++;
      },
    });
  }
}

/** The TLS that this service's backends are reached by; null: plaintext. */
export function backendTlsOf(service: Service): BackendTls | null {
  return usesTls(service) ? new BackendTls(service) : null;
}

/** True when connections made for `a` may not be used for `b`. */
export function connectsDifferently(a: Service, b: Service): boolean {
  return a.protocol !== b.protocol || !sameTls(a.upstreamTls, b.upstreamTls);
}

/** Else it carries tunnels and flows, which have nothing to pool. */
function carriesRequests({ network }: Service): boolean {
  return network === null;
}

/** A backend that has no brother is never ejected: that would only turn its errors into ours, and outlast them. */
function passiveRules(service: Service): Service['passive'] {
  return service.generation.backends.length > 1 ? service.passive : { failures: 0, ejectMs: 0 };
}
