// Our codec driven without sockets, the way the connections drive it: heads, bodies, one message after the other.
// Gives the same shape as `llhttp.ts`, so that the two can be compared.
import { Fault } from '../../../src/base/fault.ts';
import { BodyDecoder } from '../../../src/http1/body-decoder.ts';
import { HeadReader } from '../../../src/http1/head-reader.ts';
import { type Http1RequestHead, parseRequestHead, requestLineSlack } from '../../../src/http1/request-head.ts';
import { type Http1ResponseHead, parseResponseHead } from '../../../src/http1/response-head.ts';
import { unknownLength } from '../../../src/message/head.ts';

export const limits = { headerSize: 32 * 1024, headerCount: 200, targetSize: 8 * 1024 };

export interface Message {
  /** Method and version, or version and status. */
  start: string;
  target: string;
  reason: string;
  fields: string[];
  body: string;
  trailers: string[];
  persistent: boolean;
  complete: boolean;
}

export interface Reading {
  messages: Message[];
  /** Why reading stopped for good; '' while more may follow. */
  refusal: string;
  /** An upgrade was recognised: what follows is not HTTP. */
  upgrade: boolean;
}

/** Reads requests (`method` null) or the responses to requests with this method from the given pieces. */
export function readWithOurs(pieces: readonly Buffer[], method: string | null): Reading {
  const reader = new CodecReader(method);
  for (const piece of pieces) reader.take(piece);
  reader.finish();
  return { messages: reader.messages, refusal: reader.refusal, upgrade: reader.upgrade };
}

class CodecReader {
  messages: Message[] = [];
  refusal = '';
  upgrade = false;
  #method: string | null;
  #head = new HeadReader();
  #decoder = new BodyDecoder();
  #message: Message | null = null;
  #stopped = false;
  #untilClose = false;

  constructor(method: string | null) {
    this.#method = method;
  }

  take(piece: Buffer): void {
    let at = 0;
    while (at < piece.length && !this.#stopped) {
      at = this.#message === null ? this.#takeHead(piece, at) : this.#takeBody(piece, at);
      if (this.#message !== null && this.#decoder.ended) this.#endMessage();
    }
  }

  /** The peer closes its direction. */
  finish(): void {
    if (this.#untilClose && this.#message !== null) this.#endMessage();
  }

  #refuse(reason: string): number {
    this.refusal = reason;
    this.#stopped = true;
    return Number.MAX_SAFE_INTEGER;
  }

  #takeHead(piece: Buffer, at: number): number {
    const maxLine = this.#method === null ? limits.targetSize + requestLineSlack + 10 : limits.headerSize;
    const progress = this.#head.read(piece, at, maxLine, limits.headerSize);
    if (progress === 'more') return this.#head.offset;
    if (progress !== 'complete') return this.#refuse(progress);
    const { text, start, end, offset } = this.#head;
    const head =
      this.#method === null
        ? parseRequestHead(text, start, end, limits)
        : parseResponseHead(text, start, end, this.#method, limits);
    if (head instanceof Fault) return this.#refuse(head.message);
    this.#head.release();
    if ('method' in head) this.#beginRequest(head);
    else this.#beginResponse(head);
    return offset;
  }

  #beginRequest(head: Http1RequestHead): void {
    this.#message = message(`${head.method} ${head.version}`, head);
    this.#message.target = head.target;
    this.upgrade ||= head.upgrade !== '';
    if (head.bodyLength === unknownLength) this.#decoder.startChunked(limits);
    else this.#decoder.startLength(head.bodyLength);
  }

  #beginResponse(head: Http1ResponseHead): void {
    this.#message = message(`${head.status}`, head);
    this.#message.reason = head.reason;
    this.upgrade ||= head.status === 101;
    this.#untilClose = head.framing === 'close';
    if (head.framing === 'chunked') this.#decoder.startChunked(limits);
    else if (head.framing === 'close') this.#decoder.startUntilClose();
    else this.#decoder.startLength(head.bodyLength);
  }

  #takeBody(piece: Buffer, at: number): number {
    const event = this.#decoder.next(piece, at);
    if (event === 'broken') return this.#refuse(this.#decoder.problem);
    if (event === 'data') this.#message!.body += this.#decoder.data.toString('latin1');
    return this.#decoder.offset;
  }

  #endMessage(): void {
    const done = this.#message!;
    done.complete = true;
    for (const [name, value] of this.#decoder.trailers?.entries() ?? []) done.trailers.push(name, value);
    this.messages.push(done);
    this.#message = null;
    if (!done.persistent || this.upgrade) this.#stopped = true;
  }
}

function message(start: string, head: Http1RequestHead | Http1ResponseHead): Message {
  return {
    start,
    target: '',
    reason: '',
    fields: [...head.fields.entries()].flat(),
    body: '',
    trailers: [],
    persistent: head.persistent,
    complete: false,
  };
}
