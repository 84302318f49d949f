// One client connection as its entrypoint sees it: from accept to close, whatever is spoken on it.
// Invariant: counted in when made and out when its socket closes, once each; a drain never cuts off a client whose request
// may be on its way.
import type { Socket } from 'node:net';
import type { Timer } from '../base/clock.ts';
import type { ConnectionFacts, TlsFacts } from '../message/stream.ts';
import type { EntrypointLimits } from '../model/snapshot.ts';
import type { ListenerSettings } from './listener-settings.ts';
import { plainAddress } from './source-policy.ts';

/** A protocol engine that took a connection over. */
export interface Served {
  /** No request is in work and none has begun. */
  readonly idle: boolean;
  /** Ends when what is in work is done; nothing new is taken. */
  drain(): void;
  destroy(): void;
}

/** Who accepted it. */
export interface ConnectionHost {
  /** What holds now, for what comes next. */
  readonly settings: ListenerSettings;
  closed(connection: Connection): void;
}

/** Speaks a protocol on a fresh connection. */
export type Speak = (connection: Connection) => void;

/**
 * A drain leaves an idle connection open for this long: the next request on it may be on its way, and is answered with
 * the word that it is the last one.
 */
const idleGraceMs = 1000;

export class Connection {
  readonly socket: Socket;
  readonly peerAddress: string;
  /** What held when it was accepted: its facts and its counters stay with these. */
  readonly settings: ListenerSettings;
  readonly #host: ConnectionHost;
  #served: Served | null = null;
  #announces = false;
  #draining = false;
  #grace: Timer | null = null;

  constructor(socket: Socket, peerAddress: string, host: ConnectionHost) {
    this.socket = socket;
    this.peerAddress = peerAddress;
    this.settings = host.settings;
    this.#host = host;
    socket.on('error', ignore);
    socket.on('close', this.#closed);
  }

  /** Limits are reloadable: asked for anew with each request. */
  get limits(): EntrypointLimits {
    return this.#host.settings.entrypoint.limits;
  }

  facts(tls: TlsFacts | null): ConnectionFacts {
    const { socket, settings, peerAddress } = this;
    return Object.freeze({
      entrypoint: settings.entrypoint.name,
      peerAddress,
      peerPort: socket.remotePort ?? 0,
      localAddress: plainAddress(socket.localAddress ?? ''),
      localPort: socket.localPort ?? 0,
      trustedPeer: settings.trustedProxies.has(peerAddress),
      tls,
    });
  }

  /**
   * From now on this engine owns the connection.
   * @param announces  its drain tells the client before anything is refused (GOAWAY), so it need not wait
   */
  serve(served: Served, announces: boolean): void {
    this.#served = served;
    this.#announces = announces;
    if (this.#draining) this.#drainServed(served);
  }

  /** A request begins: on a connection that drains, its answer is the last one. */
  requestBegins(): void {
    if (this.#draining) this.#served?.drain();
  }

  drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    if (this.#served !== null) this.#drainServed(this.#served);
  }

  destroy(): void {
    if (this.#served !== null) this.#served.destroy();
    this.socket.destroy();
  }

  #drainServed(served: Served): void {
    this.#grace?.cancel();
    if (served.idle && !this.#announces)
      this.#grace = this.settings.clock.after(idleGraceMs, () => this.#served?.drain());
    else served.drain();
  }

  readonly #closed = (): void => {
    this.#grace?.cancel();
    this.#served = null;
    this.#host.closed(this);
  };
}

const ignore = (): void => {};
