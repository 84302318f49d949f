// Which services must hold their arrivals while a publication commits, so that no worker serves the new answer while
// another still serves the old one.
// Invariant: a service is listed when an arrival for some (host, path) could get another backend set, action or TLS
// treatment after the commit than before it; services that nothing changes for are never listed.
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
  const nextHosts = new Map(to.hosts.map((host) => [host.pattern, host]));
  for (const host of from.hosts) {
    const successor = nextHosts.get(host.pattern);
    if (successor === undefined || !sameRouting(host, successor)) {
      for (const route of host.routes) if (route.action.kind === 'forward') moving.add(route.action.service);
    }
  }
  // A new, more specific pattern takes arrivals away from a wildcard or the catch-all that serves them now.
  const before = new Set(from.hosts.map((host) => host.pattern));
  if (to.hosts.some((host) => !before.has(host.pattern))) {
    for (const host of from.hosts) {
      if (!host.pattern.startsWith('*')) continue;
      for (const route of host.routes) if (route.action.kind === 'forward') moving.add(route.action.service);
    }
  }
  return [...moving].filter((name) => from.services.some((service) => service.name === name));
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
