// Which services must hold their arrivals while a publication commits, so that no worker serves the new answer while
// another still serves the old one.
// Invariant: a service is listed when an arrival for some (host, path), name or entrypoint could get another backend set,
// action or TLS treatment after the commit than before it; services that nothing changes for are never listed.
import { digestOf } from './digest.ts';
import { patternCovers } from './host.ts';
import type { Host, Route, RoutingPart, Service } from './snapshot.ts';

/** Names of the services (of the running snapshot) whose live traffic moves between `from` and `to`. */
export function movingServices(from: RoutingPart, to: RoutingPart): readonly string[] {
  if (from === to) return [];
  const moving = new Set<string>();
  const next = new Map(to.services.map((service) => [service.name, service]));
  for (const service of from.services) {
    const successor = next.get(service.name);
    if (successor === undefined || !sameTraffic(service, successor)) moving.add(service.name);
  }
  const nextHosts = new Map(to.hosts.map((host) => [hostKey(host), host]));
  for (const host of from.hosts) {
    const successor = nextHosts.get(hostKey(host));
    if (successor === undefined || !sameRouting(host, successor)) {
      for (const route of host.routes) if (route.action.kind === 'forward') moving.add(route.action.service);
    }
  }
  // A new, more specific pattern takes arrivals away from a wildcard or the catch-all that serves them now.
  const before = new Set(from.hosts.map(hostKey));
  const fresh = new Set(to.hosts.flatMap((host) => (before.has(hostKey(host)) ? [] : host.entrypoints)));
  if (fresh.size > 0) {
    for (const host of from.hosts) {
      if (!host.pattern.startsWith('*') || !host.entrypoints.some((name) => fresh.has(name))) continue;
      for (const route of host.routes) if (route.action.kind === 'forward') moving.add(route.action.service);
    }
  }
  for (const name of movingBehindRouters(from, to)) moving.add(name);
  return [...moving].filter((name) => from.services.some((service) => service.name === name));
}

/** One pattern may stand for different hosts on different entrypoints. */
function hostKey({ pattern, entrypoints }: Host): string {
  return `${pattern} ${entrypoints.join()}`;
}

/** A way to a network service that does not lead through a host. */
interface Way {
  readonly entrypoint: string;
  /** A name of a TLS router; null: whatever comes. */
  readonly name: string | null;
  readonly service: string;
  /** What else must be equal for nothing to move. */
  readonly manner: string;
}

function movingBehindRouters(from: RoutingPart, to: RoutingPart): readonly string[] {
  const before = waysOf(from);
  const after = waysOf(to);
  const moving: string[] = [];
  for (const [key, way] of before) {
    const successor = after.get(key);
    if (successor?.service !== way.service || successor.manner !== way.manner) moving.push(way.service);
  }
  // A new name takes connections away from the wildcard that got them until now.
  for (const [key, { entrypoint, name }] of after) {
    if (before.has(key) || name === null) continue;
    for (const way of before.values()) {
      if (way.entrypoint === entrypoint && way.name !== null && patternCovers(way.name, name)) moving.push(way.service);
    }
  }
  return moving;
}

function waysOf({ entrypoints, routers }: RoutingPart): ReadonlyMap<string, Way> {
  const ways = new Map<string, Way>();
  const add = (kind: string, way: Way): void => {
    ways.set(`${kind} ${way.entrypoint} ${way.name ?? ''}`, way);
  };
  for (const { entrypoint, service, terminate } of routers.tcp) {
    add('tcp', { entrypoint, name: null, service, manner: digestOf(terminate) });
  }
  for (const { entrypoint, service } of routers.udp) add('udp', { entrypoint, name: null, service, manner: '' });
  for (const { entrypoint, service, names } of routers.tls) {
    for (const name of names) add('tls', { entrypoint, name, service, manner: '' });
  }
  for (const { name: entrypoint, rawFallback } of entrypoints) {
    if (rawFallback !== null) add('raw', { entrypoint, name: null, service: rawFallback.service, manner: '' });
  }
  return ways;
}

function sameTraffic(a: Service, b: Service): boolean {
  return a.generation.number === b.generation.number && a.state === b.state;
}

function sameRouting(a: Host, b: Host): boolean {
  return (
    a.tls === b.tls &&
    a.routes.length === b.routes.length &&
    a.entrypoints.join() === b.entrypoints.join() &&
    a.routes.every((route, i) => sameTarget(route, b.routes[i]!))
  );
}

function sameTarget(a: Route, b: Route): boolean {
  return a.path === b.path && JSON.stringify(a.action) === JSON.stringify(b.action);
}
