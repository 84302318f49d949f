// The engine's stream of a container's output: frames that say which of the two streams they are from.
// Invariant: bytes come out in order, whole frames or not; a stream that is not framed (a terminal's) passes as it is.

export type OutputStream = 'stdout' | 'stderr';

export interface OutputChunk {
  readonly stream: OutputStream;
  readonly data: Buffer;
  /** False: the frame began in an earlier chunk. */
  readonly begins: boolean;
}

const headerLength = 8;

export class LogFrames {
  readonly #header = Buffer.alloc(headerLength);
  #headerLength = 0;
  #left = 0;
  #begins = true;
  #stream: OutputStream = 'stdout';

  *read(chunk: Buffer): IterableIterator<OutputChunk> {
    let at = 0;
    while (at < chunk.length) {
      if (this.#left > 0) {
        const end = Math.min(chunk.length, at + this.#left);
        yield { stream: this.#stream, data: chunk.subarray(at, end), begins: this.#begins };
        this.#begins = false;
        this.#left -= end - at;
        at = end;
        continue;
      }
      const taken = Math.min(headerLength - this.#headerLength, chunk.length - at);
      chunk.copy(this.#header, this.#headerLength, at, at + taken);
      this.#headerLength += taken;
      at += taken;
      if (this.#headerLength < headerLength) return;
      this.#headerLength = 0;
      this.#begins = true;
      this.#stream = this.#header[0] === 2 ? 'stderr' : 'stdout';
      this.#left = this.#header.readUInt32BE(4);
    }
  }
}

/** Cuts text into lines; the last one is kept until its end comes. */
export class Lines {
  #rest = '';
  readonly #longest: number;

  constructor(longest = 64 * 1024) {
    this.#longest = longest;
  }

  *read(text: string): IterableIterator<string> {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop()!;
    for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line;
    if (this.#rest.length <= this.#longest) return;
    yield this.#rest;
    this.#rest = '';
  }

  /** What came after the last end of a line. */
  end(): string {
    const rest = this.#rest;
    this.#rest = '';
    return rest;
  }
}
