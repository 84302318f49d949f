// Cuts the body of one message out of a byte stream: by length, by chunks (RFC 9112 §7.1), or until the peer closes.
// Invariant: `next` consumes exactly the bytes of this body and never one of what follows it; it holds back no body byte,
// and what it keeps of chunk lines and trailers is bounded.
import { FieldId } from '../message/field-id.ts';
import { Fields } from '../message/fields.ts';
import { code, hexValue } from './characters.ts';
import { parseFieldLines } from './field-lines.ts';
import { allowedTrailers } from './trailers.ts';

/** What `next` found. `data`: see `data`. `end`: see `trailers`. `broken`: see `problem`; the rest is unreadable. */
export type BodyEvent = 'data' | 'end' | 'more' | 'broken';

type Phase = 'length' | 'close' | 'chunk-size' | 'chunk-data' | 'chunk-end' | 'trailers' | 'ended' | 'broken';

export interface TrailerLimits {
  readonly headerSize: number;
  readonly headerCount: number;
}

const nothing = Buffer.alloc(0);
const noTrailers: TrailerLimits = { headerSize: 0, headerCount: 0 };

/** Longest chunk-size line, extensions included. */
const maxSizeLine = 1024;
/** Extension bytes that a body may carry beyond one for each byte of data: a body of nothing but extensions ends early. */
const extensionAllowance = 16 * 1024;

const tchar = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]";
const quoted = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t \\x21-\\x7e\\x80-\\xff])*"';
// chunk-ext without bad whitespace: it is dropped, but only after it proved to be one (RFC 9112 §7.1.1).
const chunkExtensions = new RegExp(`^(?:;${tchar}+(?:=(?:${tchar}+|${quoted}))?)*$`);

/** One decoder serves a connection: `start…` begins the next body. */
export class BodyDecoder {
  /** Index just after the bytes that the last `next` consumed. */
  offset = 0;
  /** The body bytes of a `data` event: a view on the chunk given to `next`. */
  data: Buffer = nothing;
  /** Trailer fields that are allowed as such, at `end`; null when there are none. */
  trailers: Fields | null = null;
  /** Why the body is `broken`. */
  problem = '';
  #phase: Phase = 'ended';
  /** Bytes still to come of the body ('length') or of the chunk ('chunk-data'). */
  #left = 0;
  /** The unfinished size line, or the whole lines of the trailer section, latin-1. */
  #text = '';
  /** The unfinished line of the trailer section. */
  #line = '';
  #extensionsLeft = 0;
  #limits: TrailerLimits = noTrailers;

  /** Body bytes known to be still to come; -1 when the framing does not tell. */
  get remaining(): number {
    if (this.#phase === 'ended') return 0;
    return this.#phase === 'length' ? this.#left : -1;
  }

  get ended(): boolean {
    return this.#phase === 'ended';
  }

  startLength(length: number): void {
    this.#begin(length === 0 ? 'ended' : 'length');
    this.#left = length;
  }

  startChunked(limits: TrailerLimits): void {
    this.#begin('chunk-size');
    this.#limits = limits;
    this.#extensionsLeft = extensionAllowance;
  }

  startUntilClose(): void {
    this.#begin('close');
  }

  #begin(phase: Phase): void {
    this.#phase = phase;
    this.#text = '';
    this.#line = '';
    this.trailers = null;
  }

  /** Consumes from `chunk[offset…]` up to the next event and sets `offset`. `more` means the chunk is used up. */
  next(chunk: Buffer, offset: number): BodyEvent {
    this.offset = offset;
    for (;;) {
      switch (this.#phase) {
        case 'length':
        case 'chunk-data': {
          if (this.offset === chunk.length) return 'more';
          const taken = Math.min(this.#left, chunk.length - this.offset);
          this.#take(chunk, this.offset + taken);
          this.#left -= taken;
          this.#extensionsLeft += taken;
          if (this.#left === 0) this.#phase = this.#phase === 'length' ? 'ended' : 'chunk-end';
          return 'data';
        }
        case 'close':
          if (this.offset === chunk.length) return 'more';
          this.#take(chunk, chunk.length);
          return 'data';
        case 'chunk-size':
        case 'chunk-end': {
          const complete = this.#phase === 'chunk-end' ? this.#readChunkEnd(chunk) : this.#readSizeLine(chunk);
          if (!complete) return this.#isBroken() ? 'broken' : 'more';
          break;
        }
        case 'trailers':
          if (!this.#readTrailers(chunk)) return this.#isBroken() ? 'broken' : 'more';
          break;
        case 'ended':
          // A connection may idle from here on: it must not hold on to the memory of its last read.
          this.data = nothing;
          return 'end';
        case 'broken':
          return 'broken';
      }
    }
  }

  #isBroken(): boolean {
    return this.#phase === 'broken';
  }

  #take(chunk: Buffer, end: number): void {
    this.data = this.offset === 0 && end === chunk.length ? chunk : chunk.subarray(this.offset, end);
    this.offset = end;
  }

  #break(problem: string): false {
    this.#phase = 'broken';
    this.problem = problem;
    return false;
  }

