// Hands a connection over to a tunnel.
// Invariant: the connection counts as accepted when a backend has it, and as an error when none takes it.
import type { Socket } from 'node:net';
import type { ConnectionFacts, TlsFacts } from '../message/stream.ts';
import type { TunnelClient } from '../tcp/tunnel.ts';
import type { Tunnels } from '../tcp/tunnels.ts';
import type { Way } from '../tcp/way.ts';
import type { Connection } from './connection.ts';
import type { Spoken } from './entrypoint-metrics.ts';

export interface Opening {
  readonly way: Way;
  readonly spoken: Spoken | null;
  /** Where TLS was ended here: what is inside, and what is known of it. */
  readonly secure: { readonly socket: Socket; readonly facts: TlsFacts } | null;
  readonly serverName: string;
  /** What was read of it already and could not be put back. */
  readonly early: Buffer | null;
}

export function openTunnel(connection: Connection, opening: Opening, tunnels: Tunnels): void {
  if (tunnels.overloaded) {
    connection.refused('overload');
    connection.socket.destroy();
    return;
  }
  const tunnel = tunnels.open(new ConnectionEnd(connection, opening), opening.way);
  connection.serve(tunnel, false);
  tunnel.start();
}

class ConnectionEnd implements TunnelClient {
  readonly socket: Socket;
  readonly facts: ConnectionFacts;
  readonly serverName: string;
  readonly early: Buffer | null;
  readonly #connection: Connection;
  readonly #spoken: Spoken | null;

  constructor(connection: Connection, { secure, serverName, spoken, early }: Opening) {
    this.socket = secure?.socket ?? connection.socket;
    this.facts = connection.facts(secure?.facts ?? null);
    this.serverName = serverName;
    this.early = early;
    this.#connection = connection;
    this.#spoken = spoken;
  }

  get socketPeer(): string {
    return this.#connection.peerAddress;
  }

  get entrypoint(): string {
    return this.#connection.settingsNow.entrypoint.name;
  }

  accepted(): void {
    this.#connection.accepted(this.#spoken);
  }

  failed(): void {
    this.#connection.failed();
  }
}
