// Other ways to an app that the gate stands in front of: they pass the same gate, or a login would be got around by name. Pure.
// Invariant: a host that has its own word about the gate keeps it; every other way to a fronted port asks what the port asks.
import type { Entrypoint, Host, Route, RouteGate, Routers, RoutingPart, Service } from './snapshot.ts';

export interface FrontedPort {
  readonly host: string;
  readonly port: number;
  /** Null: the port is for this machine alone, and nothing may lead there. */
  readonly gate: RouteGate | null;
  /** "app wiki", for messages. */
  readonly origin: string;
}

export interface Inherited {
  readonly routing: RoutingPart;
  /** Ways that there must not be. */
  readonly problems: readonly string[];
}

/** The ports of these services that some gated route leads to. @param own  names of the services of installed apps */
export function frontedPorts({ hosts, services }: RoutingPart, own: ReadonlySet<string>): readonly FrontedPort[] {
  const gates = new Map<string, RouteGate>();
  for (const { routes } of hosts) {
    for (const { gate, action } of routes) {
      if (gate !== null && action.kind === 'forward' && own.has(action.service)) gates.set(action.service, gate);
    }
  }
  return services.flatMap(({ name, generation }) => {
    const gate = gates.get(name);
    if (gate === undefined) return [];
    return generation.backends.map(({ host, port }) => ({ host, port, gate, origin: `app ${gate.app}` }));
  });
}

/**
 * @param own  names of the services of installed apps: their own ways are as they declare them
 * @param named  patterns of hosts that say themselves what they ask for
 */
export function inheritGates(
  routing: RoutingPart,
  ports: readonly FrontedPort[],
  own: ReadonlySet<string>,
  named: ReadonlySet<string>,
): Inherited {
  if (ports.length === 0) return { routing, problems: [] };
  const byAddress = new Map(ports.map((port) => [addressOf(port), port]));
  const fronted = new Map<string, FrontedPort>();
  for (const { name, generation } of routing.services) {
    if (own.has(name)) continue;
    const port = generation.backends
      .map((backend) => byAddress.get(addressOf(backend)))
      .find((each) => each !== undefined);
    if (port !== undefined) fronted.set(name, port);
  }
  if (fronted.size === 0) return { routing, problems: [] };
  const problems: string[] = [];
  const hosts = routing.hosts.map((host) => inheritHost(host, fronted, named, problems));
  const entrypoints = inheritEntrypoints(routing, fronted, problems);
  return { routing: { ...routing, hosts, entrypoints }, problems };
}

function inheritHost(
  host: Host,
  fronted: ReadonlyMap<string, FrontedPort>,
  named: ReadonlySet<string>,
  problems: string[],
): Host {
  const inherit = (route: Route): Route => {
    const port = route.action.kind === 'forward' ? fronted.get(route.action.service) : undefined;
    if (port === undefined) return route;
    if (port.gate === null) problems.push(`${route.origin}: ${port.origin} is for this machine alone`);
    return route.gate !== null || named.has(host.pattern) ? route : { ...route, gate: port.gate };
  };
  return { ...host, routes: host.routes.map(inherit) };
}

/** A tunnel cannot show a cookie: who is logged in from its address may have it, and where that cannot be asked nobody. */
function inheritEntrypoints(
  { entrypoints, routers }: RoutingPart,
  fronted: ReadonlyMap<string, FrontedPort>,
  problems: string[],
): readonly Entrypoint[] {
  const { tcp, udp, tls }: Routers = routers;
  for (const { service, origin } of tls) {
    const port = fronted.get(service);
    if (port !== undefined)
      problems.push(`${origin}: ${port.origin} asks for a login, and TLS that passes unopened cannot`);
  }
  return entrypoints.map((entrypoint) => {
    const { name, rawFallback, origin } = entrypoint;
    const raw = rawFallback === null ? undefined : fronted.get(rawFallback.service);
    if (raw !== undefined) problems.push(`${origin}: ${raw.origin} asks for a login, and a raw fallback cannot`);
    const service = [...tcp, ...udp].find((router) => router.entrypoint === name)?.service;
    const port = service === undefined ? undefined : fronted.get(service);
    if (port === undefined || entrypoint.requiresSession !== null) return entrypoint;
    if (port.gate === null) problems.push(`${origin}: ${port.origin} is for this machine alone`);
    if (port.gate === null || port.gate.policy === 'open') return entrypoint;
    return { ...entrypoint, requiresSession: port.gate.app };
  });
}

/** Every spelling of this machine's own loopback is one. */
function addressOf({ host, port }: Pick<Service['generation']['backends'][number], 'host' | 'port'>): string {
  return `${isThisMachine(host.toLowerCase()) ? 'loopback' : host.toLowerCase()} ${port}`;
}

/** Also the unspecified addresses: a connection to one of them goes to this machine (RFC 1122 §3.2.1.3). */
function isThisMachine(host: string): boolean {
  if (host === 'localhost' || host.endsWith('.localhost')) return true;
  if (host === '0.0.0.0' || host.startsWith('127.')) return true;
  // `::ffff:0:0` is 0.0.0.0, and `::ffff:7fxx:…` is 127.x, as the URL parser spells them.
  return host === '::' || host === '::1' || /^::ffff:(?:7f[0-9a-f]{2}:|0:0$|127\.|0\.0\.0\.0$)/.test(host);
}
