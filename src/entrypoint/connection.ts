// One client connection as its entrypoint sees it: from accept to close, whatever is spoken on it.
// Invariant: counted in when made and out when its socket closes, once each; a drain never cuts off a client whose request
// may be on its way.
import type { Socket } from 'node:net';
import type { Timer } from '../base/clock.ts';
import type { ConnectionFacts, TlsFacts } from '../message/stream.ts';
import type { EntrypointLimits } from '../model/snapshot.ts';
import type { ProxiedEnds } from '../tcp/proxy-header.ts';
import type { Refusal, Spoken } from './entrypoint-metrics.ts';
import type { ListenerSettings } from './listener-settings.ts';
import { plainAddress } from './source-policy.ts';

/** A protocol engine that took a connection over. */
export interface Served {
  /** No request is in work and none has begun. */
  readonly idle: boolean;
  /** Ends when what is in work is done; nothing new is taken. */
  drain(): void;
  destroy(why: DestroyReason): void;
}

/** Who is there may not be there any more, or the time for it is over. */
export type DestroyReason = 'not-admitted' | 'drained';

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
/** Under overload: whoever has asked for nothing for so many sweeps, half a second apart, has no claim on a descriptor. */
const idleSweepsMax = 3;

export class Connection {
  readonly socket: Socket;
  /** Of the socket. */
  readonly peerAddress: string;
  /** What held when it was accepted: its facts and its counters stay with these. */
  readonly settings: ListenerSettings;
  /** What its PROXY header said about its ends; null: there was none, or it said nothing. */
  proxied: ProxiedEnds | null = null;
  /** Whether it may stay when other settings hold; asked beside `trusted_cidrs`, which hold for everyone. */
  staysUnder: ((settings: ListenerSettings) => boolean) | null = null;
  readonly #host: ConnectionHost;
  #judged = false;
  #received = 0;
  #sent = 0;
  #served: Served | null = null;
  #announces = false;
  #draining = false;
  /** Sweeps in a row that found nothing in work. */
  #idleSweeps = 0;
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

  /** What holds now, for what comes next. */
  get settingsNow(): ListenerSettings {
    return this.#host.settings;
  }

  /** Who is served: the peer, or whom a load balancer in front serves. */
  get clientAddress(): string {
    return this.proxied?.sourceAddress ?? this.settings.entrypoint.clientsAs ?? this.peerAddress;
  }

  facts(tls: TlsFacts | null): ConnectionFacts {
    const { socket, settings, proxied, clientAddress } = this;
    return Object.freeze({
      entrypoint: settings.entrypoint.name,
      peerAddress: clientAddress,
      peerPort: proxied?.sourcePort ?? socket.remotePort ?? 0,
      localAddress: proxied?.destinationAddress ?? plainAddress(socket.localAddress ?? ''),
      localPort: proxied?.destinationPort ?? socket.localPort ?? 0,
      trustedPeer: settings.trustedProxies.has(clientAddress),
      tls,
    });
  }

  // ---- what becomes of it: exactly one of these, once ------------------------------------------------------------

  /** It is being served. */
  accepted(spoken: Spoken | null): void {
    if (this.#isJudged()) return;
    const { cells } = this.settings;
    cells.accepted.value++;
    if (spoken !== null) cells.spoke(spoken).value++;
  }

  /** It may not have what it asks for, or asks for nothing that there is. */
  refused(why: Refusal): void {
    if (!this.#isJudged()) this.settings.cells.refused(why).value++;
  }

  /** It could not be served. */
  failed(): void {
    if (!this.#isJudged()) this.settings.cells.errors.value++;
  }

  #isJudged(): boolean {
    const before = this.#judged;
    this.#judged = true;
    return before;
  }

  /** Adds what has passed since the last time to the counters. */
  countBytes(): void {
    const { socket, settings } = this;
    const { bytesRead, bytesWritten } = socket;
    settings.cells.received.value += bytesRead - this.#received;
    settings.cells.sent.value += bytesWritten - this.#sent;
    this.#received = bytesRead;
    this.#sent = bytesWritten;
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
    this.#idleSweeps = 0;
    if (this.#draining) this.#served?.drain();
  }

  /** Closes it when nothing has been in work for several calls of this. True when it does. */
  sweepIdle(): boolean {
    this.#idleSweeps = this.#served?.idle === true ? this.#idleSweeps + 1 : 0;
    if (this.#idleSweeps < idleSweepsMax || this.#draining) return false;
    this.#draining = true;
    this.#served?.drain();
    return true;
  }

  drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    if (this.#served !== null) this.#drainServed(this.#served);
  }

  destroy(why: DestroyReason): void {
    if (this.#served !== null) this.#served.destroy(why);
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
    this.refused('gone');
    this.countBytes();
    this.#host.closed(this);
  };
}

const ignore = (): void => {};
