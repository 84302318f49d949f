// One `[external_routes."HOST"]` → its Host with routes, and the services it forwards to.
// Invariant: a path takes from its host what it leaves out, except what is about backends when it has its own.
import { digestOf } from '../model/digest.ts';
import type {
  Backend,
  ClientAuth,
  Compression,
  HeaderRules,
  HealthCheck,
  Host,
  Limits,
  PathRewrite,
  Route,
  RouteAction,
  UpstreamTls,
} from '../model/snapshot.ts';
import type { UpstreamTlsWritten } from './backend-keys.ts';
import type { DeclaredService } from './declaration.ts';
import type { HeaderRulesWritten } from './header-keys.ts';
import { limitsWithin } from './limit-keys.ts';
import type { HostWritten, PathWritten } from './route-keys.ts';
import { contentOf, originOf, type Surroundings } from './surroundings.ts';
import type { Path } from './syntax.ts';
import { parsePattern, type WrittenBackend } from './values.ts';

type Written = HostWritten | PathWritten;

interface Resolved {
  /** The host, and one more for each alias, with the same routes. */
  readonly hosts: readonly Host[];
  readonly services: readonly DeclaredService[];
}

export function resolveHost(name: string, written: HostWritten, surroundings: Surroundings): Resolved {
  const { settings } = surroundings;
  const pattern = parsePattern(name) as string;
  const path: Path = ['external_routes', name];
  const limits = limitsWithin(settings.limits, written);
  const services: DeclaredService[] = [];
  const routes: Route[] = [];
  if (written.to !== null) services.push(resolveService(pattern, written, limits, path, surroundings));
  if (written.to !== null || written.redirect !== null || written.respond !== null) {
    routes.push(resolveRoute(pattern, '/', written, null, limits, path, surroundings));
  }
  for (const { index, value: each } of written.routes) {
    const at = [...path, 'routes', index];
    const own = limitsWithin(limits, each);
    // The one path that names no path is the host's.
    const id = each.path === '/' ? pattern : pattern + each.path;
    if (each.to !== null) services.push(resolveService(id, each, own, at, surroundings));
    routes.push(resolveRoute(pattern, each.path, each, written, own, at, surroundings));
  }
  const host: Host = {
    pattern,
    origin: originOf(surroundings, path),
    tls: written.tls,
    entrypoints: written.entrypoints ?? surroundings.httpEntrypoints,
    minVersion: written.min_version ?? settings.minVersion,
    clientAuth: resolveClientAuth(written, surroundings),
    hsts: resolveHsts(written),
    routes: routes.sort((a, b) => b.path.length - a.path.length),
  };
  const aliases = written.aliases.map((alias, i): Host => {
    return { ...host, pattern: alias, origin: originOf(surroundings, [...path, 'aliases', i]) };
  });
  return { hosts: [host, ...aliases], services };
}

function resolveRoute(
  pattern: string,
  path: string,
  written: Written,
  host: HostWritten | null,
  limits: Limits,
  at: Path,
  surroundings: Surroundings,
): Route {
  const id = path === '/' ? pattern : pattern + path;
  const near = <K extends keyof Written>(key: K): Written[K] | null => written[key] ?? host?.[key] ?? null;
  // The Host field is about backends: it comes from where `to` comes from.
  const backendsOf = written.to === null && host !== null ? host : written;
  const rateLimit = near('rate_limit');
  return {
    id,
    origin: originOf(surroundings, at),
    path,
    action: resolveAction(id, written, host, pattern, surroundings),
    hostHeader: backendsOf.host_header,
    requestHeaders: resolveRules(near('request_headers')),
    responseHeaders: resolveRules(near('response_headers')),
    compression: resolveCompression(near('compression')),
    retry: near('retry') ?? true,
    rateLimit:
      rateLimit === null
        ? null
        : {
            perSecond: (rateLimit.requests * 1000) / rateLimit.per,
            burst: rateLimit.burst ?? rateLimit.requests,
          },
    gate: surroundings.gates.get(pattern) ?? null,
    limits,
  };
}

function resolveAction(
  id: string,
  written: Written,
  host: HostWritten | null,
  pattern: string,
  surroundings: Surroundings,
): RouteAction {
  const own = written.to !== null || written.redirect !== null || written.respond !== null;
  const { respond, redirect } = own || host === null ? written : host;
  if (redirect !== null) return { kind: 'redirect', ...redirect };
  if (respond !== null) {
    const headers = [...(respond.headers ?? [])];
    const body = respond.body ?? contentOf(surroundings, respond.body_file);
    return { kind: 'respond', status: respond.status, headers, body };
  }
  return { kind: 'forward', service: own ? id : pattern, rewrite: resolveRewrite(written, own ? null : host) };
}

