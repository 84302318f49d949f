// Finds the head at the front of a byte stream, whole or in pieces.
// Invariant: every byte is looked at once, however the head drips in; a stray CR, LF or NUL and an oversized first line or
// head are found at the byte that shows them, not when the peer pleases to end the head.
import { code } from './characters.ts';

export type HeadProgress = 'more' | 'complete' | 'bad line end' | 'line too long' | 'head too large';

/** A head that arrives in one piece within this size is found by one string search. */
const wholeHeadSize = 4096;

/** One reader serves a connection; a head in pieces gets a buffer for as long as it lasts. */
export class HeadReader {
  /** With `complete`: latin-1 text in which the head's lines stand at `[start, end)`, the blank line after them. */
  text = '';
  start = 0;
  end = 0;
  /** Index just after the bytes that the last `read` took. */
  offset = 0;
  #pieces: HeadPieces | null = null;

  /** A head has begun and is not complete. */
  get partial(): boolean {
    return this.#pieces !== null;
  }

  /** Reads on at `chunk[at…]`. `maxFirstLine` counts the first line without its LF, `maxSize` the whole head. */
  read(chunk: Buffer, at: number, maxFirstLine: number, maxSize: number): HeadProgress {
    if (this.#pieces === null) {
      const text = chunk.toString('latin1', at, Math.min(chunk.length, at + wholeHeadSize));
      // One empty line before a head is tolerated (RFC 9112 §2.2).
      const start = text.charCodeAt(0) === code.cr && text.charCodeAt(1) === code.lf ? 2 : 0;
      const blank = text.indexOf('\r\n\r\n', start);
      if (blank >= 0) {
        this.#found(text, start, blank + 2);
        this.offset = at + blank + 4;
        return 'complete';
      }
      this.#pieces = new HeadPieces();
    }
    const pieces = this.#pieces;
    // Two bytes more for the tolerated empty line.
    const progress = pieces.add(chunk, at, maxFirstLine, maxSize + 2);
    this.offset = pieces.offset;
    if (progress === 'complete') {
      const { text } = pieces;
      this.#found(text, text.charCodeAt(0) === code.cr ? 2 : 0, text.length - 2);
      this.#pieces = null;
    }
    return progress;
  }

  /** Lets go of the head, so that an idle connection holds no memory of it. */
  release(): void {
    this.text = '';
    this.#pieces = null;
  }

  #found(text: string, start: number, end: number): void {
    this.text = text;
    this.start = start;
    this.end = end;
  }
}

class HeadPieces {
  offset = 0;
  #bytes: Buffer = Buffer.allocUnsafeSlow(1024);
  #length = 0;
  /** Bytes of the unfinished line, its CR included. */
  #lineLength = 0;
  #lines = 0;
  #emptyLine = false;
  #previous = 0;

  /** The head, its blank line included. */
  get text(): string {
    return this.#bytes.toString('latin1', 0, this.#length);
  }

  add(chunk: Buffer, start: number, maxFirstLine: number, maxSize: number): HeadProgress {
    let at = start;
    let progress: HeadProgress = 'more';
    while (at < chunk.length && progress === 'more') {
      if (this.#length + at - start === maxSize) progress = 'head too large';
      else progress = this.#take(chunk[at++]!, maxFirstLine);
    }
    this.#append(chunk, start, at);
    this.offset = at;
    return progress;
  }

  #take(byte: number, maxFirstLine: number): HeadProgress {
    const previous = this.#previous;
    this.#previous = byte;
    if (byte === code.lf) {
      if (previous !== code.cr) return 'bad line end';
      const length = this.#lineLength;
      this.#lineLength = 0;
      if (length > 1) this.#lines++;
      else if (this.#lines > 0) return 'complete';
      else if (this.#emptyLine) return 'bad line end';
      else this.#emptyLine = true;
      return 'more';
    }
    if (previous === code.cr || byte === 0) return 'bad line end';
    return ++this.#lineLength > maxFirstLine && this.#lines === 0 ? 'line too long' : 'more';
  }

  #append(chunk: Buffer, start: number, end: number): void {
    const needed = this.#length + end - start;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    chunk.copy(this.#bytes, this.#length, start, end);
    this.#length = needed;
  }
}
