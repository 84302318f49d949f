// What entrypoints and network services have counted of connections, as an operator reads it.
// Invariant: pure; sums over every worker that there ever was, except for what is open, which is what exists.
import { refusals, spokens } from '../entrypoint/entrypoint-metrics.ts';
import type { Entrypoint, Service } from '../model/snapshot.ts';
import type { Series } from './metrics.ts';
import type { ConnectionTraffic, EntrypointStatus, TunnelTraffic } from './operations.ts';

/** All series of a family, by its name without the prefix. */
export type SeriesOf = (family: string) => readonly Series[];

export function connectionTraffic(
  entrypoint: Entrypoint,
  status: EntrypointStatus,
  seriesOf: SeriesOf,
): ConnectionTraffic {
  const mine = (family: string): readonly Series[] => withLabel(seriesOf(family), 'entrypoint', entrypoint.name);
  const bytes = byLabel(mine('entrypoint_bytes_total'), 'direction');
  const isUdp = entrypoint.protocol === 'udp';
  return {
    ...status,
    errors: total(mine('entrypoint_errors_total')),
    bytesIn: bytes['received'] ?? 0,
    bytesOut: bytes['sent'] ?? 0,
    refusals: byLabel(mine('entrypoint_refused_total'), 'reason', isUdp ? ['source'] : refusals),
    protocols: byLabel(mine('entrypoint_protocols_total'), 'protocol', isUdp ? [] : spokens),
  };
}

export function tunnelTraffic({ name }: Service, seriesOf: SeriesOf): TunnelTraffic {
  const mine = (family: string): readonly Series[] => withLabel(seriesOf(family), 'service', name);
  const bytes = byLabel(mine('tcp_bytes_total'), 'direction');
  return {
    service: name,
    open: total(mine('tcp_tunnels')),
    failures: total(mine('tcp_failures_total')),
    bytesIn: bytes['received'] ?? 0,
    bytesOut: bytes['sent'] ?? 0,
    ended: byLabel(mine('tcp_tunnels_ended_total'), 'reason'),
  };
}

type Labels = Readonly<Record<string, unknown>>;

function withLabel(series: readonly Series[], label: string, value: string): readonly Series[] {
  return series.filter(({ labels }) => (labels as Labels)[label] === value);
}

function total(series: readonly Series[]): number {
  return series.reduce((sum, { value }) => sum + value, 0);
}

/** Those that are not zero, and the expected ones. */
function byLabel(
  series: readonly Series[],
  label: string,
  expected: readonly string[] = [],
): Readonly<Record<string, number>> {
  const sums: Record<string, number> = Object.fromEntries(expected.map((key) => [key, 0]));
  for (const { labels, value } of series) {
    const key = String((labels as Labels)[label]);
    if (value > 0) sums[key] = (sums[key] ?? 0) + value;
  }
  return sums;
}
