// What an operator sees change between two routings: the answer of `diff` and of `reload`.
// Invariant: pure; equal routings give a result with `empty` true, and every change names the entry that it concerns.
import { canonicalJson } from './digest.ts';
import { movingServices } from './moves.ts';
import type { Entrypoint, Host, Routers, RoutingPart, Service } from './snapshot.ts';

export interface RoutingChanges {
  readonly empty: boolean;
  readonly entrypoints: readonly Change[];
  readonly hosts: readonly Change[];
  /** Named after what leads there: "tcp git", "udp game", "tls edge db.example.com". */
  readonly routers: readonly Change[];
  readonly services: readonly Change[];
  /** Names of global settings that differ: "trusted_proxies", "limits.header_timeout", … */
  readonly settings: readonly string[];
  /** Services whose arrivals wait for the moment of the change (at most the publication hold). */
  readonly held: readonly string[];
}

export interface Change {
  readonly kind: 'added' | 'removed' | 'changed';
  readonly name: string;
  /** "rebinds *:8080 → *:9090", "owner config.toml:12 → config.toml:40", "127.0.0.1:3001 → 127.0.0.1:3002". */
  readonly details: readonly string[];
}

export function routingChanges(from: RoutingPart, to: RoutingPart): RoutingChanges {
  const entrypoints = compare(from.entrypoints, to.entrypoints, (each) => each.name, entrypointDetails, bindDetails);
  // Those of ports of the gate are told by their entrypoints.
  const named = ({ hosts: all }: RoutingPart): readonly Host[] => all.filter(({ tls }) => tls !== 'either');
  const hosts = compare(named(from), named(to), (each) => each.pattern, hostDetails, routeDetails);
  const services = compare(from.services, to.services, (each) => each.name, serviceDetails, backendDetails);
  const routers = compare(
    routerRows(from.routers),
    routerRows(to.routers),
    (each) => each.name,
    routerDetails,
    leadsTo,
  );
  const settings = settingNames(from, to);
  return {
    empty: [entrypoints, hosts, routers, services, settings].every((each) => each.length === 0),
    entrypoints,
    hosts,
    routers,
    services,
    settings,
    held: movingServices(from, to),
  };
}

/** "*:8080", "127.0.0.1:80", "[::1]:443". */
export function formatBind(host: string, port: number): string {
  if (host === '') return `*:${port}`;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function compare<T>(
  from: readonly T[],
  to: readonly T[],
  nameOf: (each: T) => string,
  differences: (a: T, b: T) => string[],
  summary: (each: T) => string[],
): Change[] {
  const before = new Map(from.map((each) => [nameOf(each), each]));
  const after = new Map(to.map((each) => [nameOf(each), each]));
  const changes: Change[] = [];
  for (const [name, each] of before) {
    if (!after.has(name)) changes.push({ kind: 'removed', name, details: summary(each) });
  }
  for (const [name, each] of after) {
    const old = before.get(name);
    if (old === undefined) {
      changes.push({ kind: 'added', name, details: summary(each) });
      continue;
    }
    const details = differences(old, each);
    if (details.length > 0) changes.push({ kind: 'changed', name, details });
  }
  return changes;
}

interface RouterRow {
  readonly name: string;
  readonly service: string;
  /** What else it does; null: nothing. */
  readonly terminate: Routers['tcp'][number]['terminate'];
}

function routerRows({ tcp, udp, tls }: Routers): readonly RouterRow[] {
  return [
    ...tcp.map(({ entrypoint, service, terminate }) => ({ name: `tcp ${entrypoint}`, service, terminate })),
    ...udp.map(({ entrypoint, service }) => ({ name: `udp ${entrypoint}`, service, terminate: null })),
    ...tls.flatMap(({ entrypoint, service, names }) =>
      names.map((name) => ({ name: `tls ${entrypoint} ${name}`, service, terminate: null })),
    ),
  ];
}

const leadsTo = ({ service }: RouterRow): string[] => [`to ${service}`];

function routerDetails(a: RouterRow, b: RouterRow): string[] {
  const details: string[] = [];
  if (a.service !== b.service) details.push(`${a.service} → ${b.service}`);
  details.push(...keyDetails(a, b, ['name', 'service']));
  return details;
}

const bindDetails = (each: Entrypoint): string[] => [`${formatBind(each.host, each.port)} ${each.protocol}`];
const routeDetails = (each: Host): string[] => [each.origin];
const backendDetails = (each: Service): string[] => [addressesOf(each)];

function entrypointDetails(a: Entrypoint, b: Entrypoint): string[] {
  const details: string[] = [];
  const [bindA, bindB] = [formatBind(a.host, a.port), formatBind(b.host, b.port)];
  if (bindA !== bindB) details.push(`rebinds ${bindA} → ${bindB}`);
  if (a.protocol !== b.protocol) details.push(`protocol ${a.protocol} → ${b.protocol}`);
  details.push(...keyDetails(a, b, ['name', 'origin', 'host', 'port', 'protocol']));
  return details;
}

function hostDetails(a: Host, b: Host): string[] {
  const details: string[] = [];
  if (ownerOf(a) !== ownerOf(b)) details.push(`owner ${a.origin} → ${b.origin}`);
  if (a.tls !== b.tls) details.push(`tls ${a.tls} → ${b.tls}`);
  details.push(...keyDetails(a, b, ['pattern', 'origin', 'tls', 'routes']));
  const before = new Map(a.routes.map((route) => [route.path, route]));
  const after = new Map(b.routes.map((route) => [route.path, route]));
  for (const path of before.keys()) if (!after.has(path)) details.push(`route ${path} removed`);
  for (const [path, route] of after) {
    const old = before.get(path);
    if (old === undefined) details.push(`route ${path} added`);
    else {
      const keys = keyDetails(old, route, ['origin']);
      if (keys.length > 0) details.push(`route ${path}: ${keys.join(', ')}`);
    }
  }
  return details;
}

function serviceDetails(a: Service, b: Service): string[] {
  const details: string[] = [];
  if (addressesOf(a) !== addressesOf(b)) details.push(`${addressesOf(a)} → ${addressesOf(b)}`);
  if (a.state !== b.state) details.push(`${a.state} → ${b.state}`);
  details.push(...keyDetails(a, b, ['name', 'origin', 'generation', 'state']));
  return details;
}

function settingNames(from: RoutingPart, to: RoutingPart): string[] {
  const { limits: limitsFrom, ...restFrom } = from.settings;
  const { limits: limitsTo, ...restTo } = to.settings;
  return [
    ...keyDetails(restFrom, restTo, []),
    ...keyDetails(limitsFrom, limitsTo, []).map((detail) => `limits.${detail}`),
  ];
}

const addressesOf = (service: Service): string => service.generation.backends.map((each) => each.address).join(', ');

/** The line number moves with every edit above it; the key path is who owns the entry. */
const ownerOf = (host: Host): string => host.origin.replace(/:\d+/, '');

/** Names of the members that differ, as an operator writes them. */
function keyDetails(a: object, b: object, except: readonly string[]): string[] {
  const left = a as Readonly<Record<string, unknown>>;
  const right = b as Readonly<Record<string, unknown>>;
  return Object.keys({ ...left, ...right })
    .filter((key) => !except.includes(key) && canonicalJson(left[key]) !== canonicalJson(right[key]))
    .map((key) => key.replace(/Ms$/, '').replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
}
