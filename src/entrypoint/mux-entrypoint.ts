// TLS by name: names of TLS routers pass unopened, all others are ended here and served like HTTPS.
// Invariant: the decision is made on a whole ClientHello and nothing else; a broken one, or one that is late, gets an alert
// and reaches nobody.
import { findPassthrough } from '../model/routing-table.ts';
import type { Way } from '../tcp/way.ts';
import type { Connection, Speak } from './connection.ts';
import { openSecure, proved, refuseTls } from './https-entrypoint.ts';
import { sniffMs } from './sniff.ts';
import type { TcpDeps } from './tcp-entrypoint.ts';
import { openTunnel } from './tunnel-opening.ts';

export type MuxDeps = TcpDeps;

export function muxEntrypoint(deps: MuxDeps): Speak {
  return (connection) => acceptTls(connection, sniffMs, deps);
}

/** @param helloTimeoutMs  what is left of the time to show what is spoken */
export function acceptTls(connection: Connection, helloTimeoutMs: number, deps: MuxDeps): void {
  const { entrypoint } = connection.settings;
  deps.terminator.accept(connection.socket, {
    entrypoint: entrypoint.name,
    timeoutMs: connection.limits.tlsHandshakeTimeoutMs,
    helloTimeoutMs,
    passThrough(serverName) {
      const { passthrough } = connection.settingsNow.routes;
      if (serverName === null || findPassthrough(passthrough, serverName) === null) {
        connection.accepted('tls');
        return null;
      }
      return () => {
        const way: Way = { kind: 'passthrough', name: serverName };
        const opening = { way, spoken: 'passthrough', secure: null, serverName, early: null } as const;
        openTunnel(connection, opening, deps.tunnels);
      };
    },
    onSecure: (socket, facts, alpn) => openSecure(connection, socket, facts, alpn, deps),
    onProved: () => proved(connection),
    onRefused: (reason, detail) => refuseTls(connection, reason, detail, deps),
  });
}
