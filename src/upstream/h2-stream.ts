// One exchange on an HTTP/2 connection to a backend.
// Invariant: an answer counts as complete only when END_STREAM was received. A stream that ended in any other way, even
// by RST_STREAM(NO_ERROR) or with the socket, is reported as a failure, never as an end.
import { type ClientHttp2Stream, constants } from 'node:http2';
import { Duplex } from 'node:stream';
import { Fault } from '../base/fault.ts';
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import type { RequestHead, ResponseHead } from '../message/head.ts';
import type { BackendReceiver, BackendStream } from '../message/stream.ts';
import { fieldsOf, responseHeadOf, trailerObject } from './h2-fields.ts';
import type { Ledger } from './ledger.ts';
import { acceptFor } from './websocket-accept.ts';

/** Interim answers to one request; a backend that sends more is broken. */
const interimMax = 64;
const endStreamFlag = constants.NGHTTP2_FLAG_END_STREAM;

/** What a stream asks of its connection. */
export interface H2StreamHost {
  /** The backend takes WebSockets over HTTP/2 (RFC 8441 §3). */
  readonly extendedConnect: boolean;
  /** Why the connection ended, when it ended badly. */
  readonly error: Error | null;
  /** What an answer's head may take. */
  readonly headerSize: number;
  /** Null: the connection has gone meanwhile; nothing was sent. */
  request(head: RequestHead, endStream: boolean, waitForTrailers: boolean): ClientHttp2Stream | null;
  /** Called once for every stream that was opened. */
  streamEnded(): void;
  /** An answer was given up before it began: is anyone there? Streams tell nothing about a peer that vanished. */
  suspect(): void;
  retire(): void;
}

export class H2BackendStream implements BackendStream {
  readonly address: string;
  readonly reused: boolean;
  readonly #session: H2StreamHost;
  readonly #ledger: Ledger;
  /** Null as soon as no event must be delivered any more. */
  #receiver: BackendReceiver | null;
  #stream: ClientHttp2Stream | null = null;
  #method = '';
  /** Sec-WebSocket-Key of the upgrade that was asked for; null: none was. */
  #upgradeKey: string | null = null;
  #requestEnded = false;
  #requestTrailers: Fields | null = null;
  #interims = 0;
  #answering = false;
  #paused = false;
  #endSeen = false;
  /** The answer is gRPC's: without trailers it is cut, whatever the framing says. */
  #needsTrailers = false;
  #noBody = false;
  #trailers: Fields | null = null;
  #slotFreed = false;

  constructor(session: H2StreamHost, address: string, reused: boolean, receiver: BackendReceiver, ledger: Ledger) {
    this.#session = session;
    this.address = address;
    this.reused = reused;
    this.#receiver = receiver;
    this.#ledger = ledger;
  }

