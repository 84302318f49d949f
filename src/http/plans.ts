// What follows from a snapshot for every request of a host or a route, worked out on first use and kept until it changes.
// Invariant: one `Plans` belongs to one compiled snapshot; commit swaps it in the same step as the routing table.

import { findHost, type HostEntry, pathCovers, type RoutingTable } from '../model/routing-table.ts';
import type { GatePart, PartName, RateLimit, Route } from '../model/snapshot.ts';
import { judgePlaintext } from '../model/tls-policy.ts';
import type { Compiled, Participant } from '../traffic/traffic.ts';
import { type TrustedAddresses, trustedAddresses } from './client-address.ts';
import { pathsDecide, RouteGuard } from './guard.ts';
import { type CompiledRules, compileRules } from './header-rules.ts';
import { type HttpMetrics, otherRoute, type RouteMetrics } from './http-metrics.ts';
import { type HttpsEndpoint, httpsEndpoint } from './https-endpoint.ts';
import { RateLimiter } from './rate-limit.ts';

/** What plans need that outlives a snapshot. */
export interface PlanDeps {
  readonly metrics: HttpMetrics;
  /** Rate limits are shared out over this many workers. */
  readonly workers: number;
  /** Survives unrelated changes, so that a reload does not refill every bucket. */
  readonly limiters: Map<string, RateLimiter>;
}

export class Plans {
  readonly deps: PlanDeps;
  #compiled: Compiled | null;
  readonly #hosts = new Map<HostEntry, HostPlan>();
  readonly #trusted = new Map<string, TrustedAddresses>();
  /** Some route is the gate's: from then on no app may see its credentials. */
  readonly hasGate: boolean;

  constructor(compiled: Compiled, deps: PlanDeps) {
    this.#compiled = compiled;
    this.deps = deps;
    this.hasGate = hasGate(compiled.table);
  }

  get gatePart(): GatePart {
    return this.compiled.snapshot.parts.gate;
  }

  get compiled(): Compiled {
    if (this.#compiled === null) throw new Error('these plans have been replaced');
    return this.#compiled;
  }

  /** Replaced. Connections and exchanges that still know these plans must not keep the whole snapshot in memory. */
  retire(): void {
    this.#compiled = null;
    this.#hosts.clear();
    this.#trusted.clear();
  }

  /** The plan of a canonical host on an entrypoint; null: unknown there. */
  host(entrypoint: string, host: string): HostPlan | null {
    const routes = this.compiled.table.entrypoints.get(entrypoint);
    if (routes === undefined) return null;
    const entry = findHost(routes.hosts, host);
    if (entry === null) return null;
    let plan = this.#hosts.get(entry);
    if (plan === undefined) {
      plan = new HostPlan(entry, this);
      this.#hosts.set(entry, plan);
    }
    return plan;
  }

  /** Where a name of ours is reachable over TLS, on whatever entrypoint. */
  httpsEndpointOf(name: string): HttpsEndpoint | null {
    const { table, snapshot } = this.compiled;
    const entry = findHost(table.reserved, name);
    return entry === null ? null : httpsEndpoint(entry.host, name, table, snapshot.parts.certificates);
  }

  /**
   * A login may lead back there, with a code for a session: it is a name with an app of the gate, on a port of ours. Names
   * that only the catch-all takes are anybody's, and what would not be served in plaintext gets no code in the clear.
   */
  isGatedOrigin({ protocol, hostname, port }: URL): boolean {
    const { table } = this.compiled;
    const host = findHost(table.reserved, hostname)?.host;
    if (host === undefined || host.pattern === '*' || !isGated(host.routes)) return false;
    if (protocol !== 'https:') {
      const endpoint = this.httpsEndpointOf(hostname) !== null;
      if (judgePlaintext(host.tls, endpoint, table.part.settings.redirect, false) !== 'serve') return false;
    }
    if (port === '') return true;
    return host.entrypoints.some((name) => {
      const entrypoint = table.entrypoints.get(name)?.entrypoint;
      return entrypoint !== undefined && String(entrypoint.publicPort ?? entrypoint.port) === port;
    });
  }

  /** Who is believed about forwarded addresses on this entrypoint. */
  trusted(entrypoint: string): TrustedAddresses {
    let trusted = this.#trusted.get(entrypoint);
    if (trusted === undefined) {
      const { table } = this.compiled;
      const own = table.entrypoints.get(entrypoint)?.entrypoint.trustedProxies ?? null;
      trusted = trustedAddresses(own ?? table.part.settings.trustedProxies);
      this.#trusted.set(entrypoint, trusted);
    }
    return trusted;
  }
}

export class HostPlan {
  readonly entry: HostEntry;
  /** `/.turnpike/` is the gate's. */
  readonly gated: boolean;
  /** The path decides whether a login is asked for, so it must have one spelling only. */
  readonly pathsDecide: boolean;
  readonly #plans: Plans;
  readonly #routes: (RoutePlan | undefined)[] = [];
  #endpoint: HttpsEndpoint | null | undefined;

