// HTTPS: the terminator ends TLS, ALPN says which HTTP follows.
// Invariant: what is spoken is what ALPN agreed on; a client without ALPN gets HTTP/1.1, never a guess.
import type { TLSSocket } from 'node:tls';
import type { Log } from '../base/log.ts';
import type { TlsFacts } from '../message/stream.ts';
import type { TlsRefusal, TlsTerminator } from '../tls/terminator.ts';
import type { Connection, Speak } from './connection.ts';
import type { Refusal } from './entrypoint-metrics.ts';
import { FirstBytes, type HttpDeps, openHttp1, openHttp2 } from './http-entrypoint.ts';

export interface HttpsDeps extends HttpDeps {
  readonly log: Log;
  readonly terminator: TlsTerminator;
}

export function httpsEntrypoint(deps: HttpsDeps): Speak {
  return (connection) => {
    connection.accepted('tls');
    const { entrypoint } = connection.settings;
    deps.terminator.accept(connection.socket, {
      entrypoint: entrypoint.name,
      timeoutMs: connection.limits.tlsHandshakeTimeoutMs,
      onSecure: (socket, facts, alpn) => openSecure(connection, socket, facts, alpn, deps),
      onProved: () => proved(connection),
      onRefused: (reason, detail) => refuseTls(connection, reason, detail, deps),
    });
  };
}

/** HTTP over TLS that has been ended. */
export function openSecure(
  connection: Connection,
  socket: TLSSocket,
  facts: TlsFacts,
  alpn: 'h2' | 'http/1.1',
  deps: HttpsDeps,
): void {
  connection.settings.cells.handshake('ok').value++;
  if (alpn === 'h2') {
    openHttp2(connection, socket, facts, null, deps);
    return;
  }
  new FirstBytes(connection, socket, false, deps, (_protocol, initial) => {
    openHttp1(connection, socket, facts, initial, deps);
  }).start();
}

/** A CA looked at the name and left. */
export function proved(connection: Connection): void {
  connection.accepted('tls');
  connection.settings.cells.handshake('proved').value++;
}

export function refuseTls(connection: Connection, reason: TlsRefusal, detail: string, { log }: HttpsDeps): void {
  const { cells, entrypoint } = connection.settings;
  cells.handshake(reason).value++;
  connection.refused(refusals[reason] ?? 'tls');
  log.debug('tls-refused', { entrypoint: entrypoint.name, peer: connection.peerAddress, reason, detail });
}

/** Where TLS is only one of several things that may come, what is wrong with it counts by what it says of the client. */
const refusals: Partial<Record<TlsRefusal, Refusal>> = {
  malformed: 'malformed',
  'too-large': 'hello-too-large',
  timeout: 'sniff-timeout',
  'client-gone': 'gone',
};
