// An entrypoint as one snapshot declares it, compiled for the connections it will accept.
// Invariant: immutable; a connection keeps the settings it was accepted under, limits apart.
import type { Clock } from '../base/clock.ts';
import type { Entrypoint, Settings } from '../model/snapshot.ts';
import { shareOf } from './connection-caps.ts';
import type { EntrypointCells } from './entrypoint-metrics.ts';
import { CidrSet, SourcePolicy } from './source-policy.ts';

export interface ListenerSettings {
  readonly entrypoint: Entrypoint;
  readonly clock: Clock;
  readonly source: SourcePolicy;
  readonly cells: EntrypointCells;
  /** This worker's share. */
  readonly connections: number;
  readonly connectionsPerPeer: number;
  /** Peers whose forwarded headers are believed. */
  readonly trustedProxies: CidrSet;
}

export function compileSettings(
  entrypoint: Entrypoint,
  settings: Settings,
  workers: number,
  clock: Clock,
  cells: EntrypointCells,
): ListenerSettings {
  return {
    entrypoint,
    clock,
    source: new SourcePolicy(entrypoint.trustedCidrs),
    cells,
    connections: shareOf(entrypoint.maxConnections, workers),
    connectionsPerPeer: shareOf(entrypoint.limits.connectionsPerPeer, workers),
    trustedProxies: new CidrSet(entrypoint.trustedProxies ?? settings.trustedProxies),
  };
}
