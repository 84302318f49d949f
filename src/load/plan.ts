// What a load run is to do.
// Invariant: everything is decided here before the first connection is made; a lane only follows it.
import type { Fields } from '../message/fields.ts';

export type LoadProtocol = 'http1' | 'http2' | 'websocket' | 'udp';

export interface LoadPlan {
  readonly protocol: LoadProtocol;
  /** Where to connect; `host` without brackets. */
  readonly host: string;
  readonly port: number;
  /** Null: plaintext. */
  readonly tls: LoadTls | null;
  /** As the Host field or `:authority` has it. */
  readonly authority: string;
  readonly target: string;
  readonly method: string;
  readonly fields: Fields;
  /** Body of a request, message of a WebSocket, datagram. */
  readonly body: Buffer;
  readonly connections: number;
  /** Requests at a time on each HTTP/2 connection. */
  readonly streams: number;
  /** How long new requests are begun. Those that are begun may end later. */
  readonly durationMs: number;
  /** Requests begun per second, whatever the answers do (open loop); null: the next one when one ends (closed loop). */
  readonly rate: number | null;
  /** A request without a complete answer after this long has failed. */
  readonly timeoutMs: number;
}

export interface LoadTls {
  /** '' sends none: addresses are no server names (RFC 6066 §3). */
  readonly serverName: string;
  readonly verify: boolean;
  /** PEM; '' : the system's roots. */
  readonly ca: string;
}