  /** The CRLF after a chunk's data. True when it is complete. */
  #readChunkEnd(chunk: Buffer): boolean {
    while (this.offset < chunk.length) {
      const expected = this.#text === '' ? code.cr : code.lf;
      if (chunk[this.offset++] !== expected) return this.#break('chunk longer than its size');
      if (expected === code.lf) {
        this.#text = '';
        this.#phase = 'chunk-size';
        return true;
      }
      this.#text = '\r';
    }
    return false;
  }

  /** `chunk-size [ chunk-ext ] CRLF`. True when it is complete. */
  #readSizeLine(chunk: Buffer): boolean {
    if (this.#text === '' && this.#readPlainSize(chunk)) return true;
    const lineEnd = chunk.indexOf(code.lf, this.offset);
    const end = lineEnd < 0 ? chunk.length : lineEnd + 1;
    if (this.#text.length + end - this.offset > maxSizeLine) return this.#break('chunk-size line over the limit');
    this.#text += chunk.toString('latin1', this.offset, end);
    this.offset = end;
    if (lineEnd < 0) {
      // What is wrong already is refused now rather than after the missing bytes.
      return plausibleSizeLine(this.#text) ? false : this.#break('bad chunk size');
    }
    const line = this.#text;
    this.#text = '';
    return this.#takeSizeLine(line);
  }

  /** The usual case without a string: a few digits and CRLF, all there. Consumes nothing when it is not that. */
  #readPlainSize(chunk: Buffer): boolean {
    let at = this.offset;
    let size = 0;
    for (let digits = 0; digits < 8 && at < chunk.length; digits++, at++) {
      const digit = hexValue[chunk[at]!]!;
      if (digit === 255) break;
      size = size * 16 + digit;
    }
    if (at === this.offset || at + 1 >= chunk.length) return false;
    if (chunk[at] !== code.cr || chunk[at + 1] !== code.lf) return false;
    this.offset = at + 2;
    this.#left = size;
    this.#phase = size === 0 ? 'trailers' : 'chunk-data';
    return true;
  }

  #takeSizeLine(line: string): boolean {
    let size = 0;
    let digits = 0;
    for (; digits < line.length; digits++) {
      const digit = hexValue[line.charCodeAt(digits)]!;
      if (digit === 255) break;
      size = size * 16 + digit;
    }
    if (digits === 0 || digits > 16 || size > Number.MAX_SAFE_INTEGER) return this.#break('bad chunk size');
    if (line.charCodeAt(line.length - 2) !== code.cr) return this.#break('chunk-size line without CR');
    if (digits !== line.length - 2) {
      const extensions = line.slice(digits, -2);
      if (!chunkExtensions.test(extensions)) return this.#break('bad chunk extension');
      this.#extensionsLeft -= extensions.length;
      if (this.#extensionsLeft < 0) return this.#break('chunk extensions over the limit');
    }
    this.#left = size;
    this.#phase = size === 0 ? 'trailers' : 'chunk-data';
    return true;
  }

  /** Field lines up to the blank line. True when the section is complete. */
  #readTrailers(chunk: Buffer): boolean {
    while (this.offset < chunk.length) {
      const lineEnd = chunk.indexOf(code.lf, this.offset);
      const end = lineEnd < 0 ? chunk.length : lineEnd + 1;
      if (this.#text.length + this.#line.length + end - this.offset > this.#limits.headerSize)
        return this.#break('trailers over the limit');
      // Looked at line by line: a look at the text so far with each of thousands of lines would cost its square.
      this.#line += chunk.toString('latin1', this.offset, end);
      this.offset = end;
      if (lineEnd < 0) return false;
      if (!this.#line.endsWith('\r\n')) return this.#break('trailer line without CR');
      if (this.#line.length === 2) return this.#takeTrailers();
      this.#text += this.#line;
      this.#line = '';
    }
    return false;
  }

  #takeTrailers(): boolean {
    if (this.#text !== '') {
      const fields = new Fields();
      const problem = parseFieldLines(this.#text, 0, this.#text.length, fields, this.#limits.headerCount);
      if (problem !== null) return this.#break(`trailers: ${problem}`);
      // Others are only dropped, but this is somebody trying to frame the message twice.
      if (fields.has(FieldId.ContentLength) || fields.has(FieldId.TransferEncoding)) {
        return this.#break('framing field in the trailers');
      }
      this.trailers = allowedTrailers(fields);
    }
    this.#text = '';
    this.#line = '';
    this.#phase = 'ended';
    return true;
  }
}

/** False when no continuation could make this a chunk-size line. */
function plausibleSizeLine(text: string): boolean {
  let digits = 0;
  while (digits < text.length && hexValue[text.charCodeAt(digits)] !== 255) digits++;
  if (digits > 16) return false;
  if (digits === text.length) return true;
  const c = text.charCodeAt(digits);
  return digits > 0 && (c === code.semicolon || (c === code.cr && text.length === digits + 1));
}
