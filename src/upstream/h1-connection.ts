// One HTTP/1.1 connection to a backend as its pool sees it.
// Invariant: it has room exactly while the engine calls the connection idle and nobody retired it.
import type { Socket } from 'node:net';
import type { BulkReads } from '../base/bulk-reads.ts';
import type { Fault } from '../base/fault.ts';
import { ClientConnection } from '../http1/client-connection.ts';
import { FieldId } from '../message/field-id.ts';
import type { BackendReceiver, BackendStream } from '../message/stream.ts';
import type { AnswerLimits } from './ask.ts';
import type { Attempt, ConnectListener, Connector } from './connect.ts';
import { idleLimit } from './keep-alive.ts';
import type { Ledger } from './ledger.ts';
import { type Dial, type Pool, PooledConnection } from './pool.ts';

export interface H1Options {
  readonly address: string;
  readonly ledger: Ledger;
  readonly limits: () => AnswerLimits;
}

export class H1Dial implements Dial, ConnectListener<BulkReads> {
  readonly #pool: Pool;
  readonly #options: H1Options;
  readonly #attempt: Attempt<BulkReads>;

  constructor(pool: Pool, connector: Connector<BulkReads>, timeoutMs: number, options: H1Options) {
    this.#pool = pool;
    this.#options = options;
    this.#attempt = connector.connect(timeoutMs, this);
  }

  connected(socket: Socket, reads: BulkReads | null): void {
    this.#pool.dialled(this, new H1Connection(socket, reads, this.#pool, this.#options));
  }

  connectFailed(fault: Fault): void {
    this.#pool.dialFailed(this, fault);
  }

  destroy(): void {
    this.#attempt.destroy();
  }
}

export class H1Connection extends PooledConnection {
  readonly #connection: ClientConnection;
  readonly #pool: Pool;
  readonly #ledger: Ledger;
  #keepAlive: string | null = null;
  #inWork = 0;
  #retired = false;

  constructor(socket: Socket, reads: BulkReads | null, pool: Pool, options: H1Options) {
    super();
    this.#pool = pool;
    this.#ledger = options.ledger;
    this.#connection = new ClientConnection(socket, {
      address: options.address,
      reads,
      limits: options.limits,
      onAnswer: (_connection, head) => {
        this.#ledger.succeeded();
        this.#hear(head.fields.get(FieldId.KeepAlive));
      },
      onFailed: (connection, fault) => {
        // A kept connection that the backend closed just then: nothing new about the backend.
        if (fault.code === 'upstream-reset' && connection.served > 1) return;
        this.#ledger.failed(fault);
      },
      onIdle: () => this.#ended(),
      onClose: () => {
        this.#retired = true;
        if (this.#inWork > 0) this.#ended();
        this.#pool.closed(this);
      },
    });
  }

  get room(): number {
    return this.#connection.idle && !this.#retired ? 1 : 0;
  }

  get inWork(): number {
    return this.#inWork;
  }

  open(receiver: BackendReceiver): BackendStream {
    this.#inWork = 1;
    this.#ledger.began();
    return this.#connection.open(receiver);
  }

  retire(): void {
    this.#retired = true;
    if (this.#inWork === 0) this.#connection.destroy();
  }

  destroy(): void {
    this.#retired = true;
    this.#connection.destroy();
  }

  /** Backends say the same on every answer: it is read once. */
  #hear(keepAlive: string | null): void {
    if (keepAlive === this.#keepAlive) return;
    this.#keepAlive = keepAlive;
    this.idleMs = keepAlive === null ? Number.POSITIVE_INFINITY : idleLimit(keepAlive);
  }

  #ended(): void {
    this.#inWork = 0;
    this.#ledger.ended();
    if (this.#retired) this.#connection.destroy();
    else this.#pool.freed(this);
  }
}
