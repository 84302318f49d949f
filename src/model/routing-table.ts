// RoutingPart → the indexes that a request is matched with. Pure; the same function runs in supervisor and workers.
// Invariant: exact beats one-label wildcard beats catch-all; within a host the longest path wins, by whole segments.
import type { Entrypoint, Host, Route, RoutingPart, Service, TcpRouter, TlsRouter, UdpRouter } from './snapshot.ts';

export interface RoutingTable {
  readonly part: RoutingPart;
  readonly entrypoints: ReadonlyMap<string, EntrypointRoutes>;
  readonly services: ReadonlyMap<string, Service>;
  /** Every reserved host by pattern, whatever the entrypoint: the 421 test asks "is this ours at all?". */
  readonly reserved: HostIndex;
  /** A host pattern → its TLS profile id. */
  readonly profiles: ReadonlyMap<string, TlsProfile>;
}

export interface EntrypointRoutes {
  readonly entrypoint: Entrypoint;
  readonly hosts: HostIndex;
  /** The one router of a `tcp` entrypoint; null elsewhere, or when there is none. */
  readonly tcp: TcpRouter | null;
  /** The one router of a `udp` entrypoint. */
  readonly udp: UdpRouter | null;
  readonly passthrough: PassthroughIndex;
}

/** TLS routers by the names they take. */
export interface PassthroughIndex {
  readonly exact: ReadonlyMap<string, TlsRouter>;
  /** Keyed like the wildcards of a HostIndex. */
  readonly wildcard: ReadonlyMap<string, TlsRouter>;
}

/** A host as it is looked up: the declaration plus what follows from it for every request. */
export interface HostEntry {
  readonly host: Host;
  readonly profileId: string;
}

export interface HostIndex {
  readonly exact: ReadonlyMap<string, HostEntry>;
  /** Keyed by what follows the first label, dot included: ".wild.test". */
  readonly wildcard: ReadonlyMap<string, HostEntry>;
  readonly catchAll: HostEntry | null;
}

/** TLS settings that are fixed per `tls.Server`, not per certificate (they cannot be set in SNICallback). */
export interface TlsProfile {
  readonly id: string;
  readonly minVersion: '1.2' | '1.3';
  readonly clientAuth: Host['clientAuth'];
  /** HTTP is spoken inside, and ALPN says which. */
  readonly http: boolean;
}

export const defaultProfileId = 'default';
/** Of tunnels whose TLS is ended here. */
export const tunnelProfileId = 'tunnel';

export function compileRoutingTable(part: RoutingPart, digestOf: (text: string) => string): RoutingTable {
  const profiles = new Map<string, TlsProfile>();
  const { minVersion } = part.settings;
  profiles.set(defaultProfileId, { id: defaultProfileId, minVersion, clientAuth: null, http: true });
  if (part.routers.tcp.some((router) => router.terminate !== null)) {
    profiles.set(tunnelProfileId, { id: tunnelProfileId, minVersion, clientAuth: null, http: false });
  }
  const entries = part.hosts.map((host) => {
    const profileId = profileIdOf(host, minVersion, digestOf);
    if (!profiles.has(profileId)) {
      const { minVersion: own, clientAuth } = host;
      profiles.set(profileId, { id: profileId, minVersion: own, clientAuth, http: true });
    }
    return { host, profileId };
  });
  const entrypoints = new Map<string, EntrypointRoutes>();
  for (const entrypoint of part.entrypoints) {
    const served = entries.filter((entry) => entry.host.entrypoints.includes(entrypoint.name));
    const here = (router: { readonly entrypoint: string }): boolean => router.entrypoint === entrypoint.name;
    entrypoints.set(entrypoint.name, {
      entrypoint,
      hosts: indexHosts(served),
      tcp: part.routers.tcp.find(here) ?? null,
      udp: part.routers.udp.find(here) ?? null,
      passthrough: indexNames(part.routers.tls.filter(here)),
    });
  }
  return {
    part,
    entrypoints,
    services: new Map(part.services.map((service) => [service.name, service])),
    // A port of the gate takes every name there is, on that port only.
    reserved: indexHosts(entries.filter(({ host }) => host.tls !== 'either')),
    profiles,
  };
}

function profileIdOf(host: Host, minVersion: TlsProfile['minVersion'], digestOf: (text: string) => string): string {
  if (host.minVersion === minVersion && host.clientAuth === null) return defaultProfileId;
  const auth =
    host.clientAuth === null ? 'none' : `${host.clientAuth.mode}:${digestOf(host.clientAuth.ca).slice(0, 16)}`;
  return `${host.minVersion}/${auth}`;
}

function indexHosts(entries: readonly HostEntry[]): HostIndex {
  const exact = new Map<string, HostEntry>();
  const wildcard = new Map<string, HostEntry>();
  let catchAll: HostEntry | null = null;
  for (const entry of entries) {
    const { pattern } = entry.host;
    if (pattern === '*') catchAll = entry;
    else if (pattern.startsWith('*.')) wildcard.set(pattern.slice(1), entry);
    else exact.set(pattern, entry);
  }
  return { exact, wildcard, catchAll };
}

function indexNames(routers: readonly TlsRouter[]): PassthroughIndex {
  const exact = new Map<string, TlsRouter>();
  const wildcard = new Map<string, TlsRouter>();
  for (const router of routers) {
    for (const name of router.names) {
      if (name.startsWith('*.')) wildcard.set(name.slice(1), router);
      else exact.set(name, router);
    }
  }
  return { exact, wildcard };
}

/** The router that takes connections for a canonical server name, or null: they are for the terminator. */
export function findPassthrough(index: PassthroughIndex, name: string): TlsRouter | null {
  const exact = index.exact.get(name);
  if (exact !== undefined) return exact;
  const dot = name.indexOf('.');
  return (dot > 0 && index.wildcard.get(name.slice(dot))) || null;
}

/** The entry for a canonical host, or null: unknown here. */
export function findHost(index: HostIndex, host: string): HostEntry | null {
  const exact = index.exact.get(host);
  if (exact !== undefined) return exact;
  if (index.wildcard.size > 0) {
    const dot = host.indexOf('.');
    if (dot > 0) {
      const wild = index.wildcard.get(host.slice(dot));
      if (wild !== undefined) return wild;
    }
  }
  return index.catchAll;
}

/** The route of a host for an origin-form target (query included), or null: known host, no such path. */
export function findRoute(host: Host, target: string): Route | null {
  const { routes } = host;
  for (let i = 0; i < routes.length; i++) {
    const route = routes[i]!;
    if (pathCovers(route.path, target)) return route;
  }
  return null;
}

/** True when `path` is '/' or a whole-segment prefix of the target's path. */
export function pathCovers(path: string, target: string): boolean {
  if (path === '/') return true;
  if (!target.startsWith(path)) return false;
  const next = target.charCodeAt(path.length);
  // End of string gives NaN; otherwise the next character must begin a new segment or the query.
  return target.length === path.length || next === 0x2f || next === 0x3f;
}
