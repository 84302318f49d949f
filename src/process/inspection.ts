// Answers about what is served: status, routes, counters, certificates. Adds the workers' numbers up.
// Invariant: reads only; no private key and no secret is in any answer.
import { formatBind } from '../model/changes.ts';
import type {
  CertificatesPart,
  Entrypoint,
  Route,
  RoutingPart,
  Service,
  Snapshot,
  UdpRouter,
} from '../model/snapshot.ts';
import type { Series } from './metrics.ts';
import type {
  BackendStatus,
  BackendTraffic,
  CertificateStatus,
  EntrypointStatus,
  RouteRow,
  RouteTraffic,
  ServiceOverride,
  ServiceStatus,
  ServiceTraffic,
} from './operations.ts';
import type { BackendStats, ServiceStats, WorkerStats } from './protocol.ts';
import { addressesOf, type StoredService } from './service-state.ts';

/** What is known of a backend beside the snapshot. */
export type IsEjected = (service: string, address: string) => boolean;

/** Counters of connections by entrypoint, over every worker that there ever was. */
export interface ConnectionCounters {
  /** The series of `turnpike_entrypoint_accepted_total` and `turnpike_entrypoint_refused_total`. */
  readonly accepted: readonly Series[];
  readonly refused: readonly Series[];
}

export function entrypointStatus(
  entrypoint: Entrypoint,
  stats: readonly WorkerStats[],
  counters: ConnectionCounters,
): EntrypointStatus {
  const total = (series: readonly Series[]): number =>
    sum(
      series.filter(({ labels }) => labels['entrypoint'] === entrypoint.name),
      ({ value }) => value,
    );
  return {
    name: entrypoint.name,
    address: formatBind(entrypoint.host, entrypoint.port),
    protocol: entrypoint.protocol,
    connections: openConnections(entrypoint, stats),
    accepted: total(counters.accepted),
    refused: total(counters.refused),
    problem: stats.flatMap((worker) => problemsOf(worker, entrypoint))[0] ?? null,
  };
}

function problemsOf({ entrypoints }: WorkerStats, { name }: Entrypoint): readonly string[] {
  return entrypoints.flatMap((each) => (each.name === name && each.problem !== null ? [each.problem] : []));
}

export function openConnections(entrypoint: Entrypoint, stats: readonly WorkerStats[]): number {
  const mine = stats.flatMap((worker) => worker.entrypoints.filter((each) => each.name === entrypoint.name));
  return sum(mine, (each) => each.connections);
}

export function serviceStatus(
  service: Service,
  snapshot: Snapshot,
  stats: readonly WorkerStats[],
  stored: StoredService | null,
  isEjected: IsEjected,
): ServiceStatus {
  const mine = statsOf(service.name, stats);
  const { number } = service.generation;
  const draining = new Map<number, number>();
  for (const each of mine.flatMap((worker) => generationsOf(worker))) {
    if (each.generation === number) continue;
    draining.set(each.generation, (draining.get(each.generation) ?? 0) + each.active);
  }
  return {
    name: service.name,
    state: service.state,
    generation: number,
    origin: service.generation.origin,
    backends: addressesOf(service.generation.backends).map((address) => ({
      address,
      state: backendState(service.name, address, snapshot, mine, isEjected),
    })),
    override: overrideOf(stored),
    waiting: sum(mine, (worker) => worker.waiting),
    active: claimsOf(service.name, number, stats).active,
    draining: [...draining].map(([generation, active]) => ({ generation, active })),
  };
}

export function overrideOf(stored: StoredService | null): ServiceOverride | null {
  if (stored === null || stored.override === null) return null;
  const { addresses, declared, since } = stored.override;
  return { service: stored.name, addresses, declared, since };
}

/** Claims of one generation over all workers. */
export function claimsOf(
  service: string,
  generation: number,
  stats: readonly WorkerStats[],
): { readonly active: number; readonly claimed: number } {
  const mine = statsOf(service, stats)
    .flatMap(generationsOf)
    .filter((each) => each.generation === generation);
  return { active: sum(mine, (each) => each.active), claimed: sum(mine, (each) => each.claimed) };
}

export function routeRows(routing: RoutingPart): readonly RouteRow[] {
  const services = new Map(routing.services.map((service) => [service.name, service]));
  const row = (way: Omit<RouteRow, 'backends'>): RouteRow => {
    const generation = way.service === null ? undefined : services.get(way.service)?.generation;
    return { ...way, backends: generation === undefined ? [] : addressesOf(generation.backends) };
  };
  return [...hostWays(routing), ...routerWays(routing)].map(row);
}

export type WayRow = Omit<RouteRow, 'backends'>;

