// `turnpike traffic status`: counters per entrypoint, route and backend.
// Invariant: numbers are sums over all workers, gone ones included.
import type { Command } from 'commander';
import type { DatagramTraffic, RouterTraffic, TrafficStatus, TunnelTraffic } from '../../process/operations.ts';
import { paths } from '../api.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { formatAge, formatTableWithHeading, type Terminal } from '../terminal.ts';

export function addTraffic(program: Command, context: CommandContext): void {
  const traffic = program.command('traffic').description('Counters of what flows.');
  const command = traffic
    .command('status')
    .description('Shows counters per entrypoint, router, route and backend, added up over all workers since the start.')
    .action(async (options: ClientOptions) => {
      const status = await connect(options, context).get<TrafficStatus>(paths.traffic);
      if (options.json === true) context.terminal.json(status);
      else for (const line of formatTraffic(status, context.terminal)) context.terminal.line(line);
    });
  withExamples(withJson(withSocketOptions(command)), 'traffic status', 'traffic status --json');
}

const classNames = ['2xx', '3xx', '4xx', '5xx'];

export function formatTraffic(status: TrafficStatus, terminal: Terminal): string[] {
  return [
    ...formatReload(status, terminal),
    ...formatEntrypoints(status, terminal),
    ...formatRouters(status.routers, terminal),
    ...formatTunnels(status.tunnels, terminal),
    ...formatDatagrams(status.datagrams, terminal),
    '',
    ...formatTableWithHeading(
      terminal,
      ['ROUTE', 'REQUESTS', ...classNames],
      status.routes.map((each) => [
        each.route,
        String(each.requests),
        ...classNames.map((name) => String(each.classes[name] ?? 0)),
      ]),
    ),
    '',
    ...formatTableWithHeading(
      terminal,
      ['SERVICE', 'GENERATION', 'BACKEND', 'STATE', 'ACTIVE', 'REQUESTS', 'FAILURES'],
      status.services.flatMap((service) =>
        service.backends.map((backend) => [
          service.service,
          String(service.generation),
          backend.address,
          backend.state,
          String(backend.active),
          String(backend.requests),
          String(backend.failures),
        ]),
      ),
    ),
  ];
}

function formatReload({ lastReload, at }: TrafficStatus, terminal: Terminal): string[] {
  if (lastReload?.outcome !== 'refused') return [];
  const when = formatAge(at - lastReload.at);
  return [terminal.style('yellow', `! the reload ${when} was refused: the older configuration is served`), ''];
}

function formatEntrypoints({ entrypoints, totals }: TrafficStatus, terminal: Terminal): string[] {
  const { connections, flows, accepted, refused, errors, bytesIn, bytesOut } = totals;
  const sums = [connections + flows, accepted, refused, errors, bytesIn, bytesOut].map(String);
  return formatTableWithHeading(
    terminal,
    ['ENTRYPOINT', 'ADDRESS', 'OPEN', 'ACCEPTED', 'REFUSED', 'ERRORS', 'BYTES IN', 'BYTES OUT', 'CARRYING'],
    [
      ...entrypoints.map((each) => [
        each.name,
        each.address,
        String(each.connections),
        String(each.accepted),
        each.refused === 0 ? '0' : `${each.refused}: ${formatCounts(each.refusals)}`,
        String(each.errors),
        String(each.bytesIn),
        String(each.bytesOut),
        formatCounts(each.protocols),
      ]),
      ...(entrypoints.length > 1 ? [['(all)', '-', ...sums, '-']] : []),
    ],
  );
}

function formatRouters(rows: readonly RouterTraffic[], terminal: Terminal): string[] {
  if (rows.length === 0) return [];
  return [
    '',
    ...formatTableWithHeading(
      terminal,
      ['ROUTER', 'ENTRYPOINT', 'CARRIES', 'TLS', 'SERVICE', 'STATE'],
      rows.map((each) => [each.name, each.entrypoint, each.carries, each.tls, each.service, each.state]),
    ),
  ];
}

/** "3 source, 1 limit". */
function formatCounts(counts: Readonly<Record<string, number>>, none = '-'): string {
  const some = Object.entries(counts).filter(([, count]) => count > 0);
  const parts = some.map(([what, count]) => `${count} ${what}`);
  return parts.length === 0 ? none : parts.join(', ');
}

function formatTunnels(rows: readonly TunnelTraffic[], terminal: Terminal): string[] {
  if (rows.length === 0) return [];
  return [
    '',
    ...formatTableWithHeading(
      terminal,
      ['TCP', 'OPEN', 'FAILURES', 'BYTES IN', 'BYTES OUT', 'ENDED'],
      rows.map((each) => [
        each.service,
        String(each.open),
        String(each.failures),
        String(each.bytesIn),
        String(each.bytesOut),
        formatCounts(each.ended),
      ]),
    ),
  ];
}

/** In: from clients. Out: to them. */
function formatDatagrams(rows: readonly DatagramTraffic[], terminal: Terminal): string[] {
  if (rows.length === 0) return [];
  return [
    '',
    ...formatTableWithHeading(
      terminal,
      ['UDP', 'FLOWS', 'EVICTED', 'IN', 'OUT', 'BYTES IN', 'BYTES OUT', 'ICMP', 'ERRORS', 'DROPPED'],
      rows.map((each) => [
        each.entrypoint,
        String(each.flows),
        String(each.evicted),
        String(each.datagramsIn),
        String(each.datagramsOut),
        String(each.bytesIn),
        String(each.bytesOut),
        String(each.refused),
        String(each.errors),
        formatCounts(each.dropped, '0'),
      ]),
    ),
  ];
}
