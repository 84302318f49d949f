// One HTTP/1.1 connection to a backend: sends a request, reads its response, and is then ready for the next one.
// Invariant: it is idle only when the request was sent completely, the response was read to its end, nothing followed it,
// and the backend lets the connection live; any byte or end of stream while idle destroys it.
import type { Socket } from 'node:net';
import type { BulkReads, ChunkTaker } from '../base/bulk-reads.ts';
import { Fault, type FaultCode } from '../base/fault.ts';
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import type { ResponseHead } from '../message/head.ts';
import type { BackendReceiver, BackendStream } from '../message/stream.ts';
import { BodyDecoder } from './body-decoder.ts';
import { type BackendHost, Http1BackendStream } from './client-stream.ts';
import { namesOnly } from './framing.ts';
import { HeadReader } from './head-reader.ts';
import { MessageWriter } from './message-writer.ts';
import type { HeadLimits } from './request-head.ts';
import { type Http1ResponseHead, parseResponseHead } from './response-head.ts';

export interface ClientConnectionOptions {
  /** Backend address as configured, for faults and the log. */
  readonly address: string;
  /** Where the socket's bytes come from when they do not come as a stream. */
  readonly reads?: BulkReads | null;
  /** Asked anew for each head: limits are reloadable. */
  limits(): HeadLimits;
  /** The exchange is over and another one may begin; may call `open` at once. */
  onIdle(connection: ClientConnection): void;
  /** The connection cannot be used any more; comes once, also after the socket was handed over by an upgrade. */
  onClose(connection: ClientConnection): void;
  /** A final head, or the 101 that was asked for, arrived: the backend is alive. Comes before the receiver hears of it. */
  onAnswer?(connection: ClientConnection, head: ResponseHead): void;
  /** The connection or what came on it failed the exchange in work. Comes before the receiver hears of it. */
  onFailed?(connection: ClientConnection, fault: Fault): void;
}

/** A backend that sends more interim answers than this has lost its way. */
const interimMax = 64;

type Phase = 'idle' | 'head' | 'body' | 'tunnel' | 'closed';

export class ClientConnection implements BackendHost, ChunkTaker {
  readonly writer: MessageWriter;
  /** Requests begun so far. */
  served = 0;
  readonly #socket: Socket;
  readonly #options: ClientConnectionOptions;
  readonly #headReader = new HeadReader();
  readonly #decoder = new BodyDecoder();
  #phase: Phase = 'idle';
  #stream: Http1BackendStream | null = null;
  #head: Http1ResponseHead | null = null;
  /** Bytes received and not yet consumed: `#chunk[#at…]`. */
  #chunk: Buffer | null = null;
  #at = 0;
  /** Somebody may still look at what came last. */
  #held = false;
  #advancing = false;
  #paused = false;
  #peerEnded = false;
  /** Any byte of a response to the request in work arrived. */
  #answering = false;
  #interim = 0;

