// One client connection that speaks HTTP/1.1 or HTTP/1.0: reads requests one at a time and hands each over as a stream.
// Invariant: one request is in work at a time; bytes behind it wait unread, in bounded number; a message is only begun
// after the one before it was read to its end, so nothing left over is ever taken for a request.
import type { Socket } from 'node:net';
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';
import { Fault, type FaultCode } from '../base/fault.ts';
import { type RequestHead, unknownLength } from '../message/head.ts';
import type { ClientStream, ConnectionFacts } from '../message/stream.ts';
import { BodyDecoder } from './body-decoder.ts';
import { type HeadProgress, HeadReader } from './head-reader.ts';
import { closeCutShort, closeLingering } from './lingering-close.ts';
import { MessageWriter } from './message-writer.ts';
import { ReceivedBytes } from './received-bytes.ts';
import { type HeadLimits, type Http1RequestHead, parseRequestHead, requestLineSlack } from './request-head.ts';
import { ServerStream, type StreamHost } from './server-stream.ts';

export interface ServerLimits extends HeadLimits {
  readonly headerTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
}

export interface ServerConnectionOptions {
  readonly facts: ConnectionFacts;
  readonly deadlines: Deadlines;
  /** Asked anew for each request: limits are reloadable. */
  limits(): ServerLimits;
  onRequest(stream: ClientStream): void;
  /** The complete bytes of an error answer, `Connection: close` included. */
  answerFault(fault: Fault, head: RequestHead | null): Buffer;
  /** A message was refused before any exchange could see it. */
  onRefused(fault: Fault): void;
  /** Nothing was asked for too long: it ends, without a word. */
  onIdleTimeout(): void;
  /** The socket is closed; comes once, also after the socket was handed over by an upgrade. */
  onClose(): void;
}

/** How long a client that sent FIN is taken for one that still wants its answer. */
const halfCloseGraceMs = 750;
/** What is read and dropped of a body after its answer, to keep the connection. */
const skipSize = 256 * 1024;
/** How long that may take. */
const skipMs = 2000;

type Phase =
  /** Between two messages, or inside a head. */
  | 'head'
  /** An exchange works on a request; its body may still be arriving. */
  | 'work'
  /** Answered; the rest of the body is read and dropped. */
  | 'skip'
  /** Handed over by an upgrade. */
  | 'tunnel'
  /** Closed, or on its way to be. */
  | 'closed';

export class ServerConnection implements DeadlineHolder, StreamHost {
  deadlineAt = 0;
  deadlinePlace = -1;
  readonly socket: Socket;
  readonly writer: MessageWriter;
  readonly #options: ServerConnectionOptions;
  readonly #headReader = new HeadReader();
  readonly #decoder = new BodyDecoder();
  #phase: Phase = 'head';
  #stream: ServerStream | null = null;
  readonly #received: ReceivedBytes;
  /** `#advance` is on the stack: whoever changes the state leaves the going on to it. */
  #advancing = false;
  #bodyPaused = false;
  /** The body in work is dropped as it arrives. */
  #discarding = false;
  /** Bytes that may still be dropped. */
  #skipLeft = 0;
  #continued = false;
  /** No byte of a head yet since the last answer. */
  #quiet = false;
  #peerEnded = false;
  #draining = false;

  constructor(socket: Socket, options: ServerConnectionOptions) {
    this.socket = socket;
    this.writer = new MessageWriter(socket);
    this.#received = new ReceivedBytes(socket);
    this.#options = options;
    // A FIN of the client must not end our own direction: an answer may be under way.
    socket.allowHalfOpen = true;
  }

