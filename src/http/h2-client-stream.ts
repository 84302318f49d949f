// One HTTP/2 request, as the exchange sees it.
// Invariant: an answer that was cut never ends with END_STREAM, and an upload that was cut never ends the backend's body:
// node:http2 would do both, so neither `close` nor `end` of the stream is taken at face value.
import { constants, type ServerHttp2Stream, type ServerStreamResponseOptions } from 'node:http2';
import type { Duplex } from 'node:stream';
import { Fault } from '../base/fault.ts';
import { FieldId } from '../message/field-id.ts';
import { Fields } from '../message/fields.ts';
import { type RequestHead, type ResponseHead, unknownLength } from '../message/head.ts';
import type { ClientStream, ConnectionFacts, RequestReceiver } from '../message/stream.ts';
import { isConnectionField } from './hop-by-hop.ts';

const owner = Symbol('owner');
const trailerLines = Symbol('trailerLines');
type OwnedStream = ServerHttp2Stream & { [owner]?: H2ClientStream; [trailerLines]?: readonly string[] };

/** Destroying with an error resets the stream; `close` would put END_STREAM in front of the reset. */
const cut = new Error('answer cut short');

/** `sendDate` is missing in the types: whether there is a Date is the app's business. */
interface ResponseOptions extends ServerStreamResponseOptions {
  sendDate: false;
}

export interface StreamOwner {
  /** The connection is closed, or done for. */
  readonly gone: boolean;
  /** @param wasted  the client cancelled it, or broke it so that it had to be reset */
  streamClosed(stream: H2ClientStream, wasted: boolean): void;
}

export class H2ClientStream implements ClientStream {
  readonly protocol = 'h2';
  readonly connection: ConnectionFacts;
  readonly head: RequestHead;
  receiver: RequestReceiver = deaf;
  readonly #stream: OwnedStream;
  readonly #owner: StreamOwner;
  /** The head that is kept back until it is known what follows. */
  #keptHead: string[] | null = null;
  #headSent = false;
  #trailersPossible = false;
  #trailers: Fields | null = null;
  /** Content still to come when the length is known; the last byte of it carries END_STREAM. */
  #left: number = unknownLength;
  #reading = false;
  /** Content, or its end, came before anybody asked for it. */
  #bodyHere = false;
  #requestEnded: boolean;
  #discarding: boolean;
  #awaitingDrain = false;
  /** No event must be delivered any more. */
  #over = false;
  #wasted = false;
  #failure: Fault | null = null;

