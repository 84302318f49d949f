// Reads of a plaintext socket that may carry bulk: little ones into one buffer of the process and copied out, full ones into
// a larger buffer of the socket's own, which is handed on as it is and used again. Who holds what it was given (a slow
// client, a socket of TLS) gets copies of the right size: large buffers that pile up behind it would be what it costs.
// Invariant: a chunk is never written to while its taker holds it; a socket that waits for bytes, or is stalled, has no buffer
// of its own.
import type { OnReadOpts } from 'node:net';

/** As much as libuv reads at a time anyway. */
const shared = Buffer.allocUnsafeSlow(64 * 1024);
/** Halves the calls for a byte once more; still larger ones gained nothing. */
const ownSize = 128 * 1024;
/** One that is free, for the next socket that needs one: bulk that comes in gusts gives and takes it all the time. */
let spare: Buffer | null = null;

function takeOwn(): Buffer {
  const own = spare ?? Buffer.allocUnsafeSlow(ownSize);
  spare = null;
  return own;
}

export interface ChunkTaker {
  /** False pauses the socket. */
  take(chunk: Buffer): boolean;
  /** The chunk that was taken last is not done with. */
  readonly holdsChunk: boolean;
}

const nobody: ChunkTaker = { take: () => false, holdsChunk: false };

/** Where a socket's bytes go; `onread` belongs into the options of `new net.Socket`. */
export class BulkReads {
  taker: ChunkTaker = nobody;
  /** Node asks for the next buffer after each read, whatever came of it. */
  readonly onread: OnReadOpts = { buffer: () => this.#next, callback: (length) => this.#read(length) };
  #next: Buffer = shared;

  /** It has a buffer of its own for the next read. */
  get holdsBuffer(): boolean {
    return this.#next !== shared;
  }

  #read(length: number): boolean {
    const { taker } = this;
    const from = this.#next;
    // A read that does not fill its buffer took everything that there was.
    const isFull = length === from.length;
    if (from === shared) {
      const chunk = Buffer.allocUnsafe(length);
      shared.copy(chunk, 0, 0, length);
      const more = taker.take(chunk);
      if (more && isFull && !taker.holdsChunk) this.#next = takeOwn();
      return more;
    }
    const more = taker.take(from.subarray(0, length));
    const isFree = !taker.holdsChunk;
    if (!more || !isFull || !isFree) {
      this.#next = shared;
      if (isFree) spare = from;
    }
    return more;
  }
}
