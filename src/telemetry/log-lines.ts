// A container's output, as the engine frames it with its times in front → lines.
// Invariant: no line is longer than 64 KiB, and no more than one unfinished line a stream is kept; a line that the engine cut
// into several frames comes out whole; a line that was told before a break is not told again.
import type { OutputChunk } from '../runtime/log-frames.ts';

const longestLine = 64 * 1024;
/** "2026-01-02T03:04:05.123456789+02:00". */
const longestStamp = 40;
const stampForm = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/;

export interface Line {
  readonly nanos: string;
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
  readonly cut: boolean;
}

export class LogLines {
  readonly #secrets: readonly string[];
  readonly #streams: Readonly<Record<'stdout' | 'stderr', LineEnd>>;

  /** `secrets`: the longest first. */
  constructor(secrets: readonly string[]) {
    this.#secrets = secrets;
    // So much more that a secret across the cut is seen whole.
    const most = longestLine + (secrets[0] === undefined ? 0 : Buffer.byteLength(secrets[0]));
    this.#streams = { stdout: new LineEnd(most), stderr: new LineEnd(most) };
  }

  *read({ stream, data, begins }: OutputChunk): IterableIterator<Line> {
    const end = this.#streams[stream];
    if (begins) end.stampComes();
    let at = 0;
    while (at < data.length) {
      const newline = data.indexOf(10, at);
      const stop = newline === -1 ? data.length : newline;
      end.add(data.subarray(at, stop));
      at = stop + 1;
      if (newline === -1) return;
      yield this.#line(stream, end.take());
      end.stampComes();
    }
  }

  /** What came without an end of line. */
  *end(): IterableIterator<Line> {
    for (const stream of ['stdout', 'stderr'] as const) {
      const end = this.#streams[stream];
      if (!end.empty) yield this.#line(stream, end.take());
    }
  }

  #line(stream: Line['stream'], { nanos, bytes, cut }: Taken): Line {
    let text = bytes.toString('utf8');
    for (const secret of this.#secrets) text = text.replaceAll(secret, '[redacted]');
    if (text.endsWith('\r')) text = text.slice(0, -1);
    const long = Buffer.byteLength(text) > longestLine;
    // A character that the cut went through is no character.
    if (long)
      text = Buffer.from(text)
        .subarray(0, longestLine)
        .toString('utf8')
        .replace(/\ufffd$/, '');
    return { nanos, stream, text, cut: cut || long };
  }
}

interface Taken {
  readonly nanos: string;
  readonly bytes: Buffer;
  readonly cut: boolean;
}

/** The unfinished line of one stream. */
class LineEnd {
  readonly #most: number;
  #parts: Buffer[] = [];
  #length = 0;
  #cut = false;
  #nanos = '';
  /** What may still be the time in front; null: it is behind us. */
  #stamp: Buffer | null = null;

  constructor(most: number) {
    this.#most = most;
  }

  get empty(): boolean {
    return this.#length === 0 && (this.#stamp === null || this.#stamp.length === 0);
  }

  stampComes(): void {
    this.#keepStamp();
    this.#stamp = Buffer.alloc(0);
  }

  add(data: Buffer): void {
    if (this.#stamp === null) {
      this.#keep(data);
      return;
    }
    this.#stamp = this.#stamp.length === 0 ? data.subarray(0) : Buffer.concat([this.#stamp, data]);
    const space = this.#stamp.subarray(0, longestStamp + 1).indexOf(32);
    if (space === -1) {
      if (this.#stamp.length > longestStamp) this.#keepStamp();
      return;
    }
    const nanos = nanosOfStamp(this.#stamp.toString('latin1', 0, space));
    if (nanos !== null) {
      // Of a line in several frames the first one's time counts.
      if (this.#length === 0) this.#nanos = nanos;
      this.#stamp = this.#stamp.subarray(space + 1);
    }
    this.#keepStamp();
  }

  take(): Taken {
    // An empty line has its time, and the engine may leave out the space behind it.
    const bare = this.#stamp === null ? null : nanosOfStamp(this.#stamp.toString('latin1'));
    if (bare !== null && this.#length === 0) {
      this.#nanos = bare;
      this.#stamp = null;
    }
    this.#keepStamp();
    const taken = { nanos: this.#nanos, bytes: Buffer.concat(this.#parts), cut: this.#cut };
    this.#parts = [];
    this.#length = 0;
    this.#cut = false;
    return taken;
  }

  #keepStamp(): void {
    const stamp = this.#stamp;
    this.#stamp = null;
    if (stamp !== null && stamp.length > 0) this.#keep(stamp);
  }

  #keep(data: Buffer): void {
    const room = this.#most - this.#length;
    if (data.length > room) this.#cut = true;
    if (room <= 0) return;
    // A copy: the chunk that it lies in may be large.
    const kept = Buffer.from(data.subarray(0, room));
    this.#parts.push(kept);
    this.#length += kept.length;
  }
}

/** Null: it is no time as engines write it. */
export function nanosOfStamp(stamp: string): string | null {
  const found = stampForm.exec(stamp);
  if (found === null) return null;
  const ms = Date.parse(`${found[1]}${found[3]}`);
  return Number.isNaN(ms) ? null : `${ms / 1000}${(found[2] ?? '').padEnd(9, '0')}`;
}

/** How far an instance's lines were told: engines begin again at a time, not at a line. */
export class LogMark {
  /** The latest time told of; 0: nothing yet. */
  #nanos = 0n;
  /** Lines told of that very time. */
  #told = 0;
  /** Where a break was, until lines behind it come. */
  #break: { readonly nanos: bigint; left: number } | null = null;

  readonly #fromMs: number;

  /** `fromMs`: where to begin, epoch; 0: at the start. */
  constructor(fromMs = 0) {
    this.#fromMs = fromMs;
  }

  /** Where to begin, or to begin again. */
  get sinceMs(): number {
    return this.#nanos === 0n ? this.#fromMs : Number(this.#nanos / 1_000_000n);
  }

  beginAgain(): void {
    this.#break = this.#nanos === 0n ? null : { nanos: this.#nanos, left: this.#told };
  }

  /** False: it was told before. The two streams may be a little out of order, so that only a break makes lines old. */
  isNew(text: string): boolean {
    if (text === '') return true;
    const nanos = BigInt(text);
    const before = this.#break;
    if (before !== null) {
      if (nanos < before.nanos) return false;
      if (nanos === before.nanos && before.left > 0) {
        before.left--;
        return false;
      }
      if (nanos > before.nanos) this.#break = null;
    }
    if (nanos > this.#nanos) {
      this.#nanos = nanos;
      this.#told = 1;
    } else if (nanos === this.#nanos) this.#told++;
    return true;
  }
}