/** A port of the gate takes every name: the ones that certificates are made for lead to the same. */
function hostWays({ hosts }: RoutingPart): readonly WayRow[] {
  const told = hosts.filter(({ tls, pattern }) => tls !== 'either' || pattern === '*');
  return told.flatMap((host) =>
    host.routes.map((route) => ({
      host: host.pattern,
      path: route.path,
      entrypoints: host.entrypoints,
      tls: host.tls,
      action: describeAction(route),
      service: route.action.kind === 'forward' ? route.action.service : null,
      origin: route.origin,
    })),
  );
}

/** What leads to network services. */
export function routerWays({ routers, entrypoints }: RoutingPart): readonly WayRow[] {
  const way = (action: string, host: string, tls: string, { entrypoint, service, origin }: UdpRouter): WayRow => ({
    host,
    path: '-',
    entrypoints: [entrypoint],
    tls,
    action,
    service,
    origin,
  });
  return [
    ...routers.tls.flatMap((router) => router.names.map((name) => way('tcp', name, 'passes', router))),
    ...routers.tcp.map((router) => way('tcp', '(tcp)', router.terminate === null ? '-' : 'ends', router)),
    ...routers.udp.map((router) => way('udp', '(udp)', '-', router)),
    ...entrypoints.flatMap(({ name, rawFallback, origin }) =>
      rawFallback === null
        ? []
        : [way('raw fallback', '(raw)', '-', { entrypoint: name, service: rawFallback.service, origin })],
    ),
  ];
}

function describeAction({ action }: Route): string {
  switch (action.kind) {
    case 'forward':
      return 'forward';
    case 'respond':
      return `respond ${action.status}`;
    case 'redirect':
      return `redirect ${action.status} ${action.to}`;
    case 'gate':
      return 'login and dashboard';
  }
}

/** @param requests  the series of `turnpike_http_requests_total` */
export function routeTraffic(routing: RoutingPart, requests: readonly Series[]): readonly RouteTraffic[] {
  // Aliases share the routes of their host.
  const ids = new Set([...routing.hosts.flatMap((host) => host.routes.map((route) => route.id)), 'other']);
  return [...ids].map((route) => {
    const classes: Record<string, number> = {};
    let total = 0;
    for (const { labels, value } of requests) {
      if (labels['route'] !== route) continue;
      const status = String(labels['status']);
      classes[status] = (classes[status] ?? 0) + value;
      total += value;
    }
    return { route, requests: total, classes };
  });
}

export function serviceTraffic(
  service: Service,
  snapshot: Snapshot,
  stats: readonly WorkerStats[],
  isEjected: IsEjected,
): ServiceTraffic {
  const mine = statsOf(service.name, stats);
  const { number, backends } = service.generation;
  return {
    service: service.name,
    generation: number,
    active: claimsOf(service.name, number, stats).active,
    waiting: sum(mine, (worker) => worker.waiting),
    backends: addressesOf(backends).map((address): BackendTraffic => {
      const rows = backendStats(mine, address);
      return {
        address,
        state: backendState(service.name, address, snapshot, mine, isEjected),
        requests: sum(rows, (row) => row.requests),
        failures: sum(rows, (row) => row.failures),
        active: sum(rows, (row) => row.active),
      };
    }),
  };
}

export function certificateRows(part: CertificatesPart): readonly CertificateStatus[] {
  return part.certificates.map(({ id, source, origin, names, notBefore, notAfter }) => ({
    id,
    source,
    origin,
    names,
    notBefore,
    notAfter,
    isDefault: id === part.defaultId,
  }));
}

function backendState(
  service: string,
  address: string,
  snapshot: Snapshot,
  mine: readonly ServiceStats[],
  isEjected: IsEjected,
): BackendStatus['state'] {
  // A worker that ejected it knows first; an active check outranks both.
  const ejected = isEjected(service, address) || backendStats(mine, address).some((row) => row.ejected);
  if (ejected) return 'ejected';
  return snapshot.parts.health.down[service]?.includes(address) ? 'down' : 'up';
}

const statsOf = (service: string, stats: readonly WorkerStats[]): readonly ServiceStats[] =>
  stats.flatMap((worker) => worker.services.filter((each) => each.service === service));

const backendStats = (mine: readonly ServiceStats[], address: string): readonly BackendStats[] =>
  mine.flatMap((worker) => worker.backends.filter((each) => each.address === address));

const generationsOf = ({ generation, active, claimed, draining }: ServiceStats) => [
  { generation, active, claimed },
  ...draining,
];

function sum<T>(items: readonly T[], of: (item: T) => number): number {
  let total = 0;
  for (const item of items) total += of(item);
  return total;
}
