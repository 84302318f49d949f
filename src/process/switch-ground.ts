// Where switches happen: the switch machine's view of what is served.
// Invariant: translates only; order and failure are the switch's and the publication's business.
import type { Backend, Service } from '../model/snapshot.ts';
import type { Drain } from './drains.ts';
import { claimsOf } from './inspection.ts';
import type { Published } from './publication-run.ts';
import { addressesOf, type Intent } from './service-state.ts';
import type { Serving } from './serving.ts';
import type { SwitchGround, SwitchTarget, Troubles } from './switches.ts';

export class ServingGround implements SwitchGround {
  readonly #serving: Serving;
  readonly #now: () => number;

  constructor(serving: Serving, now: () => number) {
    this.#serving = serving;
    this.#now = now;
  }

  service(name: string): Service | null {
    return this.#serving.service(name);
  }

  declared(name: string): readonly Backend[] {
    return this.#serving.declared.services.find((service) => service.name === name)?.generation.backends ?? [];
  }

  publish(target: SwitchTarget, onHold: () => void): Promise<{ published: Published; drain: Drain | null }> {
    const { service, backends, drainMs } = target;
    const proven = addressesOf(backends ?? this.declared(service));
    const intent: Intent = backends === null ? { kind: 'to-config' } : { kind: 'switch', backends, at: this.#now() };
    return this.#serving.grant({ service, intent, drainMs, proven }, onHold);
  }

  async claims(service: string, generation: number): Promise<{ readonly active: number; readonly claimed: number }> {
    const stats = await this.#serving.stats();
    return claimsOf(
      service,
      generation,
      stats.map(([, worker]) => worker),
    );
  }

  troubles(service: string): Promise<Troubles> {
    return troublesOf(this.#serving, service);
  }
}

/** Retried and failed exchanges of a service ever. */
export async function troublesOf(serving: Serving, service: string): Promise<Troubles> {
  const metrics = await serving.workerMetrics();
  const { hosts, routers } = serving.snapshot.parts.routing;
  const routes = new Set(
    hosts
      .flatMap((host) => host.routes)
      .filter(({ action }) => action.kind === 'forward' && action.service === service)
      .map((route) => route.id),
  );
  const udp = new Set(routers.udp.filter((router) => router.service === service).map(({ entrypoint }) => entrypoint));
  const count = (family: string, label: string, wanted: ReadonlySet<string>): number =>
    serving.metrics
      .sum(metrics, `turnpike_${family}`)
      .reduce((total, { labels, value }) => (wanted.has(String(labels[label])) ? total + value : total), 0);
  return {
    retries: count('http_retries_total', 'route', routes),
    errors:
      count('http_failures_total', 'route', routes) +
      count('tcp_failures_total', 'service', new Set([service])) +
      count('udp_refused_total', 'entrypoint', udp),
  };
}
