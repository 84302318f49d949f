// The metrics of all processes as one exposition: workers' counters added up, what left workers had counted included.
// Invariant: a counter never goes back while the supervisor lives, except when its route or service leaves the configuration.
import type { RoutingPart } from '../model/snapshot.ts';
import type { ProcessMetrics } from './protocol.ts';

export class MetricsSum {
  /** What workers that are gone had counted. */
  #departed: ProcessMetrics = [];

  /** Keeps a leaving worker's counters; its gauges end with it. */
  keep(metrics: ProcessMetrics): void {
    const sums = new Map(this.#departed.map((metric) => [metric.name, metric]));
    for (const metric of metrics) {
      if (String(metric.type) === 'gauge') continue;
      const kept = sums.get(metric.name);
      sums.set(
        metric.name,
        kept === undefined ? metric : { ...kept, values: addUp([...kept.values, ...metric.values]) },
      );
    }
    this.#departed = [...sums.values()];
  }

  /** Series of routes and services that left are not kept. */
  forget(routing: RoutingPart): void {
    const known: Readonly<Record<string, ReadonlySet<string>>> = {
      route: new Set(routing.hosts.flatMap((host) => host.routes.map((route) => route.id))),
      service: new Set(routing.services.map((service) => service.name)),
      entrypoint: new Set(routing.entrypoints.map((entrypoint) => entrypoint.name)),
    };
    this.#departed = this.#departed.map((metric) => ({
      ...metric,
      values: metric.values.filter(({ labels }) =>
        Object.entries(known).every(([label, names]) => {
          const value = (labels as Readonly<Record<string, unknown>>)[label];
          // '' and 'other' are the buckets of what no route or service was found for.
          return value === undefined || value === '' || value === 'other' || names.has(String(value));
        }),
      ),
    }));
  }

  /** Prometheus text format. */
  async text(processes: readonly ProcessMetrics[]): Promise<string> {
    // Loaded when first scraped: it brings a hundred modules along, and starting does not need one of them.
    const { AggregatorRegistry } = await import('prom-client');
    return AggregatorRegistry.aggregate([this.#departed, ...processes]).metrics();
  }

  /** Every family, added up over processes. */
  totals(processes: readonly ProcessMetrics[]): ProcessMetrics {
    const families = new Map<string, ProcessMetrics[number]>();
    for (const metric of [this.#departed, ...processes].flat()) {
      const found = families.get(metric.name);
      families.set(
        metric.name,
        found === undefined ? metric : { ...found, values: [...found.values, ...metric.values] },
      );
    }
    return [...families.values()].map((metric) => ({ ...metric, values: addUp(metric.values) }));
  }

  /** One family's series, added up over processes: for reports and status. */
  sum(processes: readonly ProcessMetrics[], name: string): readonly Series[] {
    return addUp(
      [this.#departed, ...processes].flat().flatMap((metric) => (metric.name === name ? metric.values : [])),
    );
  }
}

/** A histogram's series carry the name of their own kind of series. */
export type Series = ProcessMetrics[number]['values'][number] & { readonly metricName?: string };

function addUp(series: readonly Series[]): Series[] {
  const sums = new Map<string, Series>();
  for (const each of series) {
    const key = JSON.stringify([each.metricName, each.labels]);
    const sum = sums.get(key);
    sums.set(key, sum === undefined ? { ...each } : { ...sum, value: sum.value + each.value });
  }
  return [...sums.values()];
}
