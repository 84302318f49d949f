// One request on a backend connection, as the exchange sees it.
// Invariant: belongs to its connection from `open` to the terminal event; after that every call is void, so an exchange
// that acts late can never touch a connection that already serves another one.
import type { Fields } from '../message/fields.ts';
import { type RequestHead, unknownLength } from '../message/head.ts';
import type { BackendReceiver, BackendStream } from '../message/stream.ts';
import type { MessageWriter } from './message-writer.ts';
import { type AnswerFraming, requestHeadText } from './serialise.ts';

/** What a stream asks of its connection. */
export interface BackendHost {
  readonly writer: MessageWriter;
  breakOff(): void;
  pauseResponse(): void;
  resumeResponse(): void;
}

export class Http1BackendStream implements BackendStream {
  readonly address: string;
  readonly reused: boolean;
  readonly receiver: BackendReceiver;
  method = '';
  upgradeAsked = false;
  /** The head was handed over for writing: the backend may have read it. */
  begun = false;
  /** The request was handed over completely. */
  requestEnded = false;
  #host: BackendHost | null;

  constructor(host: BackendHost, address: string, reused: boolean, receiver: BackendReceiver) {
    this.#host = host;
    this.address = address;
    this.reused = reused;
    this.receiver = receiver;
  }

  sendHead(head: RequestHead, last: boolean): void {
    const host = this.#host;
    if (host === null || this.begun) return;
    this.begun = true;
    this.method = head.method;
    this.upgradeAsked = head.upgrade !== '';
    const length = head.bodyLength;
    const framing: AnswerFraming = length === unknownLength ? 'chunked' : 'length';
    host.writer.begin(requestHeadText(head), framing, length);
    if (last) this.sendEnd(null);
    // The client holds its body back until the backend has seen the head.
    else if (head.expectContinue) host.writer.flush();
  }

  sendData(chunk: Buffer): boolean {
    return this.#host === null ? true : this.#host.writer.data(chunk);
  }

  sendEnd(trailers: Fields | null): void {
    const host = this.#host;
    if (host === null || this.requestEnded) return;
    this.requestEnded = true;
    if (!this.begun || !host.writer.end(trailers)) this.abort();
  }

  flush(): void {
    this.#host?.writer.flush();
  }

  abort(): void {
    const host = this.#host;
    if (host === null) return;
    this.#host = null;
    host.breakOff();
  }

  pauseResponse(): void {
    this.#host?.pauseResponse();
  }

  resumeResponse(): void {
    this.#host?.resumeResponse();
  }

  // ---- called by the connection ----------------------------------------------------------------------------------

  /** The exchange ends with the event that follows: cuts the stream loose. */
  release(): void {
    this.#host = null;
  }
}
