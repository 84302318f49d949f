// One listening socket of this worker and the connections that came through it.
// Invariant: `configure` changes what the next connection meets and closes those that may no longer be there; it never
// touches the listening socket, nor any other connection.
import { createServer, type Server, type Socket } from 'node:net';
import type { Deadlines } from '../base/deadlines.ts';
import type { Log } from '../base/log.ts';
import type { OverloadGuard } from '../traffic/overload-guard.ts';
import { Connection, type ConnectionHost, type Speak } from './connection.ts';
import { ConnectionCaps } from './connection-caps.ts';
import type { ListenerSettings } from './listener-settings.ts';
import { ProxyPhase } from './proxy-phase.ts';
import { plainAddress } from './source-policy.ts';

export interface ListenerDeps {
  readonly overload: Pick<OverloadGuard, 'hasRoom'>;
  readonly deadlines: Deadlines;
  readonly log: Log;
}

export class Listener implements ConnectionHost {
  readonly key: string;
  readonly #deadlines: Deadlines;
  readonly #log: Log;
  readonly #overload: ListenerDeps['overload'];
  readonly #server: Server;
  readonly #caps: ConnectionCaps;
  readonly #connections = new Set<Connection>();
  #settings: ListenerSettings;
  #speak: Speak;
  #paused = false;
  #onEmpty: (() => void) | null = null;

  /** Listens at once on a bound socket or handle, whose owner this becomes. */
  constructor(key: string, bound: object, settings: ListenerSettings, speak: Speak, deps: ListenerDeps) {
    const { deadlines, log, overload } = deps;
    this.key = key;
    this.#deadlines = deadlines;
    this.#log = log;
    this.#overload = overload;
    this.#settings = settings;
    this.#speak = speak;
    this.#caps = new ConnectionCaps(settings.connections, settings.connectionsPerPeer);
    // allowHalfOpen: a client may end its direction and still want its answer.
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#accept(socket));
    this.#server.on('error', (error) => log.error('listener-failed', { key, error: error.message }));
    this.#listen(bound);
  }

  get paused(): boolean {
    return this.#paused;
  }

  /** Accepts nothing: connections wait in the backlog, which the supervisor holds, for another worker or for `resume`. */
  pause(): void {
    this.#paused = true;
    this.#server.close();
  }

  /** Accepts again, on the same socket, lent anew. */
  resume(bound: object): void {
    this.#paused = false;
    this.#listen(bound);
  }

  /** Closes connections that ask for nothing; how many. */
  sweepIdle(): number {
    let closed = 0;
    for (const connection of this.#connections) if (connection.sweepIdle()) closed++;
    return closed;
  }

  get settings(): ListenerSettings {
    return this.#settings;
  }

  get connections(): number {
    return this.#connections.size;
  }

  configure(settings: ListenerSettings, speak: Speak): void {
    this.#settings = settings;
    this.#speak = speak;
    this.#caps.limit(settings.connections, settings.connectionsPerPeer);
    this.review();
  }

  /** Closes connections of whoever may be here no longer. */
  review(): void {
    const settings = this.#settings;
    for (const connection of this.#connections) {
      const stays = settings.source.admits(connection.peerAddress) && (connection.staysUnder?.(settings) ?? true);
      if (!stays) connection.destroy('not-admitted');
    }
  }

  /** Accepts nothing more and lets its connections finish. `onEmpty` is called when the last one is closed. */
  drain(onEmpty: () => void): void {
    this.#server.close();
    this.#onEmpty = onEmpty;
    for (const connection of this.#connections) connection.drain();
    this.#checkEmpty();
  }

  destroy(): void {
    this.#server.close();
    for (const connection of this.#connections) connection.destroy('drained');
  }

  /** Brings the counters of bytes up to now. */
  countBytes(): void {
    for (const connection of this.#connections) connection.countBytes();
  }

  #accept(socket: Socket): void {
    const settings = this.#settings;
    const { cells } = settings;
    const { remoteAddress } = socket;
    if (remoteAddress === undefined) {
      // Reset before we got to it.
      cells.refused('gone').value++;
      socket.destroy();
      return;
    }
    const peer = plainAddress(remoteAddress);
    const refusal = settings.source.admits(peer) ? this.#take(peer) : 'source';
    if (refusal !== null) {
      cells.refused(refusal).value++;
      this.#log.debug('connection-refused', { entrypoint: settings.entrypoint.name, peer, reason: refusal });
      socket.destroy();
      return;
    }
    cells.active.value++;
    const connection = new Connection(socket, peer, this);
    this.#connections.add(connection);
    if (settings.proxyProtocolFrom.has(peer))
      new ProxyPhase(connection, this.#speak, this.#deadlines, this.#log).start();
    else this.#speak(connection);
  }

  #take(peer: string): 'overload' | 'limit' | 'peer-limit' | null {
    return this.#overload.hasRoom() ? this.#caps.take(peer) : 'overload';
  }

  closed(connection: Connection): void {
    this.#connections.delete(connection);
    this.#caps.release(connection.peerAddress);
    connection.settings.cells.active.value--;
    this.#checkEmpty();
  }

  #listen(bound: object): void {
    // Documented for `listen`: anything with an underlying _handle member.
    this.#server.listen({ _handle: bound });
  }

  #checkEmpty(): void {
    if (this.#connections.size > 0 || this.#onEmpty === null) return;
    const onEmpty = this.#onEmpty;
    this.#onEmpty = null;
    onEmpty();
  }
}
