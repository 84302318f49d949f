// One HTTP/2 connection to a backend, by node:http2's client, and how it comes to be.
// Invariant: never more streams at a time than the backend allows; once it is closing (GOAWAY, retired, dead) it takes no
// new stream, and it is gone from its pool as soon as its last stream is.
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import type { Socket } from 'node:net';
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';
import { Fault } from '../base/fault.ts';
import type { RequestHead } from '../message/head.ts';
import type { BackendReceiver, BackendStream } from '../message/stream.ts';
import type { AnswerLimits } from './ask.ts';
import type { Attempt, ConnectListener, Connector } from './connect.ts';
import { requestLines } from './h2-fields.ts';
import { H2BackendStream, type H2StreamHost } from './h2-stream.ts';
import type { Ledger } from './ledger.ts';
import { type Dial, type Pool, PooledConnection } from './pool.ts';

/** Streams on one connection, if the backend allows as many: beyond it, another connection spreads the load. */
export const streamsPerConnection = 100;
/** What a stalled client makes us hold for one answer; also what keeps a fast one busy over a round trip. */
const streamWindow = 256 * 1024;
const connectionWindow = 4 * 1024 * 1024;
/** A connection on which an answer failed to come has this long to acknowledge a PING. */
const pingTimeoutMs = 5_000;

const fixedOptions = {
  maxReservedRemoteStreams: 0,
  // A proxy passes on what it got; which fields may repeat is between client and backend.
  strictSingleValueFields: false,
};

export interface H2Options {
  readonly address: string;
  readonly scheme: 'http' | 'https';
  readonly deadlines: Deadlines;
  readonly ledger: Ledger;
  readonly limits: () => AnswerLimits;
}

/** From address to a session whose SETTINGS have arrived. */
export class H2Dial implements Dial, ConnectListener, DeadlineHolder {
  deadlineAt = 0;
  deadlinePlace = -1;
  readonly #pool: Pool;
  readonly #options: H2Options;
  readonly #attempt: Attempt;
  readonly #startedAt: number;
  readonly #timeoutMs: number;
  #session: H2Session | null = null;
  #done = false;

  constructor(pool: Pool, connector: Connector, timeoutMs: number, options: H2Options) {
    this.#pool = pool;
    this.#options = options;
    this.#timeoutMs = timeoutMs;
    this.#startedAt = options.deadlines.now;
    this.#attempt = connector.connect(timeoutMs, this);
  }

  connected(socket: Socket): void {
    const { deadlines } = this.#options;
    this.deadlineAt = this.#startedAt + this.#timeoutMs;
    deadlines.add(this);
    this.#session = new H2Session(socket, this.#pool, this.#options, this);
  }

  connectFailed(fault: Fault): void {
    this.#end();
    this.#pool.dialFailed(this, fault);
  }

  /** The backend's SETTINGS are here: it does speak h2, and says how much it takes. */
  settled(session: H2Session): void {
    if (this.#done) return;
    this.#end();
    this.#pool.dialled(this, session);
  }

  /** The connection ended before that. */
  broke(cause: Error | null): void {
    if (this.#done) return;
    this.#end();
    const detail = `${this.#options.address}: no HTTP/2 there${cause === null ? '' : ` (${cause.message})`}`;
    this.#pool.dialFailed(this, new Fault('upstream-refused', detail));
  }

  deadlineReached(): void {
    const session = this.#session;
    this.#end();
    session?.destroy();
    const detail = `${this.#options.address}: connected, but sent no HTTP/2 SETTINGS`;
    this.#pool.dialFailed(this, new Fault('upstream-connect-timeout', detail));
  }

  destroy(): void {
    this.#end();
    this.#attempt.destroy();
    this.#session?.destroy();
  }

  #end(): void {
    this.#done = true;
    this.#options.deadlines.remove(this);
  }
}

export class H2Session extends PooledConnection implements H2StreamHost, DeadlineHolder {
  /** Set while a PING is under way. */
  deadlineAt = 0;
  deadlinePlace = -1;
  readonly #session: ClientHttp2Session;
  readonly #pool: Pool;
  readonly #options: H2Options;
  #dial: H2Dial | null;
  #inWork = 0;
  #served = 0;
  #most = 0;
  #extendedConnect = false;
  #closing = false;
  #error: Error | null = null;

