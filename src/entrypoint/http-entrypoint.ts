// Plaintext HTTP: tells HTTP/2 with prior knowledge from HTTP/1.1 by the first bytes, and opens the engine for it.
// Invariant: however the bytes are cut the choice is the same, and the engine gets every one of them, unchanged.
import type { Socket } from 'node:net';
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';
import type { Fault } from '../base/fault.ts';
import { ServerConnection, type ServerConnectionOptions, type ServerLimits } from '../http1/server-connection.ts';
import type { RequestHead } from '../message/head.ts';
import type { ClientStream, ConnectionFacts, TlsFacts } from '../message/stream.ts';
import type { Connection, Served, Speak } from './connection.ts';
import { beginsAs, preface } from './sniff.ts';

/** What `http/` offers to connections of every kind. */
export interface HttpSide {
  handle(stream: ClientStream): void;
  /** The complete answer to what could not become a request. */
  answerFault(fault: Fault, head: RequestHead | null): Buffer;
  /** It happened: count and log it. */
  refused(fault: Fault, facts: ConnectionFacts): void;
  /** Nothing was asked on a connection for too long: count it. */
  idleClosed(): void;
}

export interface HttpDeps {
  readonly deadlines: Deadlines;
  readonly http: HttpSide;
  /** Speaks HTTP/2 on a connection whose preface has not been read yet (or was put back). */
  serveHttp2(socket: Socket, facts: ConnectionFacts): Served;
}

export function httpEntrypoint(deps: HttpDeps): Speak {
  return (connection) => {
    new FirstBytes(connection, connection.socket, true, deps, (protocol, initial) => {
      connection.accepted(protocol === 'http2' ? 'h2c' : 'http1');
      if (protocol === 'http2') openHttp2(connection, connection.socket, null, initial, deps);
      else openHttp1(connection, connection.socket, null, initial, deps);
    }).start();
  };
}

/** Null: the bytes so far are a beginning of the HTTP/2 preface (RFC 9113 §3.4), and it needs more of them to tell. */
export function sniffHttp(bytes: Buffer): 'http1' | 'http2' | null {
  if (!beginsAs(bytes, 0, preface)) return 'http1';
  return bytes.length >= preface.length ? 'http2' : null;
}

/** Waits for a client to begin, for as long as a head may take. */
export class FirstBytes implements DeadlineHolder, Served {
  /** Nothing is in work before the first byte. */
  readonly idle = true;
  deadlineAt = 0;
  deadlinePlace = -1;
  readonly #connection: Connection;
  readonly #socket: Socket;
  readonly #sniff: boolean;
  readonly #deps: HttpDeps;
  readonly #onProtocol: (protocol: 'http1' | 'http2', initial: Buffer) => void;
  #bytes: Buffer | null = null;

  /** @param sniff  false: whatever comes is HTTP/1.1 */
  constructor(
    connection: Connection,
    socket: Socket,
    sniff: boolean,
    deps: HttpDeps,
    onProtocol: (protocol: 'http1' | 'http2', initial: Buffer) => void,
  ) {
    this.#connection = connection;
    this.#socket = socket;
    this.#sniff = sniff;
    this.#deps = deps;
    this.#onProtocol = onProtocol;
  }

  start(): void {
    const { deadlines } = this.#deps;
    this.deadlineAt = deadlines.in(this.#connection.limits.headerTimeoutMs);
    deadlines.add(this);
    this.#connection.serve(this, false);
    const socket = this.#socket;
    socket.on('error', ignore);
    socket.on('close', this.#release);
    socket.on('end', this.#onEnd);
    socket.on('data', this.#onData);
    // Whoever looked at it before put back what was read, and left it paused.
    socket.resume();
  }

  deadlineReached(): void {
    this.#connection.refused('sniff-timeout');
    this.#socket.destroy();
  }

  /** The first request had its time to arrive. */
  drain(): void {
    this.#socket.destroy();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  readonly #onData = (chunk: Buffer): void => {
    const bytes = this.#bytes === null ? chunk : Buffer.concat([this.#bytes, chunk]);
    const protocol = this.#sniff ? sniffHttp(bytes) : 'http1';
    if (protocol === null) {
      this.#bytes = bytes;
      return;
    }
    this.#release();
    this.#onProtocol(protocol, bytes);
  };

  /** Nothing, or half a preface, and a FIN. */
  readonly #onEnd = (): void => {
    this.#socket.destroy();
  };

  readonly #release = (): void => {
    const socket = this.#socket;
    this.deadlineAt = 0;
    this.#deps.deadlines.remove(this);
    socket.removeListener('data', this.#onData);
    socket.removeListener('end', this.#onEnd);
    socket.removeListener('close', this.#release);
  };
}

export function openHttp1(
  connection: Connection,
  socket: Socket,
  tls: TlsFacts | null,
  initial: Buffer,
  deps: HttpDeps,
): void {
  const served = new ServerConnection(socket, new Http1Options(connection, tls, deps));
  connection.serve(served, false);
  served.start(initial);
}

export function openHttp2(
  connection: Connection,
  socket: Socket,
  tls: TlsFacts | null,
  initial: Buffer | null,
  deps: HttpDeps,
): void {
  if (initial !== null) {
    socket.pause();
    socket.unshift(initial);
  }
  // HTTP/2 has its own way to end a direction; a FIN is the end of the connection.
  socket.allowHalfOpen = false;
  connection.serve(deps.serveHttp2(socket, connection.facts(tls)), true);
}

/** What an HTTP/1.1 engine asks of its surroundings; one object a connection. */
class Http1Options implements ServerConnectionOptions {
  readonly facts: ConnectionFacts;
  readonly deadlines: Deadlines;
  readonly #connection: Connection;
  readonly #deps: HttpDeps;

  constructor(connection: Connection, tls: TlsFacts | null, deps: HttpDeps) {
    this.facts = connection.facts(tls);
    this.deadlines = deps.deadlines;
    this.#connection = connection;
    this.#deps = deps;
  }

  limits(): ServerLimits {
    return this.#connection.limits;
  }

  onRequest(stream: ClientStream): void {
    this.#connection.requestBegins();
    this.#deps.http.handle(stream);
  }

  answerFault(fault: Fault, head: RequestHead | null): Buffer {
    return this.#deps.http.answerFault(fault, head);
  }

  onRefused(fault: Fault): void {
    this.#deps.http.refused(fault, this.facts);
  }

  onIdleTimeout(): void {
    this.#deps.http.idleClosed();
  }

  onClose(): void {
    // The connection watches its own socket.
  }
}

const ignore = (): void => {};
