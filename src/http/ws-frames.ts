// Where WebSocket frames begin and end in a byte stream (RFC 6455 §5.2), without looking at what they carry. Pure state.
// Invariant: reads headers only; `boundary` is true exactly between frames, where a frame of ours may be put in.

const idleState = 0;
const secondByte = 1;
const lengthBytes = 2;
const payload = 3;

export class FrameTracker {
  #state = idleState;
  /** Header bytes still to come in `lengthBytes` (extended length and mask), payload bytes in `payload`. */
  #left = 0;
  #lengthLeft = 0;
  #length = 0;
  #masked = false;
  #closing = false;
  #isClose = false;

  /** The next byte begins a frame. */
  get boundary(): boolean {
    return this.#state === idleState;
  }

  /** A close frame has passed: nothing may follow it. */
  get closed(): boolean {
    return this.#closing && this.#state === idleState;
  }

  /**
   * Follows `chunk` from `start` on. With `stopAtBoundary` it stops behind the first frame that ends. Returns the offset
   * it came to.
   */
  follow(chunk: Buffer, start: number, stopAtBoundary: boolean): number {
    let at = start;
    const end = chunk.length;
    while (at < end) {
      switch (this.#state) {
        case idleState: {
          this.#isClose = (chunk[at++]! & 0x0f) === 8;
          this.#state = secondByte;
          break;
        }
        case secondByte: {
          const byte = chunk[at++]!;
          const short = byte & 0x7f;
          this.#masked = (byte & 0x80) !== 0;
          this.#lengthLeft = short === 126 ? 2 : short === 127 ? 8 : 0;
          this.#length = this.#lengthLeft === 0 ? short : 0;
          this.#left = this.#lengthLeft + (this.#masked ? 4 : 0);
          if (this.#left > 0) this.#state = lengthBytes;
          else this.#beginPayload();
          break;
        }
        case lengthBytes: {
          if (this.#lengthLeft > 0) {
            // 2^53 and more loses precision, and no such frame ever ends.
            this.#length = this.#length * 256 + chunk[at]!;
            this.#lengthLeft--;
          }
          at++;
          if (--this.#left === 0) this.#beginPayload();
          break;
        }
        default: {
          const step = Math.min(this.#left, end - at);
          at += step;
          this.#left -= step;
          if (this.#left === 0) this.#endFrame();
        }
      }
      if (stopAtBoundary && this.#state === idleState) break;
    }
    return at;
  }

  #beginPayload(): void {
    this.#left = this.#length;
    this.#state = payload;
    if (this.#left === 0) this.#endFrame();
  }

  #endFrame(): void {
    this.#state = idleState;
    if (this.#isClose) this.#closing = true;
  }
}

/** An unmasked close frame, as servers send it (RFC 6455 §5.5.1). */
export function closeFrame(code: number, reason: string): Buffer {
  const text = Buffer.from(reason, 'utf8');
  const frame = Buffer.allocUnsafe(4 + text.length);
  frame[0] = 0x88;
  frame[1] = 2 + text.length;
  frame.writeUInt16BE(code, 2);
  text.copy(frame, 4);
  return frame;
}
