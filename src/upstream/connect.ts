// One connection to a backend, from the address to a socket that is ready for its protocol.
// Invariant: every attempt ends in exactly one of `connected`, `connectFailed`, or its own `destroy`; after `connected`
// nobody listens for errors on the socket, so the new owner must do so in the same call.
import { isIP, type OnReadOpts, Socket, type SocketConstructorOpts, type TcpSocketConnectOpts } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import type { BulkReads } from '../base/bulk-reads.ts';
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';
import { Fault } from '../base/fault.ts';
import type { Backend } from '../model/snapshot.ts';
import type { BackendTls } from './backend-tls.ts';

/** Takes the bytes of a plaintext socket past the stream machinery. */
export interface SocketReads {
  readonly onread: OnReadOpts;
}

export interface ConnectListener<R extends SocketReads = BulkReads> {
  /** `reads`: where the socket's bytes come from instead of its stream; null: from the stream, as usual. */
  connected(socket: Socket | TLSSocket, reads: R | null): void;
  connectFailed(fault: Fault): void;
}

/** Probes of a dead peer start after this much silence; they also end tunnels whose backend vanished. */
const tcpKeepAliveMs = 60_000;

export class Connector<R extends SocketReads = BulkReads> {
  readonly #backend: Backend;
  readonly #host: string;
  readonly #tls: BackendTls | null;
  readonly #halfOpen: boolean;
  readonly #makeReads: (() => R) | null;
  readonly #deadlines: Deadlines;
  /** The latest session ticket: the next handshake is cheaper. Verified by the handshake that it came from. */
  #session: Buffer | undefined;

  /**
   * `halfOpen`: a FIN of the backend leaves our direction open; the owner of the socket must end it. `makeReads`: plaintext
   * is read past the stream machinery, by what this makes, to whom `connected` makes it lead; null: from the stream.
   */
  constructor(
    backend: Backend,
    tls: BackendTls | null,
    halfOpen: boolean,
    deadlines: Deadlines,
    makeReads: (() => R) | null,
  ) {
    this.#makeReads = makeReads;
    this.#backend = backend;
    this.#host = backend.host.startsWith('[') ? backend.host.slice(1, -1) : backend.host;
    this.#tls = tls;
    this.#halfOpen = halfOpen;
    this.#deadlines = deadlines;
  }

