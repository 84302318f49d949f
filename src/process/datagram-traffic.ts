// What the UDP entrypoints have counted, as an operator reads it.
// Invariant: pure; sums over every worker that there ever was, except for the flows, which are those that exist.
import type { Entrypoint } from '../model/snapshot.ts';
import { openConnections } from './inspection.ts';
import type { Series } from './metrics.ts';
import type { DatagramTraffic } from './operations.ts';
import type { WorkerStats } from './protocol.ts';

/** @param seriesOf  all series of a family, by its name without the prefix */
export function datagramTraffic(
  entrypoint: Entrypoint,
  stats: readonly WorkerStats[],
  seriesOf: (family: string) => readonly Series[],
): DatagramTraffic {
  const { name } = entrypoint;
  const mine = (family: string): readonly Series[] =>
    seriesOf(family).filter(({ labels }) => (labels as Labels)['entrypoint'] === name);
  const total = (family: string, label = '', wanted = ''): number =>
    mine(family)
      .filter(({ labels }) => label === '' || (labels as Labels)[label] === wanted)
      .reduce((sum, { value }) => sum + value, 0);
  const dropped: Record<string, number> = {};
  for (const { labels, value } of [...mine('entrypoint_refused_total'), ...mine('udp_dropped_total')]) {
    if (value > 0) dropped[String((labels as Labels)['reason'])] = value;
  }
  return {
    entrypoint: name,
    flows: openConnections(entrypoint, stats),
    begun: total('entrypoint_accepted_total'),
    evicted: total('udp_flows_ended_total', 'reason', 'evicted'),
    datagramsIn: total('udp_datagrams_total', 'direction', 'in'),
    datagramsOut: total('udp_datagrams_total', 'direction', 'out'),
    bytesIn: total('entrypoint_bytes_total', 'direction', 'received'),
    bytesOut: total('entrypoint_bytes_total', 'direction', 'sent'),
    dropped,
    refused: total('udp_refused_total'),
    errors: total('udp_errors_total'),
  };
}

type Labels = Readonly<Record<string, unknown>>;
