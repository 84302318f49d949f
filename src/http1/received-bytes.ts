// What a client connection has received and not yet consumed: the rest of a read, a body that is held back, requests that
// wait behind the one in work.
// Invariant: bounded; the socket is paused while too much is held, and read again when all of it is consumed.
import type { Socket } from 'node:net';

/** Beyond one read. */
const holdSize = 16 * 1024;
/** Requests that may wait behind the one in work. */
const queueLength = 16;

export class ReceivedBytes {
  /** The unconsumed bytes are `chunk[at…]`; null when there are none. */
  chunk: Buffer | null = null;
  at = 0;
  readonly #socket: Socket;
  #paused = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Begins to read, unless what came before is too much already. */
  start(): void {
    if (!this.#paused) this.#socket.resume();
  }

  add(chunk: Buffer): void {
    this.chunk = this.chunk === null ? chunk : Buffer.concat([this.chunk.subarray(this.at), chunk]);
    this.at = 0;
  }

  /** Everything before `at` is used up. */
  consume(at: number): void {
    this.at = at;
    if (this.chunk !== null && at === this.chunk.length) this.chunk = null;
  }

  take(): Buffer | null {
    const rest = this.chunk === null ? null : this.chunk.subarray(this.at);
    this.chunk = null;
    return rest;
  }

  /** Pauses or resumes the socket. `queued`: what is held are requests that wait. */
  regulate(queued: boolean): void {
    const held = this.chunk === null ? 0 : this.chunk.length - this.at;
    if (this.#paused) {
      if (held > 0) return;
      this.#paused = false;
      this.#socket.resume();
    } else if (held > holdSize || (queued && held > 0 && this.#queueIsFull(this.chunk!))) {
      this.#paused = true;
      this.#socket.pause();
    }
  }

  /** Blank lines stand for requests. A body may hold some as well, which only makes the queue full earlier. */
  #queueIsFull(chunk: Buffer): boolean {
    let at = this.at;
    for (let count = 0; count < queueLength; count++) {
      at = chunk.indexOf('\r\n\r\n', at) + 4;
      if (at < 4) return false;
    }
    return true;
  }
}