/** @param host  where the backends come from, when the path has none: what it puts before every path holds here too */
function resolveRewrite(written: Written, host: HostWritten | null): PathRewrite | null {
  if (written.replace_prefix !== null) return { kind: 'replace', to: written.replace_prefix };
  const before = host?.replace_prefix ?? null;
  const strip = 'strip_prefix' in written && written.strip_prefix;
  if (before === null) return strip ? { kind: 'strip' } : null;
  return { kind: 'replace', to: strip || !('path' in written) ? before : before.replace(/^\/$/, '') + written.path };
}

// ---- services --------------------------------------------------------------------------------------------------

function resolveService(
  name: string,
  written: Written,
  limits: Limits,
  path: Path,
  surroundings: Surroundings,
): DeclaredService {
  const to = written.to ?? [];
  const protocol = written.protocol ?? to[0]?.scheme ?? 'http1';
  return {
    name,
    origin: originOf(surroundings, path),
    backends: to.map(withoutScheme),
    // The short form has no key of its own for them.
    backendsOrigin: originOf(surroundings, surroundings.document.has([...path, 'to']) ? [...path, 'to'] : path),
    balance: written.balance,
    balanceKey: written.balance_key ?? '',
    stickyCookie: written.sticky === true ? cookieName(name) : written.sticky === false ? '' : written.sticky,
    protocol,
    upstreamTls:
      protocol === 'https' || protocol === 'h2' ? resolveUpstreamTls(written.upstream_tls, surroundings) : null,
    network: null,
    health: resolveHealth(written),
    passive: { failures: written.passive_health.failures, ejectMs: written.passive_health.eject },
    backendLimits: {
      backendConnections: limits.backendConnections,
      backendConnectTimeoutMs: limits.backendConnectTimeoutMs,
      backendKeepAliveTimeoutMs: limits.backendKeepAliveTimeoutMs,
    },
    drainMs: limits.drainMs,
    streamDrainMs: limits.streamDrainMs,
    maxHoldMs: limits.maxHoldMs,
  };
}

function withoutScheme({ address, host, port }: WrittenBackend): Backend {
  return { address, host, port };
}

/** Two services of one host must not overwrite each other's cookie. */
function cookieName(service: string): string {
  return `turnpike_${digestOf(service).slice(0, 8)}`;
}

export function resolveUpstreamTls(written: UpstreamTlsWritten | null, surroundings: Surroundings): UpstreamTls {
  return {
    sni: written?.sni ?? '',
    verify: written?.verify ?? true,
    ca: contentOf(surroundings, written?.ca_file),
    cert: contentOf(surroundings, written?.cert_file),
    key: contentOf(surroundings, written?.key_file),
  };
}

function resolveHealth({ health }: Written): HealthCheck | null {
  if (health === null) return null;
  return {
    type: health.type,
    path: health.path ?? '/',
    host: health.host ?? '',
    intervalMs: health.interval,
    timeoutMs: health.timeout,
    healthyAfter: health.healthy_after,
    unhealthyAfter: health.unhealthy_after,
  };
}

// ---- parts of hosts and routes ---------------------------------------------------------------------------------

function resolveClientAuth({ client_auth: auth }: HostWritten, surroundings: Surroundings): ClientAuth | null {
  if (auth === null || auth.mode === 'none') return null;
  return { mode: auth.mode, ca: contentOf(surroundings, auth.ca_file) };
}

/** RFC 6797 §6.1. */
function resolveHsts({ hsts }: HostWritten): string | null {
  if (hsts === null) return null;
  const subdomains = hsts.include_subdomains ? '; includeSubDomains' : '';
  return `max-age=${Math.floor(hsts.max_age / 1000)}${subdomains}${hsts.preload ? '; preload' : ''}`;
}

/** One for all that have none: snapshots of many routes are small by it. */
const noRules: HeaderRules = { remove: [], set: [], add: [] };

function resolveRules(rules: HeaderRulesWritten | null): HeaderRules {
  if (rules === null) return noRules;
  return {
    remove: rules.remove ?? [],
    set: [...(rules.set ?? [])],
    add: [...(rules.add ?? [])].flatMap(([name, values]) => values.map((value): [string, string] => [name, value])),
  };
}

function resolveCompression(written: Written['compression']): Compression | null {
  if (written === null || written === false) return null;
  return { encodings: written.encodings, minSize: written.min_size, types: written.types };
}
