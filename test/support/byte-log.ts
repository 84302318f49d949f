// Bytes that arrive in pieces and are looked at now and then.
// Invariant: appending costs the same however much is there already; beyond `keep` bytes are counted but not kept.

export class ByteLog {
  keep: number;
  /** Every byte ever appended, kept or not. */
  total = 0;
  #chunks: Buffer[] = [];
  #kept = 0;

  constructor(keep = Number.POSITIVE_INFINITY) {
    this.keep = keep;
  }

  append(chunk: Buffer): void {
    this.total += chunk.length;
    if (this.#kept >= this.keep) return;
    this.#chunks.push(chunk);
    this.#kept += chunk.length;
  }

  /** What is kept, in one piece. */
  get bytes(): Buffer {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0] ?? Buffer.alloc(0);
  }

  get length(): number {
    return this.#kept;
  }

  set(bytes: Buffer): void {
    this.#chunks = bytes.length === 0 ? [] : [bytes];
    this.#kept = bytes.length;
  }
}
