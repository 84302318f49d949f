// Bytes in both directions between two sockets, under back-pressure.
// Invariant: every byte passes once and in order; an end passes on as the end of that direction, after its last byte; a
// side that breaks off before its end makes the other one see a reset, never an end.
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { BulkReads, ChunkTaker } from '../base/bulk-reads.ts';

export type Side = 'client' | 'backend';

export interface PipeOwner {
  /** Bytes were taken from this side; 0: bytes that waited were taken by the other one. */
  moved(from: Side, bytes: number): void;
  /** This side broke off; `null`: without an error of its own (it was destroyed here). */
  broke(side: Side, error: Error | null): void;
  /** Both sockets are closed. Called once. */
  pipeClosed(): void;
}

export class BytePipe {
  readonly #owner: PipeOwner;
  readonly #fromClient: Direction;
  readonly #fromBackend: Direction;
  #open = 2;

  /**
   * Takes two sockets that are half-open and do not flow. They close when both directions have ended.
   * @param reads  where the backend's bytes come from instead of its stream; null: from the stream
   */
  constructor(client: Socket, backend: Socket, reads: BulkReads | null, owner: PipeOwner) {
    this.#owner = owner;
    this.#fromClient = new Direction('client', client, backend, null, this, owner);
    this.#fromBackend = new Direction('backend', backend, client, reads, this, owner);
  }

  /** @param early  bytes of the client that come before all others */
  start(early: Buffer | null): void {
    if (early !== null) this.#fromClient.pass(early);
    this.#fromClient.start();
    this.#fromBackend.start();
  }

  /** Ends both sides at once, visibly so. */
  reset(): void {
    resetSocket(this.#fromClient.from);
    resetSocket(this.#fromBackend.from);
  }

  closed(): void {
    if (--this.#open === 0) this.#owner.pipeClosed();
  }
}

/** What comes from one socket and goes to the other. Listeners are fields, so that they can be taken off again. */
class Direction implements ChunkTaker {
  readonly from: Socket;
  readonly #to: Socket;
  readonly #side: Side;
  readonly #reads: BulkReads | null;
  readonly #pipe: BytePipe;
  readonly #owner: PipeOwner;
  #error: Error | null = null;

  constructor(side: Side, from: Socket, to: Socket, reads: BulkReads | null, pipe: BytePipe, owner: PipeOwner) {
    this.from = from;
    this.#to = to;
    this.#side = side;
    this.#reads = reads;
    this.#pipe = pipe;
    this.#owner = owner;
  }

  start(): void {
    const { from } = this;
    // While the other side was being connected it may have ended, or broken off.
    if (from.destroyed) {
      this.#error = from.errored;
      this.#onClose();
      return;
    }
    from.on('error', this.#onError);
    from.on('close', this.#onClose);
    if (from.readableEnded) {
      this.#onEnd();
      return;
    }
    from.on('end', this.#onEnd);
    if (this.#reads === null) from.on('data', this.#onData);
    else this.#reads.taker = this;
    this.#to.on('drain', this.#onDrain);
    if (this.#to.writableNeedDrain) from.pause();
    else from.resume();
  }

  pass(chunk: Buffer): void {
    if (!this.take(chunk)) this.from.pause();
  }

  take(chunk: Buffer): boolean {
    // Nobody takes it any more. It is read all the same: see `#onClose`.
    if (this.#to.destroyed) return true;
    this.#owner.moved(this.#side, chunk.length);
    return this.#to.write(chunk);
  }

  /** A write that the kernel took at once is done with its bytes. */
  get holdsChunk(): boolean {
    return this.#to.writableLength > 0;
  }

  readonly #onData = (chunk: Buffer): void => this.pass(chunk);

  readonly #onDrain = (): void => {
    this.#owner.moved(this.#side, 0);
    this.from.resume();
  };

  readonly #onEnd = (): void => {
    if (!this.#to.destroyed) this.#to.end();
  };

  readonly #onError = (error: Error): void => {
    this.#error = error;
  };

  readonly #onClose = (): void => {
    const { from } = this;
    const to = this.#to;
    const whole = from.readableEnded && this.#error === null;
    if (!whole) this.#owner.broke(this.#side, this.#error);
    if (!from.readableEnded) resetSocket(to);
    // What a side said before its end stays said, although the way back to it is broken. The other one is read on, into
    // nothing: closing it with unread bytes would make the kernel throw away what it still has to send.
    else if (!whole && !to.destroyed) to.resume();
    this.#pipe.closed();
  };
}

/** Ends a connection so that its peer cannot take it for a proper end. TLS has no reset of its own, and no close_notify then. */
export function resetSocket(socket: Socket): void {
  if (socket.destroyed) return;
  if (socket instanceof TLSSocket) socket.destroy();
  else socket.resetAndDestroy();
}
