// The connections to one backend: the idle ones, the ones that can take more, and the asks that wait for one.
// Invariant: open and opening connections together never exceed the backend's limit; an ask waits only while no
// connection can take it, and every ask that waits is answered: by a connection, by a fault, or by its own cancelling.
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';
import { Fault } from '../base/fault.ts';
import type { BackendReceiver, BackendStream } from '../message/stream.ts';
import type { BackendLimits } from '../model/snapshot.ts';
import { answered, type Opening } from './ask.ts';

/** A connection in a pool: HTTP/1.1 takes one exchange at a time, HTTP/2 many. */
export abstract class PooledConnection {
  /** The pool's own: it stands in the list of connections with room. */
  listed = false;
  /** The pool's own: since when nothing is in work; 0 while something is. */
  idleSince = 0;
  /** The connection's own bound for being idle, beside the configured one. */
  idleMs = Number.POSITIVE_INFINITY;
  /** Exchanges it can take beside those in work; 0 for ever once it must not be used. */
  abstract readonly room: number;
  /** Exchanges in work. */
  abstract readonly inWork: number;
  /** Takes one; only called while there is room. */
  abstract open(receiver: BackendReceiver): BackendStream;
  /** Ends as soon as nothing is in work. */
  abstract retire(): void;
  abstract destroy(): void;
}

/** A connection on its way; ends in `pool.dialled` or `pool.dialFailed` unless destroyed. */
export interface Dial {
  destroy(): void;
}

export interface PoolOptions {
  readonly address: string;
  readonly limits: BackendLimits;
  /** Exchanges that one new connection is expected to take, until the first one tells. */
  readonly exchangesPerConnection: number;
  readonly deadlines: Deadlines;
  /** Begins a connection. Must not report before it returns. */
  dial(pool: Pool, timeoutMs: number): Dial;
  /** Connecting failed. */
  onDialFailed(fault: Fault): void;
  /** One connection more or fewer is open. */
  onCount(change: 1 | -1): void;
  /** One is closed, because it was idle for too long. */
  onIdleClosed(): void;
}

/** Asks that may wait for one backend. Beyond it waiting has no prospect. */
const waitingMax = 1024;

