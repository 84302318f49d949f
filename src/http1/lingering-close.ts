// Closes a connection so that its last words are read: what is queued goes out, our direction ends, and for a while
// whatever still arrives is read and dropped, because a reset would overtake the answer (RFC 9112 §9.6).
// Invariant: the socket is closed in the end, however slowly the peer reads and whatever it goes on sending.
import type { Socket } from 'node:net';
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';

/** How long bytes are dropped after our end, and how long an answer that is cut short may take to leave. */
const lingerMs = 2000;

/** `stallMs`: how long the peer may take nothing of what is queued for it. */
export function closeLingering(socket: Socket, deadlines: Deadlines, stallMs: number): void {
  const closing = new LingeringClose(socket, deadlines, stallMs);
  socket.end(() => closing.written());
}

/** For an answer that ends short of its framing: no more is waited for than that what is queued has left. */
export function closeCutShort(socket: Socket, deadlines: Deadlines): void {
  new LingeringClose(socket, deadlines, 0);
  socket.destroySoon();
}

class LingeringClose implements DeadlineHolder {
  deadlineAt: number;
  readonly #socket: Socket;
  readonly #deadlines: Deadlines;
  readonly #stallMs: number;
  #queued: number;

  constructor(socket: Socket, deadlines: Deadlines, stallMs: number) {
    this.#socket = socket;
    this.#deadlines = deadlines;
    this.#stallMs = stallMs;
    this.#queued = socket.writableLength;
    this.deadlineAt = deadlines.in(stallMs === 0 ? lingerMs : stallMs);
    deadlines.add(this);
    socket.on('close', () => deadlines.remove(this));
    socket.on('data', ignore);
    socket.resume();
  }

  written(): void {
    this.deadlineAt = this.#deadlines.in(lingerMs);
  }

  deadlineReached(): void {
    const { writableLength } = this.#socket;
    if (this.#stallMs === 0 || this.#socket.writableFinished || writableLength === this.#queued) {
      this.#socket.destroy();
      return;
    }
    this.#queued = writableLength;
    this.deadlineAt = this.#deadlines.in(this.#stallMs);
  }
}

const ignore = (): void => {};
