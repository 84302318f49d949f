// Counters that cost one addition. A worker counts in cells; the supervisor adds the workers' cells up when scraped.
// Invariant: label values come from configuration or from a fixed list, never from a client.
import type { MetricObjectWithValues, MetricValue } from 'prom-client';

/** One time series. Hot code keeps the cell and writes `cell.value++`. */
export interface Cell {
  value: number;
}

export class Family {
  readonly name: string;
  readonly help: string;
  readonly kind: 'counter' | 'gauge';
  readonly labelNames: readonly string[];
  readonly #cells = new Map<string, { readonly labels: Record<string, string>; readonly cell: Cell }>();

  constructor(name: string, help: string, kind: 'counter' | 'gauge', labelNames: readonly string[]) {
    this.name = name;
    this.help = help;
    this.kind = kind;
    this.labelNames = labelNames;
  }

  /** The cell for these label values, in the order of `labelNames`; the same cell every time. */
  cell(...values: readonly string[]): Cell {
    const key = values.join('\u0000');
    const found = this.#cells.get(key);
    if (found !== undefined) return found.cell;
    const labels = Object.fromEntries(this.labelNames.map((label, i) => [label, values[i] ?? '']));
    const cell: Cell = { value: 0 };
    this.#cells.set(key, { labels, cell });
    return cell;
  }

  /** Drops the series whose label has this value: the route or service left the configuration. */
  drop(labelName: string, value: string): void {
    for (const [key, { labels }] of this.#cells) if (labels[labelName] === value) this.#cells.delete(key);
  }

  collect(): MetricObjectWithValues<MetricValue<string>> {
    const values = [...this.#cells.values()].map(({ labels, cell }) => ({ labels, value: cell.value }));
    return {
      name: this.name,
      help: this.help,
      type: this.kind,
      aggregator: 'sum',
      values,
    } as unknown as MetricObjectWithValues<MetricValue<string>>;
  }
}

export class HistogramFamily {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly bounds: readonly number[];
  readonly #cells = new Map<string, { readonly labels: Record<string, string>; readonly cell: HistogramCell }>();

  constructor(name: string, help: string, labelNames: readonly string[], bounds: readonly number[]) {
    this.name = name;
    this.help = help;
    this.labelNames = labelNames;
    this.bounds = bounds;
  }

  cell(...values: readonly string[]): HistogramCell {
    const key = values.join('\u0000');
    const found = this.#cells.get(key);
    if (found !== undefined) return found.cell;
    const labels = Object.fromEntries(this.labelNames.map((label, i) => [label, values[i] ?? '']));
    const cell = new HistogramCell(this.bounds);
    this.#cells.set(key, { labels, cell });
    return cell;
  }

  drop(labelName: string, value: string): void {
    for (const [key, { labels }] of this.#cells) if (labels[labelName] === value) this.#cells.delete(key);
  }

  collect(): MetricObjectWithValues<MetricValue<string>> {
    const values: { labels: Record<string, string | number>; value: number; metricName: string }[] = [];
    for (const { labels, cell } of this.#cells.values()) {
      let total = 0;
      for (let i = 0; i < this.bounds.length; i++) {
        total += cell.counts[i]!;
        values.push({ labels: { ...labels, le: this.bounds[i]! }, value: total, metricName: `${this.name}_bucket` });
      }
      values.push({ labels: { ...labels, le: '+Inf' }, value: cell.count, metricName: `${this.name}_bucket` });
      values.push({ labels, value: cell.sum, metricName: `${this.name}_sum` });
      values.push({ labels, value: cell.count, metricName: `${this.name}_count` });
    }
    return {
      name: this.name,
      help: this.help,
      type: 'histogram',
      aggregator: 'sum',
      values,
    } as unknown as MetricObjectWithValues<MetricValue<string>>;
  }
}

export class HistogramCell {
  readonly counts: Float64Array;
  readonly #bounds: readonly number[];
  sum = 0;
  count = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = new Float64Array(bounds.length);
  }

  observe(value: number): void {
    this.sum += value;
    this.count++;
    for (let i = 0; i < this.#bounds.length; i++) {
      if (value <= this.#bounds[i]!) {
        this.counts[i]!++;
        return;
      }
    }
  }
}

/** All families of one process. Names get the prefix `turnpike_`. */
export class Metrics {
  readonly #families = new Map<string, Family | HistogramFamily>();

  counter(name: string, help: string, labelNames: readonly string[] = []): Family {
    return this.#family(name, () => new Family(`turnpike_${name}`, help, 'counter', labelNames)) as Family;
  }

  gauge(name: string, help: string, labelNames: readonly string[] = []): Family {
    return this.#family(name, () => new Family(`turnpike_${name}`, help, 'gauge', labelNames)) as Family;
  }

  histogram(name: string, help: string, labelNames: readonly string[], bounds: readonly number[]): HistogramFamily {
    return this.#family(
      name,
      () => new HistogramFamily(`turnpike_${name}`, help, labelNames, bounds),
    ) as HistogramFamily;
  }

  /** Drops all series that carry this label value. */
  drop(labelName: string, value: string): void {
    for (const family of this.#families.values()) family.drop(labelName, value);
  }

  /** In the shape of prom-client's `getMetricsAsJSON`, so that its aggregator can add processes up. */
  collect(): MetricObjectWithValues<MetricValue<string>>[] {
    return [...this.#families.values()].map((family) => family.collect());
  }

  #family(name: string, make: () => Family | HistogramFamily): Family | HistogramFamily {
    let family = this.#families.get(name);
    if (family === undefined) {
      family = make();
      this.#families.set(name, family);
    }
    return family;
  }
}