  /** `initial`: bytes that were read from the socket to find out its protocol. */
  start(initial: Buffer | null): void {
    const { socket } = this;
    const { deadlines } = this.#options;
    if (socket.destroyed) {
      this.#phase = 'closed';
      this.#options.onClose();
      return;
    }
    this.deadlineAt = deadlines.in(this.#options.limits().headerTimeoutMs);
    deadlines.add(this);
    socket.on('error', ignore);
    socket.on('close', this.#onClose);
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('drain', this.#onDrain);
    if (initial !== null && initial.length > 0) this.#onData(initial);
    if (this.#phase !== 'tunnel') this.#received.start();
  }

  /** No request is in work and none has begun. */
  get idle(): boolean {
    return this.#phase === 'head' && this.#received.chunk === null && !this.#headReader.partial;
  }

  /** Closes when idle, else with the answer in work. A tunnel is not ours to end. */
  drain(): void {
    this.#draining = true;
    if (this.idle) this.#linger();
  }

  destroy(): void {
    this.socket.destroy();
  }

  // ---- deadlines -------------------------------------------------------------------------------------------------

  deadlineReached(): void {
    switch (this.#phase) {
      case 'head':
        if (this.idle) {
          this.#options.onIdleTimeout();
          this.#linger();
        } else this.#refuse('request-timeout', 'head not complete in time');
        break;
      case 'work':
        // The client sent FIN, and its grace is over. Once the answer is on its way, a write will tell whether it is gone.
        if (this.#peerEnded && !this.#stream?.answering) this.#clientGone('FIN and no answer yet');
        break;
      case 'skip':
        this.#linger();
        break;
    }
  }

  // ---- socket events ---------------------------------------------------------------------------------------------

  readonly #onData = (chunk: Buffer): void => {
    this.#received.add(chunk);
    this.#advance();
  };

  readonly #onEnd = (): void => {
    this.#peerEnded = true;
    // A TLS client that ends its direction is gone, and so is one that ends it in the middle of a handshake for more.
    if (this.#phase === 'work' && (this.#options.facts.tls !== null || this.#stream?.head.upgrade !== '')) {
      this.#clientGone('end of stream');
      return;
    }
    if (this.#phase === 'work' && !this.#stream?.answering) {
      this.deadlineAt = this.#options.deadlines.in(halfCloseGraceMs);
    }
    this.#advance();
  };

  readonly #onDrain = (): void => {
    if (this.#stream === null) this.#advance();
    else if (this.writer.drained()) this.#stream.receiver.clientWritable();
  };

  readonly #onClose = (): void => {
    const stream = this.#stream;
    this.#leave('closed');
    stream?.fail(new Fault('client-gone', 'connection closed'));
    this.#options.onClose();
  };

  // ---- reading ---------------------------------------------------------------------------------------------------

  /** Goes on with what is there, as far as the state allows. */
  #advance(): void {
    if (this.#advancing) return;
    this.#advancing = true;
    while (this.#step());
    this.#advancing = false;
    if (this.#reading) this.#received.regulate(this.#phase === 'work' && this.#decoder.ended);
  }

  /** One step: a head, a piece of a body, an end. False when there is nothing to do until something happens. */
  #step(): boolean {
    switch (this.#phase) {
      case 'head':
        if (this.#received.chunk === null) {
          if (this.#peerEnded) this.#linger();
          return false;
        }
        // A client that sends requests and reads no answers waits until it does.
        return !this.socket.writableNeedDrain && this.#readHead(this.#received.chunk);
      case 'work':
        if (this.#discarding) return this.#dropBody();
        if (!this.#bodyPaused) return this.#readBody();
        if (this.bodyWaits) this.#stream?.receiver.bodyArrived?.();
        return !this.#bodyPaused;
      case 'skip':
        return this.#dropBody() || this.#endSkip();
      default:
        return false;
    }
  }

  #readHead(chunk: Buffer): boolean {
    const limits = this.#options.limits();
    const reader = this.#headReader;
    // What follows the target on its line: SP, version, CR.
    const maxLine = limits.targetSize + requestLineSlack + 10;
    const progress = reader.read(chunk, this.#received.at, maxLine, limits.headerSize);
    this.#received.consume(reader.offset);
    if (progress === 'complete') {
      const head = parseRequestHead(reader.text, reader.start, reader.end, limits);
      reader.release();
      if (head instanceof Fault) this.#answerRefused(head);
      else this.#begin(head, limits);
      return true;
    }
    if (progress !== 'more') {
      this.#refuse(refusals[progress], progress);
      return true;
    }
    if (this.#quiet) {
      // The head phase of a later request begins with its first byte and ends at its limit, however the bytes drip.
      this.#quiet = false;
      this.deadlineAt = this.#options.deadlines.in(limits.headerTimeoutMs);
    }
    return true;
  }

  #begin(head: Http1RequestHead, limits: HeadLimits): void {
    this.deadlineAt = this.#peerEnded ? this.#options.deadlines.in(halfCloseGraceMs) : 0;
    if (head.bodyLength === unknownLength) this.#decoder.startChunked(limits);
    else this.#decoder.startLength(head.bodyLength);
    this.#phase = 'work';
    this.#bodyPaused = true;
    this.#discarding = false;
    this.#continued = false;
    this.#skipLeft = skipSize;
    this.#stream = new ServerStream(this, this.#options.facts, head);
    this.#options.onRequest(this.#stream);
  }

  #readBody(): boolean {
    const stream = this.#stream;
    if (stream === null || stream.bodyEnded) return false;
    const decoder = this.#decoder;
    const received = this.#received;
    if (!decoder.ended && received.chunk !== null) {
      const event = decoder.next(received.chunk, received.at);
      received.consume(decoder.offset);
      if (event === 'data') {
        stream.receiver.requestData(decoder.data);
        return true;
      }
      if (event === 'broken') {
        this.#breakIn(new Fault('bad-request', decoder.problem));
        return true;
      }
      if (event === 'more') return true;
    }
    if (decoder.ended) {
      stream.bodyEnded = true;
      stream.receiver.requestEnd(decoder.trailers);
      return true;
    }
    if (this.#peerEnded) this.#clientGone('end of stream inside a body');
    return false;
  }

  /** Reads and drops a piece of a body, within bounds. */
  #dropBody(): boolean {
    const received = this.#received;
    if (received.chunk === null || this.#decoder.ended || this.#skipLeft < 0) return false;
    const before = received.at;
    if (this.#decoder.next(received.chunk, before) === 'broken') this.#skipLeft = -1;
    this.#skipLeft -= this.#decoder.offset - before;
    received.consume(this.#decoder.offset);
    return true;
  }

  /** The connection goes on once the rest of the body is gone, and ends when that takes too much. */
  #endSkip(): boolean {
    if (this.#decoder.ended) {
      this.#awaitHead();
      return true;
    }
    if (this.#skipLeft < 0 || this.#peerEnded) this.#linger();
    return false;
  }

  get #reading(): boolean {
    return this.#phase !== 'tunnel' && this.#phase !== 'closed';
  }

  // ---- asked by the stream in work -------------------------------------------------------------------------------

  endsWith(status: number): boolean {
    const { head } = this.#stream!;
    if (this.#draining || head.upgrade !== '') return true;
    if (this.#peerEnded && this.#received.chunk === null) return true;
    if (this.#decoder.ended) return false;
    // Without a 100 nobody knows whether the body will follow (RFC 9110 §10.1.1).
    if (head.expectContinue && !this.#continued) return true;
    // Whoever stopped in the middle of a body may not finish it with what looks like something else (RFC 9110 §15.5.9).
    if (status === 408) return true;
    // An error before the end of an upload: say so now if the rest is too much to be dropped.
    const { remaining } = this.#decoder;
    return status >= 400 && (remaining < 0 || remaining > skipSize);
  }

  get bodyWaits(): boolean {
    return this.#bodyPaused && this.#received.chunk !== null && !this.#decoder.ended;
  }

  continued(): void {
    this.#continued = true;
  }

  answered(last: boolean): void {
    this.#stream = null;
    if (last) this.#linger();
    else if (this.#decoder.ended) this.#awaitHead();
    else {
      this.#phase = 'skip';
      this.deadlineAt = this.#options.deadlines.in(skipMs);
    }
    this.#advance();
  }

  breakOff(untilClose: boolean): void {
    const { socket } = this;
    this.#leave('closed');
    if (!untilClose) closeCutShort(socket, this.#options.deadlines);
    // Only a reset tells that the answer is not complete. TLS tells it by the missing close_notify.
    else if (this.#options.facts.tls === null) socket.resetAndDestroy();
    else socket.destroy();
  }

  pauseBody(): void {
    this.#bodyPaused = true;
  }

  resumeBody(): void {
    this.#bodyPaused = false;
    this.#advance();
  }

  discardBody(): void {
    this.#discarding = true;
    this.#advance();
  }

  handOver(): void {
    const { socket } = this;
    const early = this.#received.take();
    this.#leave('tunnel');
    socket.off('error', ignore);
    socket.pause();
    if (early !== null) socket.unshift(early);
  }

  // ---- endings ---------------------------------------------------------------------------------------------------

  #awaitHead(): void {
    this.#phase = 'head';
    this.#quiet = true;
    this.deadlineAt = this.#options.deadlines.in(this.#options.limits().keepAliveTimeoutMs);
    if (this.#draining && this.#received.chunk === null) this.#linger();
  }

  #refuse(kind: FaultCode, detail: string): void {
    this.#answerRefused(new Fault(kind, detail));
  }

  /** Answers what could not be read as a request, and ends. */
  #answerRefused(fault: Fault): void {
    this.#options.onRefused(fault);
    this.socket.write(this.#options.answerFault(fault, null));
    this.#linger();
  }

  /** The body in work cannot be read: answered here while there is still an answer to give, cut off otherwise. */
  #breakIn(fault: Fault): void {
    const stream = this.#stream!;
    this.#stream = null;
    if (stream.answering) {
      this.destroy();
    } else {
      this.socket.write(this.#options.answerFault(fault, stream.head));
      this.#linger();
    }
    stream.fail(fault);
  }

  #clientGone(detail: string): void {
    const stream = this.#stream;
    this.#leave('closed');
    this.destroy();
    stream?.fail(new Fault('client-gone', detail));
  }

  #linger(): void {
    this.#leave('closed');
    closeLingering(this.socket, this.#options.deadlines, this.#options.limits().keepAliveTimeoutMs);
  }

  /** No more requests from here on. */
  #leave(phase: 'tunnel' | 'closed'): void {
    const { socket } = this;
    this.#phase = phase;
    this.#stream = null;
    this.#received.take();
    this.#headReader.release();
    this.deadlineAt = 0;
    this.#options.deadlines.remove(this);
    socket.off('data', this.#onData);
    socket.off('end', this.#onEnd);
    socket.off('drain', this.#onDrain);
  }
}

const refusals: Record<Exclude<HeadProgress, 'more' | 'complete'>, FaultCode> = {
  'bad line end': 'bad-request',
  'line too long': 'target-too-long',
  'head too large': 'head-too-large',
};

const ignore = (): void => {};