  constructor(entry: HostEntry, plans: Plans) {
    this.entry = entry;
    this.#plans = plans;
    this.gated = isGated(entry.host.routes);
    this.pathsDecide = pathsDecide(entry.host.routes.map(({ gate }) => gate));
  }

  /** The route for a target; null: known host, no such path. */
  route(target: string): RoutePlan | null {
    const { routes } = this.entry.host;
    for (let i = 0; i < routes.length; i++) {
      if (!pathCovers(routes[i]!.path, target)) continue;
      let plan = this.#routes[i];
      if (plan === undefined) this.#routes[i] = plan = new RoutePlan(routes[i]!, this, this.#plans);
      return plan;
    }
    return null;
  }

  /** Where this host is reachable over TLS; null: nowhere. `name` is the canonical host asked for. */
  httpsEndpoint(name: string): HttpsEndpoint | null {
    const { table, snapshot } = this.#plans.compiled;
    const { host } = this.entry;
    if (host.pattern !== name) return httpsEndpoint(host, name, table, snapshot.parts.certificates);
    if (this.#endpoint === undefined) {
      this.#endpoint = httpsEndpoint(host, name, table, snapshot.parts.certificates);
    }
    return this.#endpoint;
  }
}

export class RoutePlan {
  readonly route: Route;
  readonly host: HostPlan;
  readonly requestRules: CompiledRules;
  readonly responseRules: CompiledRules;
  readonly limiter: RateLimiter | null;
  readonly metrics: RouteMetrics;
  /** Null: there is no gate on this machine. */
  readonly guard: RouteGuard | null;
  /** The body of a fixed response. */
  readonly body: Buffer;

  constructor(route: Route, host: HostPlan, { deps, hasGate, gatePart }: Plans) {
    this.guard = hasGate ? new RouteGuard(route.gate, gatePart, deps.metrics.foreignCookies) : null;
    this.route = route;
    this.host = host;
    this.requestRules = compileRules(route.requestHeaders);
    this.responseRules = compileRules(route.responseHeaders);
    this.limiter = limiterFor(route, deps);
    this.metrics = deps.metrics.route(route.id);
    this.body = Buffer.from(route.action.kind === 'respond' ? route.action.body : '', 'utf8');
  }
}

function isGated(routes: readonly Route[]): boolean {
  return routes.some(({ gate, action }) => gate !== null || action.kind === 'gate');
}

function hasGate({ part }: RoutingTable): boolean {
  return part.hosts.some(({ routes }) => isGated(routes));
}

function limiterFor({ id, rateLimit }: Route, { limiters, workers }: PlanDeps): RateLimiter | null {
  if (rateLimit === null) return null;
  const key = limiterKey(id, rateLimit);
  let limiter = limiters.get(key);
  if (limiter === undefined) {
    limiter = new RateLimiter(rateLimit, workers);
    limiters.set(key, limiter);
  }
  return limiter;
}

function limiterKey(routeId: string, { perSecond, burst }: RateLimit): string {
  return `${routeId}\n${perSecond}/${burst}`;
}

const plannedBy: readonly PartName[] = ['routing', 'certificates', 'gate'];

/** Keeps the plans in step with the snapshot and takes away what left it. */
export class PlanKeeper implements Participant<Plans | null> {
  /** Of the requests that match no route. */
  readonly other: RouteMetrics;
  readonly #deps: PlanDeps;
  readonly #onCommit: (plans: Plans) => void;
  #current: Plans | null = null;

  constructor(metrics: HttpMetrics, workers: number, onCommit: (plans: Plans) => void) {
    this.#deps = { metrics, workers, limiters: new Map() };
    this.#onCommit = onCommit;
    this.other = metrics.route(otherRoute);
  }

  get current(): Plans {
    if (this.#current === null) throw new Error('no snapshot committed yet');
    return this.#current;
  }

  prepare(next: Compiled, _current: Compiled | null, changed: ReadonlySet<PartName>): Plans | null {
    // Health and keys change often and concern no plan.
    if (this.#current !== null && !plannedBy.some((part) => changed.has(part))) return null;
    return new Plans(next, this.#deps);
  }

  commit(next: Plans | null): void {
    if (next === null) return;
    const last = this.#current;
    this.#current = next;
    if (last !== null) {
      if (last.compiled.table !== next.compiled.table) this.#dropGone(last, next);
      last.retire();
    }
    this.#onCommit(next);
  }

  abort(): void {}

  #dropGone(last: Plans, next: Plans): void {
    const kept = new Set<string>();
    const limited = new Set<string>();
    for (const host of next.compiled.table.part.hosts) {
      for (const { id, rateLimit } of host.routes) {
        kept.add(id);
        if (rateLimit !== null) limited.add(limiterKey(id, rateLimit));
      }
    }
    for (const host of last.compiled.table.part.hosts) {
      for (const { id } of host.routes) if (!kept.has(id)) this.#deps.metrics.dropRoute(id);
    }
    for (const key of this.#deps.limiters.keys()) if (!limited.has(key)) this.#deps.limiters.delete(key);
  }
}