  /** The socket is connected; errors on it are ours to hear from now on. */
  constructor(socket: Socket, options: ClientConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    this.writer = new MessageWriter(socket);
    // The backend may end its direction and still read ours: a tunnel that this becomes passes a half-close on.
    socket.allowHalfOpen = true;
    socket.on('error', this.#onError);
    socket.on('close', this.#onClose);
    if (options.reads == null) socket.on('data', this.#onData);
    else options.reads.taker = this;
    socket.on('end', this.#onEnd);
    socket.on('drain', this.#onDrain);
    if (socket.destroyed) this.#phase = 'closed';
  }

  get idle(): boolean {
    return this.#phase === 'idle';
  }

  /** Begins an exchange; only while idle. */
  open(receiver: BackendReceiver): BackendStream {
    if (this.#phase !== 'idle') throw new Error('a backend connection takes one exchange at a time');
    const stream = new Http1BackendStream(this, this.#options.address, this.served > 0, receiver);
    this.served++;
    this.#phase = 'head';
    this.#stream = stream;
    this.#answering = false;
    this.#interim = 0;
    return stream;
  }

  destroy(): void {
    // 'close' comes a turn later; until then nobody may take it for one that can be used.
    if (this.#phase === 'idle') this.#phase = 'closed';
    this.#socket.destroy();
  }

  // ---- socket events ---------------------------------------------------------------------------------------------

  readonly #onData = (chunk: Buffer): void => {
    if (this.#phase === 'idle' || this.#phase === 'closed') {
      // Nobody asked: whatever this is, it must not become the answer to the next request.
      this.#phase = 'closed';
      this.destroy();
      return;
    }
    this.#answering = true;
    this.#chunk = this.#chunk === null ? chunk : Buffer.concat([this.#chunk.subarray(this.#at), chunk]);
    this.#at = 0;
    this.#advance();
  };

  /** For `BulkReads` alone. */
  take(chunk: Buffer): boolean {
    this.#held = false;
    this.#onData(chunk);
    return !this.#paused;
  }

  get holdsChunk(): boolean {
    return this.#held || this.#chunk !== null;
  }

  readonly #onEnd = (): void => {
    this.#peerEnded = true;
    if (this.#phase === 'idle' || this.#phase === 'closed') this.destroy();
    else this.#advance();
  };

  readonly #onDrain = (): void => {
    if (this.#stream !== null && this.writer.drained()) this.#stream.receiver.backendWritable();
  };

  readonly #onError = (error: Error): void => {
    if (this.#stream !== null) this.#failCut(error.message);
  };

  readonly #onClose = (): void => {
    if (this.#stream !== null) this.#failCut('connection closed');
    this.#phase = 'closed';
    this.#options.onClose(this);
  };

  // ---- reading ---------------------------------------------------------------------------------------------------

  #advance(): void {
    if (this.#advancing) return;
    this.#advancing = true;
    const stream = this.#stream;
    while (this.#step()) if (this.#chunk !== null && this.#at === this.#chunk.length) this.#chunk = null;
    this.#advancing = false;
    if (stream !== null && stream === this.#stream) stream.receiver.responseFlush();
  }

  /** One head, one piece of a body, or its end. False when there is nothing to do until something happens. */
  #step(): boolean {
    if (this.#phase !== 'head' && this.#phase !== 'body') return false;
    if (this.#paused) return false;
    if (this.#phase === 'body' && this.#decoder.ended) {
      this.#complete(this.#decoder.trailers);
      return false;
    }
    if (this.#chunk === null) {
      if (this.#peerEnded) this.#takeEnd();
      return false;
    }
    if (this.#phase === 'head') this.#readHead(this.#chunk);
    else this.#readBody(this.#chunk);
    return true;
  }

  #readHead(chunk: Buffer): void {
    const limits = this.#options.limits();
    const reader = this.#headReader;
    const progress = reader.read(chunk, this.#at, limits.headerSize, limits.headerSize);
    this.#at = reader.offset;
    if (progress === 'more') return;
    if (progress !== 'complete') {
      this.#fail('upstream-bad-response', progress);
      return;
    }
    if (reader.start > 0) {
      // Only a server may pass over an empty line (RFC 9112 §2.2); here it is the rest of something else.
      this.#fail('upstream-bad-response', 'empty line before the answer');
      return;
    }
    const stream = this.#stream!;
    const head = parseResponseHead(reader.text, reader.start, reader.end, stream.method, limits);
    reader.release();
    if (head instanceof Fault) this.#failWith(head);
    else if (!stream.begun) this.#fail('upstream-bad-response', 'an answer before the request');
    else if (head.status >= 200) this.#takeHead(head, stream);
    else if (head.status === 101) this.#takeUpgrade(head, stream);
    else if (++this.#interim > interimMax) this.#fail('upstream-bad-response', 'too many interim answers');
    else stream.receiver.responseInformation(head.status, head.fields);
  }

  #takeHead(head: Http1ResponseHead, stream: Http1BackendStream): void {
    this.#head = head;
    this.#phase = 'body';
    if (head.framing === 'chunked') this.#decoder.startChunked(this.#options.limits());
    else if (head.framing === 'close') this.#decoder.startUntilClose();
    else this.#decoder.startLength(head.bodyLength);
    this.#options.onAnswer?.(this, head);
    stream.receiver.responseHead(head);
  }

  #readBody(chunk: Buffer): void {
    const decoder = this.#decoder;
    const event = decoder.next(chunk, this.#at);
    this.#at = decoder.offset;
    if (event === 'data') {
      const { receiver } = this.#stream!;
      receiver.responseData(decoder.data);
      this.#held = receiver.dataDone !== true;
    } else if (event === 'broken') this.#fail('upstream-bad-response', decoder.problem);
  }

  /** The backend ended its direction, and everything before that is consumed. */
  #takeEnd(): void {
    if (this.#phase === 'body' && this.#head!.framing === 'close') this.#complete(null);
    else this.#failCut('end of stream');
  }

  // ---- asked by the stream in work -------------------------------------------------------------------------------

  breakOff(): void {
    this.#release('closed');
    this.destroy();
  }

  pauseResponse(): void {
    this.#paused = true;
    this.#socket.pause();
  }

  resumeResponse(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#advance();
    if (!this.#paused && this.#phase !== 'tunnel') this.#socket.resume();
  }

  // ---- endings of an exchange ------------------------------------------------------------------------------------

  #complete(trailers: Fields | null): void {
    const stream = this.#stream!;
    // Bytes behind the response, or a request that is still being sent, would be mixed up with the next exchange.
    const reusable =
      this.#head!.persistent &&
      stream.requestEnded &&
      this.#chunk === null &&
      !this.#peerEnded &&
      !this.#socket.destroyed;
    this.#release(reusable ? 'idle' : 'closed');
    if (reusable) this.#options.onIdle(this);
    else this.destroy();
    stream.receiver.responseEnd(trailers);
  }

  #takeUpgrade(head: Http1ResponseHead, stream: Http1BackendStream): void {
    if (!stream.upgradeAsked) {
      this.#fail('upstream-bad-response', 'a 101 that nobody asked for');
      return;
    }
    if (head.fields.has(FieldId.Upgrade) && !namesOnly(head.fields, FieldId.Upgrade, 'websocket')) {
      this.#fail('upstream-bad-response', 'a 101 to another protocol than asked for');
      return;
    }
    const socket = this.#socket;
    const early = this.#at === this.#chunk!.length ? null : this.#chunk!.subarray(this.#at);
    this.#held = true;
    this.#release('tunnel');
    this.#options.onAnswer?.(this, head);
    socket.off('data', this.#onData);
    // Whoever gets the tunnel reads a stream.
    const { reads } = this.#options;
    if (reads != null) reads.taker = { take: (chunk) => socket.push(chunk), holdsChunk: true };
    socket.off('end', this.#onEnd);
    socket.off('drain', this.#onDrain);
    socket.off('error', this.#onError);
    socket.pause();
    if (early !== null) socket.unshift(early);
    stream.receiver.upgraded(head, socket);
  }

  /** The connection broke. What it means depends on how far the exchange had come. */
  #failCut(detail: string): void {
    if (this.#answering) this.#fail('upstream-cut', detail);
    // Nothing was written: another connection may serve the request as if this one had never been.
    else this.#fail(this.#stream!.begun ? 'upstream-reset' : 'upstream-refused', detail);
  }

  #fail(kind: FaultCode, detail: string): void {
    this.#failWith(new Fault(kind, `${this.#options.address}: ${detail}`));
  }

  #failWith(fault: Fault): void {
    const { receiver } = this.#stream!;
    this.#release('closed');
    this.destroy();
    this.#options.onFailed?.(this, fault);
    receiver.responseFailed(fault);
  }

  #release(phase: 'idle' | 'tunnel' | 'closed'): void {
    this.#stream?.release();
    this.#stream = null;
    this.#head = null;
    this.#chunk = null;
    this.#phase = phase;
    this.#headReader.release();
    if (phase !== 'idle' || !this.#paused) return;
    this.#paused = false;
    this.#socket.resume();
  }
}
