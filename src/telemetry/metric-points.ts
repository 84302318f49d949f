// The families of /metrics as OTLP metrics: counters as sums, gauges as they are, histograms with a count for each bucket.
// Invariant: cumulative since the start of this process; the names and labels are those of /metrics.
import type { Metrics } from '../base/metrics.ts';
import { type Encoded, keyValues, nanosOf } from './otlp.ts';

type Family = ReturnType<Metrics['collect']>[number];
type Labels = Readonly<Record<string, string | number>>;

const cumulative = 2;

export function encodedMetrics(
  families: readonly Family[],
  resource: string,
  startedAt: number,
  now: number,
): readonly Encoded[] {
  const times = { startTimeUnixNano: nanosOf(startedAt), timeUnixNano: nanosOf(now) };
  return families
    .filter(({ values }) => values.length > 0)
    .map((family) => ({
      resource,
      text: JSON.stringify({ name: family.name, description: family.help, ...dataOf(family, times) }),
    }));
}

interface Times {
  readonly startTimeUnixNano: string;
  readonly timeUnixNano: string;
}

function dataOf(family: Family, times: Times): object {
  const kind = String(family.type);
  if (kind === 'histogram')
    return { histogram: { dataPoints: histogramPoints(family, times), aggregationTemporality: cumulative } };
  const dataPoints = family.values.map(({ labels, value }) => ({
    attributes: keyValues(labels as Labels),
    ...(kind === 'gauge' ? { timeUnixNano: times.timeUnixNano } : times),
    asDouble: value,
  }));
  if (kind === 'gauge') return { gauge: { dataPoints } };
  return { sum: { dataPoints, aggregationTemporality: cumulative, isMonotonic: true } };
}

interface Buckets {
  readonly labels: Labels;
  /** Up to each bound, the ones below included. */
  readonly upTo: { readonly bound: number; readonly count: number }[];
  sum: number;
  count: number;
}

function histogramPoints(family: Family, times: Times): readonly object[] {
  const points = new Map<string, Buckets>();
  for (const { labels, value, metricName } of family.values as readonly (Family['values'][number] & {
    metricName?: string;
  })[]) {
    const { le, ...own } = labels as Labels;
    const key = JSON.stringify(own);
    const found = points.get(key) ?? { labels: own, upTo: [], sum: 0, count: 0 };
    points.set(key, found);
    if (metricName === `${family.name}_sum`) found.sum = value;
    else if (metricName === `${family.name}_count`) found.count = value;
    else if (le !== '+Inf') found.upTo.push({ bound: Number(le), count: value });
  }
  return [...points.values()].map(({ labels, upTo, sum, count }) => {
    upTo.sort((a, b) => a.bound - b.bound);
    const counts = [...upTo.map((each) => each.count), count].map((upHere, i, all) => upHere - (all[i - 1] ?? 0));
    return {
      attributes: keyValues(labels),
      ...times,
      count: String(count),
      sum,
      bucketCounts: counts.map(String),
      explicitBounds: upTo.map(({ bound }) => bound),
    };
  });
}