  /** @param preface  goes out first, before TLS begins; null: nothing does */
  connect(timeoutMs: number, listener: ConnectListener<R>, preface: Buffer | null = null): Attempt<R> {
    const { address, port } = this.#backend;
    const problem = this.#tls?.problem ?? null;
    const attempt = new Attempt<R>(address, this.#tls, this.#deadlines, listener);
    if (problem !== null) {
      process.nextTick(() => attempt.fail(new Fault('upstream-tls', `${address}: ${problem}`)));
      return attempt;
    }
    const host = this.#host;
    const to = { host, port, ...(isIP(host) === 0 ? { autoSelectFamily: true } : {}) };
    let socket: Socket;
    if (this.#tls === null) {
      attempt.reads = this.#makeReads?.() ?? null;
      socket = this.#dial(to, preface, attempt.reads);
    } else {
      const options: ConnectionOptions = { ...this.#tls.options(host), ...to };
      if (preface !== null) options.socket = this.#dial(to, preface, null);
      if (this.#session !== undefined) options.session = this.#session;
      socket = connectTls(options);
      // An end inside TLS ends one direction where a tunnel carries it on; HTTP/1.1 over TLS ends as a whole.
      socket.allowHalfOpen = this.#halfOpen && this.#tls.alpn === null;
      socket.on('session', (session: Buffer) => {
        this.#session = session;
      });
    }
    attempt.begin(socket, timeoutMs);
    return attempt;
  }

  #dial(to: TcpSocketConnectOpts, preface: Buffer | null, reads: R | null): Socket {
    const options: SocketConstructorOpts = { allowHalfOpen: this.#halfOpen };
    if (reads !== null) options.onread = reads.onread;
    const socket = new Socket(options);
    socket.setNoDelay(true);
    socket.connect(to);
    if (preface !== null) socket.write(preface);
    return socket;
  }
}

export class Attempt<R extends SocketReads = BulkReads> implements DeadlineHolder {
  deadlineAt = 0;
  deadlinePlace = -1;
  /** For the listener; null while the stream is what is read. */
  reads: R | null = null;
  readonly #address: string;
  readonly #tls: BackendTls | null;
  readonly #deadlines: Deadlines;
  #listener: ConnectListener<R> | null;
  #socket: Socket | null = null;
  #tcpUp = false;

  constructor(address: string, tls: BackendTls | null, deadlines: Deadlines, listener: ConnectListener<R>) {
    this.#address = address;
    this.#tls = tls;
    this.#deadlines = deadlines;
    this.#listener = listener;
  }

  begin(socket: Socket, timeoutMs: number): void {
    this.#socket = socket;
    socket.on('connect', this.#onConnect);
    socket.on('secureConnect', this.#onSecure);
    socket.on('error', this.#onError);
    socket.on('close', this.#onClose);
    this.deadlineAt = this.#deadlines.in(timeoutMs);
    this.#deadlines.add(this);
  }

  deadlineReached(): void {
    const during = this.#tcpUp ? 'the TLS handshake' : 'connecting';
    this.fail(new Fault('upstream-connect-timeout', `${this.#address}: no progress in ${during}`));
  }

  destroy(): void {
    this.#listener = null;
    const socket = this.#release();
    if (socket === null) return;
    // It may still fail on its way out; nobody is interested any more.
    socket.on('error', ignore);
    socket.destroy();
  }

  fail(fault: Fault): void {
    const listener = this.#listener;
    this.destroy();
    listener?.connectFailed(fault);
  }

  readonly #onConnect = (): void => {
    this.#tcpUp = true;
    if (this.#tls === null) this.#succeed();
  };

  readonly #onSecure = (): void => {
    const { alpnProtocol } = this.#socket as TLSSocket;
    // Without ALPN an HTTP/1.1 backend is what everyone expects; h2 over TLS must be agreed upon (RFC 9113 §3.3).
    if (this.#tls?.alpn === 'h2' && alpnProtocol !== 'h2') {
      this.fail(new Fault('upstream-tls', `${this.#address}: does not speak h2 over TLS (ALPN)`));
      return;
    }
    this.#succeed();
  };

  readonly #onError = (error: NodeJS.ErrnoException): void => {
    this.fail(connectFault(this.#address, error, this.#tcpUp));
  };

  readonly #onClose = (): void => {
    const code = this.#tcpUp ? 'upstream-tls' : 'upstream-refused';
    this.fail(new Fault(code, `${this.#address}: closed the connection before it was ready`));
  };

  #succeed(): void {
    const listener = this.#listener;
    const socket = this.#release();
    this.#listener = null;
    if (socket === null || listener === null) return;
    if (this.#tls !== null) socket.setNoDelay(true);
    socket.setKeepAlive(true, tcpKeepAliveMs);
    listener.connected(socket, this.reads);
  }

  /** Takes our listeners off the socket and gives it away. */
  #release(): Socket | null {
    const socket = this.#socket;
    this.#socket = null;
    this.#deadlines.remove(this);
    if (socket === null) return null;
    socket.off('connect', this.#onConnect);
    socket.off('secureConnect', this.#onSecure);
    socket.off('error', this.#onError);
    socket.off('close', this.#onClose);
    return socket;
  }
}

const ignore = (): void => {};

/** Our own shortage of ports, descriptors or memory says nothing about the backend. */
const shortages = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL']);

function connectFault(address: string, error: NodeJS.ErrnoException, tcpUp: boolean): Fault {
  const detail = `${address}: ${error.code ?? error.message}`;
  if (tcpUp) return new Fault('upstream-tls', `${address}: ${error.message}`, { cause: error });
  if (error.code === 'ETIMEDOUT') return new Fault('upstream-connect-timeout', detail, { cause: error });
  if (error.code !== undefined && shortages.has(error.code))
    return new Fault('over-capacity', detail, { cause: error });
  return new Fault('upstream-refused', detail, { cause: error });
}
