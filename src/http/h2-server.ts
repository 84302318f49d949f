// One HTTP/2 connection of a client, on node:http2's session and our own limits.
// Invariant: a client that only opens and resets, floods, or stalls in the middle of something costs a bounded amount and
// is then cut off; requests are dispatched one turn after their arrival, when their cancels have been read as well.
import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';
import type { Fault } from '../base/fault.ts';
import type { ClientStream, ConnectionFacts } from '../message/stream.ts';
import type { EntrypointLimits } from '../model/snapshot.ts';
import { Allowance } from './allowance.ts';
import { H2ClientStream, keepTrailers, type StreamOwner } from './h2-client-stream.ts';
import { readRequest } from './h2-request.ts';

/** Why a connection was ended for what its client did. */
export type CutOff =
  /** No SETTINGS. */
  | 'silent'
  /** A header block that does not end. */
  | 'stalled'
  /** Requests that are cancelled or broken off as soon as they are sent. */
  | 'resets'
  /** PING and SETTINGS without end. */
  | 'control-frames'
  /** nghttp2's verdict: malformed frames, or a flood of those that it counts. */
  | 'protocol';

/** What a connection needs of the handler. */
export interface H2Host {
  readonly deadlines: Deadlines;
  /** Asked anew for each request: limits are reloadable. */
  limitsOf(entrypoint: string): EntrypointLimits;
  handle(stream: ClientStream): void;
  /** A request that must be refused, with a stream to answer it on. */
  refuse(stream: ClientStream, fault: Fault): void;
  cutOff(why: CutOff): void;
  /** It ends, because nothing was asked on it for too long. */
  idleClosed(): void;
}

/** Both peers begin with SETTINGS (RFC 9113 §3.4). */
const settingsTimeoutMs = 5000;
/** What one stalled upload may keep here, and all of a connection together. */
const streamWindow = 256 * 1024;
const connectionWindow = 1024 * 1024;
const windowUpdateFrame = 13;
/** Streams that may come to nothing: as many as a page has when it is left, and some for every second after that. */
const wasteBurst = 100;
const wastePerSecond = 20;
/** How often a connection is looked at for streams that nghttp2 refused before anybody saw them. */
const watchMs = 250;
/** Nobody has a reason for more SETTINGS, nor for more PINGs while nothing is in work. */
const controlBurst = 500;
const controlPerSecond = 10;

/** The socket is unread, or what was read of it has been unshifted. */
export function serveHttp2(socket: Socket, facts: ConnectionFacts, host: H2Host): H2Connection {
  return new H2Connection(socket, facts, host);
}

interface Arrival {
  readonly stream: ServerHttp2Stream;
  readonly raw: readonly string[];
  readonly ended: boolean;
}

export class H2Connection implements DeadlineHolder, StreamOwner {
  deadlineAt = 0;
  deadlinePlace = -1;
  readonly #socket: Socket;
  readonly #facts: ConnectionFacts;
  readonly #host: H2Host;
  readonly #session: ServerHttp2Session;
  readonly #streams = new Set<H2ClientStream>();
  /** Streams whose header block arrived in this turn. */
  #arrivals: Arrival[] = [];
  #settled = false;
  #draining = false;
  #closed = false;
  /** While no stream is open: since when, and what the socket had read by then. */
  #idleSince = 0;
  #idleBytes = 0;
  /** When an idle connection is looked at for half a header block. */
  #judgedAt = 0;
  /** The latest stream that we have seen, or know to have been refused unseen. */
  #lastStreamId = -1;
  readonly #waste = new Allowance(wasteBurst, wastePerSecond);
  readonly #control = new Allowance(controlBurst, controlPerSecond);