  sendHead(head: RequestHead, last: boolean): void {
    this.#method = head.method;
    const upgrade = head.upgrade === 'websocket';
    if (upgrade && !this.#session.extendedConnect) {
      this.#failSoon(new Fault('upstream-no-101', `${this.address}: takes no WebSocket over HTTP/2 (RFC 8441)`));
      return;
    }
    if (upgrade) this.#upgradeKey = head.fields.get(FieldId.SecWebSocketKey) ?? '';
    this.#requestEnded = last && !upgrade;
    // Also for bodies that cannot have trailers: without it, resetting a stream puts END_STREAM in front of the reset, and
    // half an upload would look like a whole one.
    const waitForTrailers = !last && !upgrade;
    let stream: ClientHttp2Stream | null;
    try {
      stream = this.#session.request(head, this.#requestEnded, waitForTrailers);
    } catch (error) {
      // The lines came through a strict parser, so this is a connection that ran out of stream numbers, or a bug.
      this.#session.retire();
      this.#failSoon(new Fault('upstream-refused', `${this.address}: ${String(error)}`, { cause: error }));
      return;
    }
    if (stream === null) {
      this.#failSoon(new Fault('upstream-refused', `${this.address}: connection closed before the request was sent`));
      return;
    }
    this.#stream = stream;
    observeEnd(stream, this);
    stream.on('headers', this.#onInterim);
    stream.on('response', this.#onResponse);
    stream.on('trailers', this.#onTrailers);
    stream.on('error', ignore);
    stream.on('close', this.#onClose);
    if (!this.#requestEnded) {
      stream.on('drain', this.#onDrain);
      if (waitForTrailers) stream.on('wantTrailers', this.#onWantTrailers);
    }
  }

  sendData(chunk: Buffer): boolean {
    const stream = this.#stream;
    // Nobody is there to call `backendWritable`; whoever sends learns of the failure by its own event.
    if (stream === null || this.#receiver === null || stream.destroyed || stream.writableEnded) return true;
    return stream.write(chunk);
  }

  sendEnd(trailers: Fields | null): void {
    const stream = this.#stream;
    this.#requestEnded = true;
    if (stream === null || stream.destroyed || stream.writableEnded) return;
    this.#requestTrailers = trailers;
    stream.end();
  }

  /** node:http2 writes what a turn of the loop produced in one go. */
  flush(): void {}

  abort(): void {
    if (this.#receiver === null) return;
    this.#receiver = null;
    if (this.#stream === null) {
      this.#freeSlot();
      return;
    }
    if (!this.#answering) this.#session.suspect();
    cancel(this.#stream);
  }

  pauseResponse(): void {
    this.#paused = true;
    if (this.#answering) this.#stream?.pause();
  }

  resumeResponse(): void {
    this.#paused = false;
    if (this.#answering) this.#stream?.resume();
  }

  /** Events are still delivered. */
  get live(): boolean {
    return this.#receiver !== null;
  }

  /** END_STREAM was received; data may still be waiting to be read. */
  endStreamSeen(): void {
    this.#endSeen = true;
  }

  readonly #onInterim = (headers: { ':status'?: number | string }, _flags: number, raw: string[]): void => {
    const receiver = this.#receiver;
    if (receiver === null) return;
    const status = Number(headers[':status']);
    // 101 does not exist in HTTP/2 (RFC 9113 §8.6).
    if (++this.#interims > interimMax || status === 101) this.#fail('upstream-bad-response', `1xx: ${status}`);
    else receiver.responseInformation(status, fieldsOf(raw));
  };

  readonly #onResponse = (headers: { ':status'?: number | string }, flags: number, raw: string[]): void => {
    const receiver = this.#receiver;
    const stream = this.#stream;
    if (receiver === null || stream === null) return;
    const status = Number(headers[':status']);
    const last = (flags & endStreamFlag) !== 0;
    const head = responseHeadOf(status, raw, this.#method, last, this.#session.headerSize);
    if (typeof head === 'string') {
      this.#fail('upstream-bad-response', head);
      return;
    }
    this.#ledger.succeeded();
    if (this.#upgradeKey !== null) {
      if (status < 300 && !last) {
        this.#upgrade(receiver, stream, head, this.#upgradeKey);
        return;
      }
      // A refusal is an ordinary answer; our direction ends here.
      this.#requestEnded = true;
      stream.end();
    }
    this.#answering = true;
    this.#noBody = head.bodyLength === 0;
    this.#needsTrailers = !last && status === 200 && isGrpc(head.fields.get(FieldId.ContentType));
    if (this.#paused) stream.pause();
    stream.on('data', this.#onData);
    stream.on('end', this.#onEnd);
    receiver.responseHead(head);
    if (this.#receiver === null) return;
    if (last) this.#complete(receiver, stream);
    else setImmediate(flushHead, receiver, this);
  };

  readonly #onTrailers = (_headers: object, _flags: number, raw: string[]): void => {
    this.#trailers = fieldsOf(raw);
  };

  readonly #onData = (chunk: Buffer): void => {
    const receiver = this.#receiver;
    if (receiver === null) return;
    if (this.#noBody) {
      this.#fail('upstream-bad-response', 'a body where none may be');
      return;
    }
    receiver.responseData(chunk);
    if (this.#receiver !== null) receiver.responseFlush();
  };

  readonly #onEnd = (): void => {
    const receiver = this.#receiver;
    const stream = this.#stream;
    // Not by END_STREAM: `close` follows and tells why.
    if (receiver === null || stream === null || !this.#endSeen) return;
    if (this.#needsTrailers && this.#trailers === null) {
      this.#fail('upstream-cut', 'gRPC answer without trailers');
      return;
    }
    this.#complete(receiver, stream);
  };

  readonly #onDrain = (): void => {
    this.#receiver?.backendWritable();
  };

  readonly #onWantTrailers = (): void => {
    const stream = this.#stream;
    // A stream that is being reset is asked as well.
    if (stream === null || stream.destroyed || stream.closed) return;
    try {
      stream.sendTrailers(this.#requestTrailers === null ? {} : trailerObject(this.#requestTrailers));
    } catch {
      // A field that h2 cannot carry: without its trailers the request is not the one that was asked for.
      this.#fail('internal', 'request trailers cannot be sent');
    }
  };

  readonly #onClose = (): void => {
    this.#freeSlot();
    const receiver = this.#receiver;
    if (receiver === null) return;
    this.#receiver = null;
    const fault = this.#closeFault();
    this.#ledger.failed(fault);
    receiver.responseFailed(fault);
  };

  #closeFault(): Fault {
    const code = this.#stream?.rstCode ?? 0;
    const reason = this.#session.error?.message ?? `RST_STREAM ${code}`;
    const detail = `${this.address}: ${reason}`;
    if (this.#answering) return new Fault('upstream-cut', detail);
    // Said by the backend, or by node:http2 for streams above the last one of a GOAWAY: not processed (RFC 9113 §8.7).
    if (code === constants.NGHTTP2_REFUSED_STREAM) return new Fault('upstream-refused', detail);
    // Malformed, or over our bounds (node:http2 says so with ENHANCE_YOUR_CALM); the same again would not help.
    if (code === constants.NGHTTP2_PROTOCOL_ERROR || code === constants.NGHTTP2_ENHANCE_YOUR_CALM) {
      this.#session.retire();
      return new Fault('upstream-bad-response', detail);
    }
    return new Fault('upstream-reset', detail);
  }

  /** A 2xx opens the tunnel (RFC 8441 §5); above us it has the form of HTTP/1.1. */
  #upgrade(receiver: BackendReceiver, stream: ClientHttp2Stream, head: ResponseHead, key: string): void {
    this.#receiver = null;
    stream.off('drain', this.#onDrain);
    stream.off('trailers', this.#onTrailers);
    head.fields.set('Sec-WebSocket-Accept', acceptFor(key), FieldId.SecWebSocketAccept);
    head.status = 101;
    head.reason = 'Switching Protocols';
    receiver.upgraded(head, stream);
  }

  #complete(receiver: BackendReceiver, stream: ClientHttp2Stream): void {
    this.#receiver = null;
    // An answer that came before the request was sent completely: the rest is not wanted (RFC 9113 §8.1).
    if (!this.#requestEnded) cancel(stream);
    else stream.resume();
    receiver.responseEnd(this.#trailers);
  }

  #fail(code: 'upstream-bad-response' | 'upstream-cut' | 'internal', detail: string): void {
    const receiver = this.#receiver;
    this.#receiver = null;
    if (this.#stream !== null) cancel(this.#stream);
    // Whoever sends what is no answer is not asked again on this connection.
    if (code === 'upstream-bad-response') this.#session.retire();
    const fault = new Fault(code, `${this.address}: ${detail}`);
    if (fault.side === 'upstream') this.#ledger.failed(fault);
    receiver?.responseFailed(fault);
  }

  /** Not from within `sendHead`: nobody expects the end of an exchange from there. */
  #failSoon(fault: Fault): void {
    process.nextTick(() => {
      this.#freeSlot();
      const receiver = this.#receiver;
      this.#receiver = null;
      receiver?.responseFailed(fault);
    });
  }

  #freeSlot(): void {
    if (this.#slotFreed) return;
    this.#slotFreed = true;
    this.#session.streamEnded();
  }
}

/**
 * Tells the stream's owner of END_STREAM. node:http2 ends the readable side for END_STREAM and for RST_STREAM alike, with
 * rstCode 0 for NO_ERROR in both cases. What differs is that a reset stream is already `closed` when its end is pushed.
 */
function observeEnd(stream: ClientHttp2Stream, owner: H2BackendStream): void {
  stream.push = (chunk: unknown, encoding?: BufferEncoding): boolean => {
    if (chunk === null && !stream.closed) owner.endStreamSeen();
    return Duplex.prototype.push.call(stream, chunk, encoding);
  };
}

/**
 * Resets a stream, a turn later. From within a callback for a frame, Node 26 queues RST_STREAM(CANCEL) behind the data and
 * trailers of the stream; when that callback was for END_STREAM the stream is destroyed in between, and the trailers that
 * are then asked for end the whole process (`Assertion failed: !this->is_destroyed()` in Http2Stream::OnTrailers).
 */
function cancel(stream: ClientHttp2Stream): void {
  // What is still buffered would keep the stream from closing.
  stream.resume();
  setImmediate(closeNow, stream);
}

function closeNow(stream: ClientHttp2Stream): void {
  if (!stream.destroyed) stream.close(constants.NGHTTP2_CANCEL);
}

/** `application/grpc`, `application/grpc+proto`; not grpc-web, which carries its trailers in the body. */
function isGrpc(contentType: string | null): boolean {
  return contentType?.startsWith('application/grpc') === true && !contentType.startsWith('application/grpc-web');
}

function flushHead(receiver: BackendReceiver, stream: H2BackendStream): void {
  if (stream.live) receiver.responseFlush();
}

const ignore = (): void => {};
