// Closes a connection so that its last words are read: what is queued goes out, our direction ends, and for a while
// whatever still arrives is read and dropped, because a reset would overtake the answer (RFC 9112 §9.6).
// Invariant: the socket is closed in the end, however slowly the peer reads and whatever it goes on sending.
import type { Socket } from 'node:net';
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';

/** How long bytes are dropped after our end; also how long a client may stall the rest of an answer that is cut short. */
const lingerMs = 2000;

/** `stallMs`: how long the peer may take nothing of what is queued for it. */
export function closeLingering(socket: Socket, deadlines: Deadlines, stallMs: number): void {
  const closing = new LingeringClose(socket, deadlines, stallMs);
  socket.end(() => closing.written());
}

/** For an answer that ends short of its framing: the socket closes as soon as what is queued has left. */
export function closeCutShort(socket: Socket, deadlines: Deadlines): void {
  new LingeringClose(socket, deadlines, lingerMs);
  socket.destroySoon();
}

class LingeringClose implements DeadlineHolder {
  deadlineAt: number;
  deadlinePlace = -1;
  readonly #socket: Socket;
  readonly #deadlines: Deadlines;
  readonly #stallMs: number;
  #queued: number;

  constructor(socket: Socket, deadlines: Deadlines, stallMs: number) {
    this.#socket = socket;
    this.#deadlines = deadlines;
    this.#stallMs = stallMs;
    this.#queued = socket.writableLength;
    this.deadlineAt = deadlines.in(stallMs);
    deadlines.add(this);
    socket.on('close', () => deadlines.remove(this));
    // Without a listener for it data is dropped.
    socket.resume();
  }

  written(): void {
    this.#queued = 0;
    this.deadlineAt = this.#deadlines.in(lingerMs);
  }

  deadlineReached(): void {
    const { writableLength } = this.#socket;
    if (writableLength === this.#queued) {
      this.#socket.destroy();
      return;
    }
    this.#queued = writableLength;
    this.deadlineAt = this.#deadlines.in(this.#stallMs);
  }
}