  constructor(socket: Socket, facts: ConnectionFacts, host: H2Host) {
    this.#socket = socket;
    this.#facts = facts;
    this.#host = host;
    const { h2Streams, headerSize, headerCount } = this.#limits;
    socket.on('error', ignore);
    socket.on('close', () => this.#onClose());
    this.#session = performServerHandshake(socket, {
      settings: {
        enableConnectProtocol: true,
        maxConcurrentStreams: h2Streams,
        initialWindowSize: streamWindow,
        // Above our own limits, so that what is over them can be answered 431 instead of being reset.
        maxHeaderListSize: headerSize * 2,
      },
      maxHeaderListPairs: headerCount * 2 + 16,
      strictSingleValueFields: false,
      streamResetBurst: wasteBurst,
      streamResetRate: wastePerSecond,
    });
    const session = this.#session;
    session.setLocalWindowSize(connectionWindow);
    session.on('stream', (stream, _headers, flags, raw: readonly string[]) => this.#arrived(stream, flags, raw));
    session.on('error', (error: NodeJS.ErrnoException) => this.#failed(error));
    session.on('close', () => socket.destroySoon());
    session.on('ping', () => this.#ping());
    session.on('localSettings', () => this.#wholeFrame());
    session.on('remoteSettings', () => this.#settings());
    this.deadlineAt = host.deadlines.in(settingsTimeoutMs);
    host.deadlines.add(this);
    if (socket.destroyed) this.#onClose();
  }

  get gone(): boolean {
    return this.#closed || this.#session.destroyed;
  }

  /** No request is in work. */
  get idle(): boolean {
    return this.#streams.size === 0 && this.#arrivals.length === 0;
  }

  /**
   * Ends when the requests in work are answered. One GOAWAY with the last stream id that we take: clients repeat elsewhere
   * what is above it (RFC 9113 §6.8). The two-step form, a GOAWAY that refuses nothing and a final one a round trip later,
   * cannot be had: after any GOAWAY of ours nghttp2 ignores new streams without a word until the last one is sent.
   */
  drain(): void {
    if (this.#draining || this.#closed) return;
    this.#draining = true;
    this.deadlineAt = 0;
    const session = this.#session;
    if (!session.destroyed && !session.closed) session.close();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  deadlineReached(): void {
    if (!this.#settled) {
      this.#host.cutOff('silent');
      this.destroy();
      return;
    }
    const { deadlines } = this.#host;
    this.deadlineAt = deadlines.in(watchMs);
    if (!this.#session.destroyed) this.#countRefused(this.#session.state.lastProcStreamID ?? 0);
    if (!this.idle || this.#session.destroyed || this.#draining) return;
    const { keepAliveTimeoutMs, headerTimeoutMs } = this.#limits;
    const { now } = deadlines;
    if (now - this.#idleSince >= keepAliveTimeoutMs) {
      this.#host.idleClosed();
      this.drain();
    } else if (now < this.#judgedAt) return;
    else if (this.#stalled()) this.#cutOff('stalled');
    else this.#judgedAt = now + headerTimeoutMs;
  }

  streamClosed(stream: H2ClientStream, wasted: boolean): void {
    this.#streams.delete(stream);
    if (wasted) this.#wasted();
    if (this.idle) this.#becomeIdle();
  }

  get #limits(): EntrypointLimits {
    return this.#host.limitsOf(this.#facts.entrypoint);
  }

  // ---- inside ----------------------------------------------------------------------------------------------------

  #settings(): void {
    this.#wholeFrame();
    this.#controlFrame();
    if (this.#settled) return;
    this.#settled = true;
    if (this.idle) this.#becomeIdle();
  }

  /** While something is in work, a PING may well measure the path with every burst of data; gRPC does. */
  #ping(): void {
    this.#wholeFrame();
    if (this.idle) this.#controlFrame();
  }

  /** nghttp2 ends a client that does not read the acknowledgements; one that reads them could go on for ever. */
  #controlFrame(): void {
    if (!this.#control.take(this.#host.deadlines.now)) this.#cutOff('control-frames');
  }

  /**
   * A stream came to nothing through its client. nghttp2 counts the resets that a client sends, but not those that a
   * client makes us send, by trailers or a body that are wrong.
   */
  #wasted(): void {
    if (!this.#waste.take(this.#host.deadlines.now)) this.#cutOff('resets');
  }

  /**
   * Header blocks that are too much (a field of the table named ten thousand times) are refused by node:http2, and cost
   * their unpacking; nobody hears of them. The numbers of streams tell: those between the last one seen and `upTo`.
   */
  #countRefused(upTo: number): void {
    if (upTo === 0) return;
    while (this.#lastStreamId < upTo && !this.#session.destroyed) {
      this.#lastStreamId += 2;
      this.#wasted();
    }
  }

  /** What was read so far is accounted for. */
  #wholeFrame(): void {
    this.#idleBytes = this.#socket.bytesRead;
  }

  #becomeIdle(): void {
    const { deadlines } = this.#host;
    this.#idleSince = deadlines.now;
    this.#wholeFrame();
    this.#judgedAt = deadlines.now + this.#limits.headerTimeoutMs;
    if (this.#settled && !this.#draining) this.deadlineAt = deadlines.in(watchMs);
  }

  /**
   * Half a header block shows only in bytes that led to nothing: node:http2 reports nothing before its end. It does not
   * report WINDOW_UPDATEs either, which may come at any time; they are told by their size.
   */
  #stalled(): boolean {
    return (this.#socket.bytesRead - this.#idleBytes) % windowUpdateFrame !== 0;
  }

  /** Sends GOAWAY; the `error` event of the session then destroys the socket. */
  #cutOff(why: CutOff): void {
    if (this.#session.destroyed) return;
    this.#host.cutOff(why);
    this.#session.destroy(cutOffError, constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  /** The session is done for, but a peer that never reads would keep the socket open. */
  #failed(error: NodeJS.ErrnoException): void {
    if (error.code?.startsWith('ERR_HTTP2_') === true) this.#host.cutOff('protocol');
    this.#socket.destroy();
  }

  #arrived(stream: ServerHttp2Stream, flags: number, raw: readonly string[]): void {
    const id = stream.id ?? 0;
    this.#countRefused(id - 2);
    this.#lastStreamId = id;
    // A stream that is reset in this turn still reports its error.
    stream.on('error', ignore);
    const ended = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    if (!ended) keepTrailers(stream);
    if (this.#arrivals.push({ stream, raw, ended }) === 1) setImmediate(dispatch, this);
  }

  /** For `setImmediate` alone. */
  dispatch(): void {
    const arrivals = this.#arrivals;
    this.#arrivals = [];
    const limits = this.#limits;
    for (const { stream, raw, ended } of arrivals) {
      if (stream.closed || stream.destroyed) {
        this.#wasted();
        continue;
      }
      const { head, problem } = readRequest(raw, ended, limits);
      const request = new H2ClientStream(stream, head, ended, this.#facts, this);
      this.#streams.add(request);
      if (problem === null) this.#host.handle(request);
      else this.#host.refuse(request, problem);
    }
    if (this.idle) this.#becomeIdle();
  }

  #onClose(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#host.deadlines.remove(this);
    if (!this.#session.destroyed) this.#session.destroy();
  }
}

function dispatch(connection: H2Connection): void {
  connection.dispatch();
}

const cutOffError = new Error('cut off');
const ignore = (): void => {};
