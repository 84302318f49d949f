// HTTPS: the terminator ends TLS, ALPN says which HTTP follows.
// Invariant: what is spoken is what ALPN agreed on; a client without ALPN gets HTTP/1.1, never a guess.
import type { Log } from '../base/log.ts';
import type { TlsHooks, TlsTerminator } from '../tls/terminator.ts';
import type { Connection, Speak } from './connection.ts';
import { FirstBytes, type HttpDeps, openHttp1, openHttp2 } from './http-entrypoint.ts';

export interface HttpsDeps extends HttpDeps {
  readonly log: Log;
  readonly terminator: TlsTerminator;
}

export function httpsEntrypoint(deps: HttpsDeps): Speak {
  return (connection) => deps.terminator.accept(connection.socket, hooksFor(connection, deps));
}

function hooksFor(connection: Connection, deps: HttpsDeps): TlsHooks {
  const { entrypoint, cells } = connection.settings;
  return {
    entrypoint: entrypoint.name,
    timeoutMs: connection.limits.tlsHandshakeTimeoutMs,
    onSecure(socket, facts, alpn) {
      cells.handshake('ok').value++;
      if (alpn === 'h2') {
        openHttp2(connection, socket, facts, null, deps);
        return;
      }
      new FirstBytes(connection, socket, false, deps, (_protocol, initial) => {
        openHttp1(connection, socket, facts, initial, deps);
      }).start();
    },
    onRefused(reason, detail) {
      cells.handshake(reason).value++;
      deps.log.debug('tls-refused', { entrypoint: entrypoint.name, peer: connection.peerAddress, reason, detail });
    },
  };
}