  /** Somebody listens for errors on `stream` already. */
  constructor(stream: ServerHttp2Stream, head: RequestHead, ended: boolean, facts: ConnectionFacts, host: StreamOwner) {
    this.#stream = stream;
    this.head = head;
    this.connection = facts;
    this.#owner = host;
    this.#requestEnded = ended;
    // Until the tunnel is agreed to, there is nothing to read; if it is refused, what came is not wanted.
    this.#discarding = head.upgrade !== '';
    this.#stream[owner] = this;
    stream.on('close', onClose);
    // Without a body `close` comes as soon as a reset does.
    if (!this.#requestEnded) stream.on('aborted', onAborted);
    // A tunnel reads its stream itself.
    if (head.expectContinue && head.upgrade === '') stream.once('readable', onReadable);
  }

  // ---- ClientStream ----------------------------------------------------------------------------------------------

  sendInformation(status: number, fields: Fields): void {
    if (this.#headSent || this.#keptHead !== null || this.#stream.destroyed || this.#stream.closed) return;
    this.#try(() => this.#stream.additionalHeaders({ ':status': status, ...fieldObject(fields) }));
  }

  sendHead(head: ResponseHead, last: boolean, _close: boolean): void {
    if (this.#headSent || this.#keptHead !== null) return;
    const { method } = this.head;
    const { fields, status, bodyLength, declaredLength } = head;
    const lines = [':status', String(status)];
    const { names, values, ids } = fields;
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i]!;
      if (id === FieldId.Removed || isConnectionField(id)) continue;
      lines.push(names[i]!, values[i]!);
    }
    const bodiless = method === 'HEAD' || status === 204 || status === 304;
    const length = bodiless ? declaredLength : last ? 0 : bodyLength;
    if (length >= 0 && status !== 204) lines.push('content-length', String(length));
    this.#left = bodiless || last ? 0 : bodyLength;
    this.#trailersPossible = !last && bodyLength === unknownLength;
    this.#keptHead = lines;
    if (last) this.sendEnd(null);
  }

  sendData(chunk: Buffer): boolean {
    const stream = this.#stream;
    this.#respond(false);
    if (stream.destroyed || stream.writableEnded) return true;
    if (this.#left > 0) {
      this.#left -= chunk.length;
      if (this.#left === 0) {
        stream.end(chunk);
        return true;
      }
      if (this.#left < 0) {
        this.abort();
        return true;
      }
    }
    if (stream.write(chunk)) return true;
    if (!this.#awaitingDrain) {
      this.#awaitingDrain = true;
      stream.once('drain', onDrain);
    }
    return false;
  }

  sendEnd(trailers: Fields | null): void {
    const stream = this.#stream;
    if (stream.destroyed) return;
    if (this.#left > 0) {
      // Short of what was promised: nghttp2 would not notice, the client must.
      this.abort();
      this.#failure = new Fault('upstream-cut', 'shorter than its content-length');
      return;
    }
    this.#trailers = trailers;
    this.#trailersPossible = trailers !== null || (this.#headSent && this.#trailersPossible);
    this.#respond(trailers === null);
    if (!stream.writableEnded) stream.end();
    this.#endReading();
  }

  flush(): void {
    this.#respond(false);
  }

  abort(): void {
    // A head that was kept back goes out before the reset: the client learns as much as we know.
    this.#respond(false);
    this.#over = true;
    this.#stream.destroy(cut);
  }

  pauseBody(): void {
    this.#stream.pause();
  }

  resumeBody(): void {
    const stream = this.#stream;
    if (!this.#reading) {
      this.#reading = true;
      // While somebody listens for it, nothing flows.
      if (this.head.expectContinue) stream.removeListener('readable', onReadable);
      stream.on('data', onData);
      stream.on('end', onEnd);
    }
    stream.resume();
  }

  get bodyWaits(): boolean {
    return this.#bodyHere || this.#stream.readableLength > 0;
  }

  discardBody(): void {
    this.#discarding = true;
    this.#endReading();
  }

  acceptUpgrade(head: ResponseHead): Duplex {
    const stream = this.#stream;
    const { fields } = head;
    // Proofs of an HTTP/1.1 handshake (RFC 8441 §5.1).
    fields.remove(FieldId.SecWebSocketAccept);
    this.#left = unknownLength;
    const lines = [':status', '200'];
    for (let i = 0; i < fields.length; i++) {
      const id = fields.ids[i]!;
      if (id !== FieldId.Removed && !isConnectionField(id)) lines.push(fields.names[i]!, fields.values[i]!);
    }
    this.#headSent = true;
    // From here on the stream is the tunnel's; only the connection still hears of its end.
    this.#over = true;
    const options: ResponseOptions = { sendDate: false };
    this.#try(() => stream.respond(lines, options));
    return stream;
  }

  // ---- events of the stream --------------------------------------------------------------------------------------

  data(chunk: Buffer): void {
    if (!this.#over && !this.#discarding) this.receiver.requestData(chunk);
  }

  arrived(): void {
    this.#bodyHere = true;
    if (!this.#over && !this.#discarding) this.receiver.bodyArrived?.();
  }

  ended(): void {
    // RST_STREAM ends the readable side as well: such a body is not whole. `close` follows.
    if (this.#over || this.#requestEnded || this.#stream.aborted || this.#stream.closed) return;
    this.#requestEnded = true;
    if (!this.#discarding) this.receiver.requestEnd(fieldsOf(this.#stream[trailerLines]));
  }

  wantTrailers(): void {
    const { destroyed } = this.#stream;
    if (!destroyed)
      this.#try(() => this.#stream.sendTrailers(this.#trailers === null ? {} : fieldObject(this.#trailers)));
  }

  drained(): void {
    this.#awaitingDrain = false;
    if (!this.#over) this.receiver.clientWritable();
  }

  /** RST_STREAM before our answer was complete: known at once, also while the body is paused. */
  aborted(): void {
    if (this.#over) return;
    this.#over = true;
    this.#wasted = true;
    this.receiver.requestAborted(this.#failure ?? new Fault('client-gone', `RST_STREAM ${this.#stream.rstCode}`));
  }

  closed(): void {
    const stream = this.#stream;
    this.#owner.streamClosed(this, this.#wasted || (!this.#over && stream.rstCode !== constants.NGHTTP2_NO_ERROR));
    if (this.#over) return;
    this.#over = true;
    if (this.#headSent && stream.rstCode === constants.NGHTTP2_NO_ERROR && this.#isAnswered()) {
      this.receiver.clientFinished();
      return;
    }
    const why = stream.rstCode === 0 ? 'connection closed' : `RST_STREAM ${stream.rstCode}`;
    this.receiver.requestAborted(this.#failure ?? new Fault('client-gone', why));
  }

  /**
   * nghttp2 closes a stream without an error when both sides have ended it: the whole answer is out. After an upload that
   * shows before node:http2 has heard of the last write, so `finish` never comes.
   */
  #isAnswered(): boolean {
    return this.#stream.writableFinished || (this.#stream.writableEnded && !this.#owner.gone);
  }

  // ---- inside ----------------------------------------------------------------------------------------------------

  #respond(endStream: boolean): void {
    const lines = this.#keptHead;
    if (lines === null) return;
    this.#keptHead = null;
    this.#headSent = true;
    const stream = this.#stream;
    if (stream.destroyed || stream.closed) return;
    const waitForTrailers = this.#trailersPossible && !endStream;
    if (waitForTrailers) stream.on('wantTrailers', onWantTrailers);
    const options: ResponseOptions = { endStream, waitForTrailers, sendDate: false };
    this.#try(() => stream.respond(lines, options));
  }

  /** The answer is complete and the rest of the upload is not wanted (RFC 9113 §8.1): RST_STREAM(NO_ERROR). */
  #endReading(): void {
    const stream = this.#stream;
    if (this.#requestEnded || !this.#discarding || !stream.writableEnded || stream.destroyed) return;
    if (stream.writableFinished) stream.close(constants.NGHTTP2_NO_ERROR);
    else stream.once('finish', onFinish);
  }

  /** node:http2 throws at what it will not send: a status beyond 599, say. Such an answer is cut off. */
  #try(send: () => void): void {
    try {
      send();
    } catch (error) {
      this.#failure = new Fault('internal', String(error));
      this.#stream.destroy(cut);
    }
  }
}

// Listeners shared by all streams: `this` is the stream, its owner is looked up on it.
function onData(this: OwnedStream, chunk: Buffer): void {
  this[owner]?.data(chunk);
}
function onReadable(this: OwnedStream): void {
  this[owner]?.arrived();
}
function onEnd(this: OwnedStream): void {
  this[owner]?.ended();
}
function onWantTrailers(this: OwnedStream): void {
  this[owner]?.wantTrailers();
}
function onDrain(this: OwnedStream): void {
  this[owner]?.drained();
}
function onAborted(this: OwnedStream): void {
  this[owner]?.aborted();
}
function onClose(this: OwnedStream): void {
  this[owner]?.closed();
}
function onFinish(this: OwnedStream): void {
  this.close(constants.NGHTTP2_NO_ERROR);
}

/**
 * Keeps the trailers of a stream from its first moment on: head, body and trailers may arrive in one piece, long before the
 * request is dispatched.
 */
export function keepTrailers(stream: ServerHttp2Stream): void {
  stream.on('trailers', onTrailers);
}
function onTrailers(this: OwnedStream, _headers: object, _flags: number, raw: readonly string[]): void {
  this[trailerLines] = raw;
}

function fieldsOf(raw: readonly string[] | undefined): Fields | null {
  if (raw === undefined) return null;
  const fields = new Fields();
  for (let i = 0; i < raw.length; i += 2) fields.add(raw[i]!, raw[i + 1]!);
  return fields;
}

/** As node:http2 takes interim heads and trailers: an object, repeated names as arrays. */
function fieldObject(fields: Fields): Record<string, string | string[]> {
  const object: Record<string, string | string[]> = Object.create(null);
  for (let i = 0; i < fields.length; i++) {
    const id = fields.ids[i]!;
    if (id === FieldId.Removed || isConnectionField(id)) continue;
    const name = fields.names[i]!.toLowerCase();
    const value = fields.values[i]!;
    const before = object[name];
    if (before === undefined) object[name] = value;
    else if (typeof before === 'string') object[name] = [before, value];
    else before.push(value);
  }
  return object;
}

/** Stands in until the exchange has set its own receiver. */
const deaf: RequestReceiver = {
  requestData() {},
  requestEnd() {},
  requestAborted() {},
  clientWritable() {},
  clientFinished() {},
};