export class Pool implements DeadlineHolder {
  deadlineAt = 0;
  deadlinePlace = -1;
  readonly #options: PoolOptions;
  #limits: BackendLimits;
  /** Connections with room, the latest last: reuse is LIFO, so that the surplus grows old and is closed. */
  readonly #ready: PooledConnection[] = [];
  readonly #connections = new Set<PooledConnection>();
  readonly #dials = new Set<Dial>();
  readonly #waiting = new Set<Waiting>();
  /** Exchanges that the latest connection could take. */
  #roomOfOne: number;
  #retired = false;
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#roomOfOne = options.exchangesPerConnection;
    this.#limits = options.limits;
    options.deadlines.add(this);
  }

  get address(): string {
    return this.#options.address;
  }

  /** Open connections, idle ones included. */
  get connections(): number {
    return this.#connections.size;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Nothing is open, opening or waiting. */
  get empty(): boolean {
    return this.#connections.size === 0 && this.#dials.size === 0 && this.#waiting.size === 0;
  }

  /** One more exchange would not have to wait for another one to end. */
  get hasRoom(): boolean {
    return this.#ready.length > 0 || this.#connections.size + this.#dials.size < this.#limits.backendConnections;
  }

  update(limits: BackendLimits): void {
    this.#limits = limits;
  }

  /** `fresh`: on a connection that has served nothing yet. */
  open(receiver: BackendReceiver, fresh: boolean): Opening {
    if (!fresh && this.#waiting.size === 0) {
      const connection = this.#latestReady();
      if (connection !== null) {
        this.#begin(connection, receiver);
        return answered;
      }
    }
    const { address, deadlines } = this.#options;
    if (this.#closed) {
      receiver.responseFailed(new Fault('drained', `${address}: closed`));
      return answered;
    }
    if (this.#waiting.size >= waitingMax) {
      receiver.responseFailed(new Fault('over-capacity', `${address}: ${this.#waiting.size} requests wait`));
      return answered;
    }
    const waiting = new Waiting(this, receiver, fresh, deadlines.in(this.#limits.backendConnectTimeoutMs));
    this.#waiting.add(waiting);
    deadlines.add(waiting);
    if (fresh) this.#makeRoom();
    this.#grow();
    return waiting;
  }

  // ---- called by connections and dials ---------------------------------------------------------------------------

  /** A new connection is ready. */
  dialled(dial: Dial, connection: PooledConnection): void {
    this.#dials.delete(dial);
    if (this.#closed) {
      connection.destroy();
      return;
    }
    this.#connections.add(connection);
    this.#options.onCount(1);
    this.#roomOfOne = Math.max(1, connection.room);
    this.#serve(connection, true);
    this.#settle(connection);
    this.#grow();
  }

  /** Fails as many asks as the connection would have served, the oldest first: they have waited for it the longest. */
  dialFailed(dial: Dial, fault: Fault): void {
    this.#dials.delete(dial);
    this.#options.onDialFailed(fault);
    // A copy: who is failed may ask again at once, and then deserves a connection of its own.
    const oldest = [...this.#waiting].slice(0, this.#roomOfOne);
    for (const waiting of oldest) if (this.#waiting.has(waiting)) this.#fail(waiting, fault);
    this.#grow();
  }

  /** An exchange ended, or the backend allows more of them. */
  freed(connection: PooledConnection): void {
    if (!this.#connections.has(connection)) return;
    if (this.#waiting.size > 0) this.#serve(connection, false);
    this.#settle(connection);
  }

  /** It is gone. */
  closed(connection: PooledConnection): void {
    if (!this.#connections.delete(connection)) return;
    this.#unlist(connection);
    this.#options.onCount(-1);
    this.#grow();
  }

  // ---- called by asks that wait ----------------------------------------------------------------------------------

  cancel(waiting: Waiting): void {
    // A connection that was begun for it is left to arrive: the next ask will be glad of it.
    if (this.#waiting.delete(waiting)) this.#options.deadlines.remove(waiting);
  }

  waitedTooLong(waiting: Waiting): void {
    const { address } = this.#options;
    const ms = this.#limits.backendConnectTimeoutMs;
    const fault =
      this.#dials.size > 0
        ? new Fault('upstream-connect-timeout', `${address}: not connected after ${ms} ms`)
        : new Fault('over-capacity', `${address}: all ${this.#connections.size} connections busy for ${ms} ms`);
    this.#fail(waiting, fault);
  }

  // ---- life ------------------------------------------------------------------------------------------------------

  /** Keeps nothing idle from now on. Asks of exchanges that are still claimed are served as before. */
  retire(): void {
    this.#retired = true;
    for (const connection of [...this.#connections]) {
      if (connection.inWork === 0) connection.retire();
    }
  }

  close(): void {
    this.#retired = true;
    this.#closed = true;
    this.#options.deadlines.remove(this);
    for (const waiting of [...this.#waiting]) {
      this.#fail(waiting, new Fault('drained', `${this.#options.address}: closed`));
    }
    for (const dial of this.#dials) dial.destroy();
    this.#dials.clear();
    for (const connection of [...this.#connections]) connection.destroy();
  }

  /** Closes what was idle for too long, and comes back for the rest. */
  deadlineReached(): void {
    const { now } = this.#options.deadlines;
    let next = 0;
    for (const connection of [...this.#ready]) {
      if (connection.idleSince === 0) continue;
      const until = this.#idleUntil(connection);
      if (until <= now) {
        this.#unlist(connection);
        this.#options.onIdleClosed();
        connection.retire();
      } else if (next === 0 || until < next) next = until;
    }
    this.deadlineAt = next;
  }

  // ---- inside ----------------------------------------------------------------------------------------------------

  #latestReady(): PooledConnection | null {
    const ready = this.#ready;
    while (ready.length > 0) {
      const connection = ready[ready.length - 1]!;
      if (connection.room > 0) return connection;
      ready.pop();
      connection.listed = false;
    }
    return null;
  }

  #begin(connection: PooledConnection, receiver: BackendReceiver): void {
    if (connection.listed && connection.room === 1) this.#unlist(connection);
    connection.idleSince = 0;
    receiver.backendReady(connection.open(receiver));
  }

  /** Gives the connection to asks that wait, first come first served. */
  #serve(connection: PooledConnection, fresh: boolean): void {
    for (const waiting of this.#waiting) {
      if (connection.room <= 0) return;
      if (waiting.fresh && !fresh) continue;
      this.cancel(waiting);
      this.#begin(connection, waiting.receiver);
    }
  }

  /** Puts the connection where it belongs after something about it changed. */
  #settle(connection: PooledConnection): void {
    const { deadlines } = this.#options;
    if (connection.inWork === 0) {
      if (this.#retired) {
        this.#unlist(connection);
        connection.retire();
        return;
      }
      connection.idleSince = deadlines.now;
      const until = this.#idleUntil(connection);
      if (this.deadlineAt === 0 || until < this.deadlineAt) this.deadlineAt = until;
    }
    if (connection.room > 0 && !connection.listed) {
      connection.listed = true;
      this.#ready.push(connection);
    }
  }

  #idleUntil(connection: PooledConnection): number {
    return connection.idleSince + Math.min(this.#limits.backendKeepAliveTimeoutMs, connection.idleMs);
  }

  #unlist(connection: PooledConnection): void {
    if (!connection.listed) return;
    connection.listed = false;
    const ready = this.#ready;
    if (ready[ready.length - 1] === connection) ready.pop();
    else ready.splice(ready.indexOf(connection), 1);
  }

  /** Begins the connections that the waiting asks need, as far as the limit allows. */
  #grow(): void {
    if (this.#closed) return;
    const { backendConnections, backendConnectTimeoutMs } = this.#limits;
    while (
      this.#dials.size * this.#roomOfOne < this.#waiting.size &&
      this.#dials.size + this.#connections.size < backendConnections
    ) {
      this.#dials.add(this.#options.dial(this, backendConnectTimeoutMs));
    }
  }

  /** Gives up the longest idle connection when the limit leaves no other way to a fresh one. */
  #makeRoom(): void {
    if (this.#dials.size + this.#connections.size < this.#limits.backendConnections) return;
    for (const connection of this.#ready) {
      if (connection.inWork > 0) continue;
      this.#unlist(connection);
      connection.retire();
      return;
    }
  }

  #fail(waiting: Waiting, fault: Fault): void {
    this.cancel(waiting);
    waiting.receiver.responseFailed(fault);
  }
}

/** An ask that waits for a connection. */
class Waiting implements Opening, DeadlineHolder {
  deadlineAt: number;
  deadlinePlace = -1;
  readonly receiver: BackendReceiver;
  readonly fresh: boolean;
  readonly #pool: Pool;

  constructor(pool: Pool, receiver: BackendReceiver, fresh: boolean, deadlineAt: number) {
    this.#pool = pool;
    this.receiver = receiver;
    this.fresh = fresh;
    this.deadlineAt = deadlineAt;
  }

  get address(): string {
    return this.#pool.address;
  }

  cancel(): void {
    this.#pool.cancel(this);
  }

  deadlineReached(): void {
    this.#pool.waitedTooLong(this);
  }
}
