// An entrypoint as one snapshot declares it, compiled for the connections it will accept.
// Invariant: immutable; a connection keeps the settings it was accepted under, limits apart.
import type { Clock } from '../base/clock.ts';
import type { Logins } from '../gate/logins.ts';
import type { EntrypointRoutes } from '../model/routing-table.ts';
import type { Entrypoint, RawFallback, Settings } from '../model/snapshot.ts';
import { shareOf } from './connection-caps.ts';
import type { EntrypointCells } from './entrypoint-metrics.ts';
import { CidrSet, SourcePolicy } from './source-policy.ts';

export interface ListenerSettings {
  readonly entrypoint: Entrypoint;
  /** Where its connections may lead beside the hosts. */
  readonly routes: EntrypointRoutes;
  readonly clock: Clock;
  readonly source: SourcePolicy;
  readonly cells: EntrypointCells;
  /** This worker's share. */
  readonly connections: number;
  readonly connectionsPerPeer: number;
  /** Peers whose forwarded headers are believed. */
  readonly trustedProxies: CidrSet;
  /** Peers whose connections begin with a PROXY header. */
  readonly proxyProtocolFrom: CidrSet;
  /** Clients that may reach the raw fallback; null: there is none. */
  readonly rawFallback: SourcePolicy | null;
}

export function compileSettings(
  routes: EntrypointRoutes,
  settings: Settings,
  workers: number,
  clock: Clock,
  cells: EntrypointCells,
  logins: Logins,
): ListenerSettings {
  const { entrypoint } = routes;
  const { rawFallback } = entrypoint;
  return {
    entrypoint,
    routes,
    clock,
    source: SourcePolicy.of(entrypoint, logins),
    cells,
    connections: shareOf(entrypoint.maxConnections, workers),
    connectionsPerPeer: shareOf(entrypoint.limits.connectionsPerPeer, workers),
    trustedProxies: new CidrSet(entrypoint.trustedProxies ?? settings.trustedProxies),
    proxyProtocolFrom: new CidrSet(entrypoint.proxyProtocolFrom),
    rawFallback: rawFallback === null ? null : rawFallbackPolicy(rawFallback),
  };
}

/** An empty list would let everyone in; only the operator's own word does that. */
function rawFallbackPolicy({ trustedCidrs }: RawFallback): SourcePolicy | null {
  if (trustedCidrs === null) return new SourcePolicy([]);
  return trustedCidrs.length === 0 ? null : new SourcePolicy(trustedCidrs);
}
