// TCP: every connection goes to the service of the entrypoint's one router, as it comes or with its TLS ended here.
// Invariant: not a byte is read before a backend is connected, unless TLS is ended.
import type { Tunnels } from '../tcp/tunnels.ts';
import { byRouter } from '../tcp/way.ts';
import type { Speak } from './connection.ts';
import { type HttpsDeps, proved, refuseTls } from './https-entrypoint.ts';
import { openTunnel } from './tunnel-opening.ts';

export interface TcpDeps extends HttpsDeps {
  readonly tunnels: Tunnels;
}

export function tcpEntrypoint(deps: TcpDeps): Speak {
  return (connection) => {
    const { routes } = connection.settings;
    const termination = routes.tcp?.terminate ?? null;
    if (termination === null) {
      openTunnel(connection, { way: byRouter, spoken: null, secure: null, serverName: '', early: null }, deps.tunnels);
      return;
    }
    deps.terminator.accept(connection.socket, {
      entrypoint: routes.entrypoint.name,
      timeoutMs: connection.limits.tlsHandshakeTimeoutMs,
      termination,
      onSecure(socket, facts) {
        connection.settings.cells.handshake('ok').value++;
        // RFC 8446 §6.1: close_notify ends one direction, and what the service still has to say is said.
        socket.allowHalfOpen = true;
        const serverName = facts.serverName ?? '';
        const opening = { way: byRouter, spoken: 'tls', secure: { socket, facts }, serverName, early: null } as const;
        openTunnel(connection, opening, deps.tunnels);
      },
      onProved: () => proved(connection),
      onRefused: (reason, detail) => refuseTls(connection, reason, detail, deps),
    });
  };
}