  constructor(socket: Socket, pool: Pool, options: H2Options, dial: H2Dial) {
    super();
    this.#pool = pool;
    this.#options = options;
    this.#dial = dial;
    const { headerSize, headerCount } = options.limits();
    const session = connect(`${options.scheme}://${options.address}`, {
      ...fixedOptions,
      // A field line counts 32 bytes beyond its text (RFC 9113 §6.5.2); one more line for `:status`.
      settings: {
        enablePush: false,
        initialWindowSize: streamWindow,
        maxHeaderListSize: headerSize + 32 * headerCount,
      },
      maxHeaderListPairs: headerCount + 1,
      createConnection: () => socket,
    });
    this.#session = session;
    session.on('remoteSettings', this.#onSettings);
    session.on('goaway', this.#onGoaway);
    session.on('error', this.#onError);
    session.on('close', this.#onClose);
    session.on('connect', this.#onConnect);
    options.deadlines.add(this);
  }

  get room(): number {
    return this.#closing ? 0 : this.#most - this.#inWork;
  }

  get inWork(): number {
    return this.#inWork;
  }

  get extendedConnect(): boolean {
    return this.#extendedConnect;
  }

  get error(): Error | null {
    return this.#error;
  }

  get headerSize(): number {
    return this.#options.limits().headerSize;
  }

  open(receiver: BackendReceiver): BackendStream {
    const { address, ledger } = this.#options;
    this.#inWork++;
    ledger.began();
    return new H2BackendStream(this, address, this.#served++ > 0, receiver, ledger);
  }

  request(head: RequestHead, endStream: boolean, waitForTrailers: boolean): ClientHttp2Stream | null {
    const session = this.#session;
    if (session.closed || session.destroyed) return null;
    return session.request(requestLines(head, this.#options.scheme), { endStream, waitForTrailers });
  }

  streamEnded(): void {
    this.#inWork--;
    this.#options.ledger.ended();
    if (this.#closing && this.#inWork === 0) this.#session.close();
    this.#pool.freed(this);
  }

  suspect(): void {
    const session = this.#session;
    if (this.deadlineAt !== 0 || session.destroyed) return;
    if (session.ping(this.#onPong)) this.deadlineAt = this.#options.deadlines.in(pingTimeoutMs);
  }

  deadlineReached(): void {
    this.#error = new Error('PING not acknowledged');
    this.destroy();
  }

  retire(): void {
    this.#closing = true;
    if (this.#inWork === 0) this.#session.close();
  }

  destroy(): void {
    this.#closing = true;
    this.#session.destroy();
  }

  readonly #onConnect = (): void => {
    this.#session.setLocalWindowSize(connectionWindow);
  };

  readonly #onSettings = (): void => {
    const { maxConcurrentStreams = streamsPerConnection, enableConnectProtocol } = this.#session.remoteSettings;
    this.#most = Math.min(maxConcurrentStreams, streamsPerConnection);
    this.#extendedConnect = enableConnectProtocol === true;
    const dial = this.#dial;
    this.#dial = null;
    if (dial === null) this.#pool.freed(this);
    else dial.settled(this);
  };

  // node:http2 closes the session itself, gracefully for NO_ERROR, and resets the streams that the backend will not
  // answer with REFUSED_STREAM (RFC 9113 §6.8).
  readonly #onGoaway = (): void => {
    this.#closing = true;
  };

  readonly #onError = (error: Error): void => {
    this.#closing = true;
    this.#error ??= error;
  };

  readonly #onClose = (): void => {
    this.#closing = true;
    this.#options.deadlines.remove(this);
    const dial = this.#dial;
    this.#dial = null;
    if (dial === null) this.#pool.closed(this);
    else dial.broke(this.#error);
  };

  readonly #onPong = (error: Error | null): void => {
    if (error === null) this.deadlineAt = 0;
  };
}
