// What follows from a snapshot for every request of a host or a route, worked out on first use and kept until it changes.
// Invariant: one `Plans` belongs to one compiled snapshot; commit swaps it in the same step as the routing table.

import { findHost, type HostEntry, pathCovers } from '../model/routing-table.ts';
import type { PartName, RateLimit, Route } from '../model/snapshot.ts';
import type { Compiled, Participant } from '../traffic/traffic.ts';
import { type TrustedAddresses, trustedAddresses } from './client-address.ts';
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

  constructor(compiled: Compiled, deps: PlanDeps) {
    this.#compiled = compiled;
    this.deps = deps;
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
  readonly #plans: Plans;
  readonly #routes: (RoutePlan | undefined)[] = [];
  #endpoint: HttpsEndpoint | null | undefined;

  constructor(entry: HostEntry, plans: Plans) {
    this.entry = entry;
    this.#plans = plans;
  }

  /** The route for a target; null: known host, no such path. */
  route(target: string): RoutePlan | null {
    const { routes } = this.entry.host;
    for (let i = 0; i < routes.length; i++) {
      if (!pathCovers(routes[i]!.path, target)) continue;
      let plan = this.#routes[i];
      if (plan === undefined) this.#routes[i] = plan = new RoutePlan(routes[i]!, this, this.#plans.deps);
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
  /** The body of a fixed response. */
  readonly body: Buffer;

  constructor(route: Route, host: HostPlan, deps: PlanDeps) {
    this.route = route;
    this.host = host;
    this.requestRules = compileRules(route.requestHeaders);
    this.responseRules = compileRules(route.responseHeaders);
    this.limiter = limiterFor(route, deps);
    this.metrics = deps.metrics.route(route.id);
    this.body = Buffer.from(route.action.kind === 'respond' ? route.action.body : '', 'utf8');
  }
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
    if (this.#current !== null && !changed.has('routing') && !changed.has('certificates')) return null;
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
