// One request on a server connection, as the exchange sees it, and the answer to it.
// Invariant: belongs to its connection from the head's arrival to `release`; after that every call is void, so an exchange
// that acts late can never touch the request after its own.
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Fault } from '../base/fault.ts';
import type { Fields } from '../message/fields.ts';
import { type ResponseHead, unknownLength } from '../message/head.ts';
import type { ClientStream, ConnectionFacts, RequestReceiver } from '../message/stream.ts';
import type { MessageWriter } from './message-writer.ts';
import type { Http1RequestHead } from './request-head.ts';
import { type AnswerFraming, informationText, responseHeadText, switchingText } from './serialise.ts';

/** What a stream asks of its connection. */
export interface StreamHost {
  readonly socket: Socket;
  readonly writer: MessageWriter;
  /** An answer with this status must be the last one on the connection. */
  endsWith(status: number): boolean;
  continued(): void;
  answered(last: boolean): void;
  /** Ends short of the framing; `untilClose`: a plain end would look complete. */
  breakOff(untilClose: boolean): void;
  readonly bodyWaits: boolean;
  pauseBody(): void;
  resumeBody(): void;
  discardBody(): void;
  handOver(): void;
}

export class ServerStream implements ClientStream {
  readonly protocol = 'h1';
  readonly connection: ConnectionFacts;
  readonly head: Http1RequestHead;
  receiver: RequestReceiver = deaf;
  /** `sendHead` was called: the answer is on its way. */
  answering = false;
  /** `requestEnd` was delivered or is not wanted any more. */
  bodyEnded = false;
  #host: StreamHost | null;
  #framing: AnswerFraming = 'none';
  /** The connection ends with this answer. */
  #last = false;

  constructor(host: StreamHost, connection: ConnectionFacts, head: Http1RequestHead) {
    this.#host = host;
    this.connection = connection;
    this.head = head;
  }

  sendInformation(status: number, fields: Fields): void {
    const host = this.#host;
    // HTTP/1.0 knows no interim answers (RFC 9110 §15.2).
    if (host === null || this.answering || this.head.version !== 11) return;
    if (status === 100) host.continued();
    host.socket.write(informationText(status, fields), 'latin1');
  }

  sendHead(head: ResponseHead, last: boolean, close: boolean): void {
    const host = this.#host;
    if (host === null || this.answering) return;
    this.answering = true;
    const { method, version, persistent } = this.head;
    const { status } = head;
    let length = head.bodyLength;
    if (method === 'HEAD' || status === 204 || status === 304) {
      this.#framing = 'none';
      if (status === 204) length = -1;
      else length = head.declaredLength >= 0 || length === 0 ? head.declaredLength : length;
    } else if (last || length !== unknownLength) {
      this.#framing = 'length';
      if (last) length = 0;
    } else {
      this.#framing = version === 11 ? 'chunked' : 'close';
    }
    this.#last = close || !persistent || this.#framing === 'close' || host.endsWith(status);
    const connection = this.#last ? 'close' : version === 11 ? '' : 'keep-alive';
    host.writer.begin(responseHeadText(head, this.#framing, length, connection), this.#framing, length);
    if (last) this.sendEnd(null);
  }

  sendData(chunk: Buffer): boolean {
    return this.#host === null ? true : this.#host.writer.data(chunk);
  }

  /** What the kernel has taken is done with; under TLS the socket says so later, when it is true as well. */
  get dataDone(): boolean {
    return this.#host !== null && this.#host.socket.writableLength === 0;
  }

  sendEnd(trailers: Fields | null): void {
    const host = this.#host;
    if (host === null) return;
    if (!this.answering || !host.writer.end(this.head.acceptsTrailers ? trailers : null)) {
      this.abort();
      return;
    }
    this.#host = null;
    this.receiver.clientFinished();
    host.answered(this.#last);
  }

  flush(): void {
    this.#host?.writer.flush();
  }

  abort(): void {
    const host = this.#host;
    if (host === null) return;
    this.#host = null;
    host.writer.flush();
    host.breakOff(this.#framing === 'close');
  }

  pauseBody(): void {
    this.#host?.pauseBody();
  }

  resumeBody(): void {
    this.#host?.resumeBody();
  }

  get bodyWaits(): boolean {
    return this.#host?.bodyWaits === true;
  }

  discardBody(): void {
    this.#host?.discardBody();
  }

  /** The stream comes paused, with the client's early bytes in front; its new owner listens for errors at once. */
  acceptUpgrade(head: ResponseHead): Duplex {
    const host = this.#host;
    if (host === null || this.answering) throw new Error('an upgrade is accepted once, before any other answer');
    this.answering = true;
    this.#host = null;
    host.socket.write(switchingText(head), 'latin1');
    host.handOver();
    return host.socket;
  }

  // ---- called by the connection ----------------------------------------------------------------------------------

  /** The client is gone or unreadable: the exchange hears of it, and of nothing after it. */
  fail(fault: Fault): void {
    if (this.#host === null) return;
    this.#host = null;
    this.receiver.requestAborted(fault);
  }
}

/** Stands in until the exchange has set its own receiver. */
const deaf: RequestReceiver = {
  requestData() {},
  requestEnd() {},
  requestAborted() {},
  clientWritable() {},
  clientFinished() {},
};
