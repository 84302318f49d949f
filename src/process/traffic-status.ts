// `traffic status` as data: what entrypoints, routers, services and routes have counted.
// Invariant: pure; every list is sorted by name, and a counter that can be there is there, also when it is zero, so that two
// answers can be compared by a program.
import type { RoutingPart, Snapshot } from '../model/snapshot.ts';
import { connectionTraffic, type SeriesOf, tunnelTraffic } from './connection-traffic.ts';
import { datagramTraffic } from './datagram-traffic.ts';
import { entrypointStatus, type IsEjected, routerWays, routeTraffic, serviceTraffic } from './inspection.ts';
import type { ConnectionTraffic, LastReload, RouterTraffic, TrafficStatus, TrafficTotals } from './operations.ts';
import type { WorkerStats } from './protocol.ts';

export interface TrafficFacts {
  readonly at: number;
  readonly lastReload: LastReload | null;
  readonly snapshot: Snapshot;
  readonly stats: readonly WorkerStats[];
  readonly seriesOf: SeriesOf;
  readonly isEjected: IsEjected;
}

export function trafficStatus({ at, lastReload, snapshot, stats, seriesOf, isEjected }: TrafficFacts): TrafficStatus {
  const { routing } = snapshot.parts;
  const counters = { accepted: seriesOf('entrypoint_accepted_total'), refused: seriesOf('entrypoint_refused_total') };
  const entrypoints = routing.entrypoints.map((entrypoint) =>
    connectionTraffic(entrypoint, entrypointStatus(entrypoint, stats, counters), seriesOf),
  );
  const routes = routeTraffic(routing, seriesOf('http_requests_total'));
  return {
    at,
    lastReload,
    totals: totalsOf(
      entrypoints,
      routes.reduce((sum, { requests }) => sum + requests, 0),
    ),
    entrypoints: sorted(entrypoints, ({ name }) => name),
    routers: sorted(routerTraffic(routing), ({ entrypoint, name }) => `${entrypoint} ${name}`),
    tunnels: sorted(
      routing.services
        .filter(({ network }) => network?.transports.includes('tcp'))
        .map((service) => tunnelTraffic(service, seriesOf)),
      ({ service }) => service,
    ),
    datagrams: sorted(
      routing.entrypoints
        .filter(({ protocol }) => protocol === 'udp')
        .map((entrypoint) => datagramTraffic(entrypoint, stats, seriesOf)),
      ({ entrypoint }) => entrypoint,
    ),
    routes: sorted(routes, ({ route }) => route),
    services: sorted(
      routing.services.map((service) => serviceTraffic(service, snapshot, stats, isEjected)),
      ({ service }) => service,
    ),
  };
}

function totalsOf(entrypoints: readonly ConnectionTraffic[], requests: number): TrafficTotals {
  const totals = { connections: 0, flows: 0, accepted: 0, refused: 0, errors: 0, bytesIn: 0, bytesOut: 0, requests };
  for (const each of entrypoints) {
    if (each.protocol === 'udp') totals.flows += each.connections;
    else totals.connections += each.connections;
    totals.accepted += each.accepted;
    totals.refused += each.refused;
    totals.errors += each.errors;
    totals.bytesIn += each.bytesIn;
    totals.bytesOut += each.bytesOut;
  }
  return totals;
}

function routerTraffic(routing: RoutingPart): readonly RouterTraffic[] {
  const services = new Map(routing.services.map((service) => [service.name, service]));
  return routerWays(routing).map(({ entrypoints, host, action, tls, service }) => ({
    entrypoint: entrypoints[0] ?? '',
    name: host,
    carries: action,
    tls,
    service: service ?? '',
    state: services.get(service ?? '')?.state ?? 'stopped',
  }));
}

/** By code units: the same order on every machine. */
function sorted<T>(items: readonly T[], nameOf: (item: T) => string): readonly T[] {
  return items.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : 0));
}
