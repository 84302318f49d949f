// Reads of a plaintext socket without the stream machinery: into one buffer per process, copied out in the same turn.
// Invariant: the shared buffer never leaves this file, so a chunk that was handed on is never written to again.
import type { OnReadOpts } from 'node:net';

/** As much as libuv reads at a time anyway. */
const shared = Buffer.allocUnsafeSlow(64 * 1024);

/** Where a socket's bytes go; `onread` belongs into the options of `new net.Socket`. */
export class DirectReads {
  /** Gets every chunk; false pauses the socket. */
  taker: (chunk: Buffer) => boolean = () => false;
  readonly onread: OnReadOpts = { buffer: shared, callback: (length) => this.#read(length) };

  #read(length: number): boolean {
    const chunk = Buffer.allocUnsafe(length);
    shared.copy(chunk, 0, 0, length);
    return this.taker(chunk);
  }
}
