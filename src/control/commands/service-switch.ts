// `turnpike service switch SERVICE --to HOST:PORT`: blocks until the truth is known, then reports it.
// Invariant: exit code 0 means that nothing was lost.
import type { Command } from 'commander';
import { parseDuration } from '../../base/units.ts';
import type { SwitchProgress, SwitchReport } from '../../process/operations.ts';
import { type SwitchBody, servicePath } from '../api.ts';
import { CommandError, type ControlClient, commandErrorOf } from '../client.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { plural, type Terminal } from '../terminal.ts';

interface SwitchOptions extends ClientOptions {
  readonly to?: string;
  readonly toConfig?: boolean;
  readonly drain?: string;
  readonly probe: boolean;
}

export function addServiceSwitch(service: Command, context: CommandContext): void {
  const command = service
    .command('switch')
    .summary('move its traffic to other backends without losing a request')
    .description(
      'Moves the traffic of a service to other backends: probes them, switches every worker at one moment, waits until\n' +
        'the old ones are drained, and reports what happened. It holds over restarts until `to` changes in the file.',
    )
    .argument('<service>', 'its name, as in `turnpike status`')
    .option('--to <addresses>', 'HOST:PORT[,HOST:PORT…] of the new backends')
    .option('--to-config', 'go back to the addresses in the configuration file')
    .option(
      '--drain <duration>',
      'how long requests and streams on the old backends may still take (default: drain and stream_drain of the service)',
    )
    .option('--no-probe', 'switch without asking the new backends first')
    .action(async (name: string, options: SwitchOptions) => {
      const body = bodyOf(options);
      const report = await runSwitch(connect(options, context), name, body, context.terminal);
      if (options.json === true) context.terminal.json(report);
      else for (const line of formatReport(report, context.terminal)) context.terminal.line(line);
      context.exit(report.clean ? 0 : 1);
    });
  withExamples(
    withJson(withSocketOptions(command)),
    'service switch app.example.com --to 127.0.0.1:3002',
    'service switch app.example.com --to 10.0.0.5:80,10.0.0.6:80 --drain 1m',
    'service switch app.example.com --to-config',
  );
}

function bodyOf(options: SwitchOptions): SwitchBody {
  if ((options.to === undefined) === (options.toConfig !== true)) {
    throw new CommandError('Say where to: either --to HOST:PORT[,HOST:PORT] or --to-config.', 2);
  }
  const drainMs = options.drain === undefined ? null : parseDuration(options.drain);
  if (options.drain !== undefined && drainMs === null) {
    throw new CommandError(`--drain ${options.drain}: a duration with a unit is accepted, such as 30s or 5m.`, 2);
  }
  const to = options.to === undefined ? ('config' as const) : addressesOf(options.to);
  return { to, drainMs, probe: options.probe };
}

function addressesOf(text: string): string[] {
  return text.split(',').map((each) => {
    const address = each.trim();
    const match = /^(?:\[[0-9A-Fa-f:.]+\]|[^:[\]\s/]+):([0-9]{1,5})$/.exec(address);
    const port = Number(match?.[1]);
    if (match === null || port < 1 || port > 65_535) {
      throw new CommandError(`--to ${each}: HOST:PORT is accepted, such as 127.0.0.1:3002 or [::1]:3002.`, 2);
    }
    return address;
  });
}

async function runSwitch(
  client: ControlClient,
  name: string,
  body: SwitchBody,
  terminal: Terminal,
): Promise<SwitchReport> {
  const interrupted = (): void => {
    terminal.error('\nThis command ends; the switch goes on in Turnpike. See: turnpike status');
    process.exitCode = 130;
    process.kill(process.pid, 'SIGINT');
  };
  process.once('SIGINT', interrupted);
  try {
    for await (const line of client.lines(servicePath(name, 'switch'), body)) {
      if ('error' in line) throw commandErrorOf(line);
      if ('report' in line) return line.report;
      terminal.progress(formatProgress(line.progress));
    }
  } finally {
    process.removeListener('SIGINT', interrupted);
    terminal.progressDone();
  }
  throw new CommandError('Turnpike ended before it reported; whether the switch happened, say:  turnpike status');
}

const phaseWords: Readonly<Record<SwitchProgress['phase'], string>> = {
  reserved: 'reserved',
  probing: 'probing the new backends',
  preparing: 'probed; every worker prepares',
  holding: 'prepared; arrivals wait',
  committed: 'switched: every new request goes to the new backends',
  draining: 'draining',
  done: 'drained',
  aborted: 'aborted',
};

export function formatProgress(progress: SwitchProgress): string {
  const words =
    progress.phase === 'draining' && progress.left !== null
      ? `draining, ${progress.left} left`
      : phaseWords[progress.phase];
  return progress.detail === null ? words : `${words}: ${progress.detail}`;
}

export function formatReport(report: SwitchReport, terminal: Terminal): string[] {
  if (report.from.generation === report.to.generation) {
    return [`${report.service} is on ${report.to.addresses.join(', ')} already: nothing to switch.`];
  }
  const verdict = report.clean
    ? terminal.style('green', 'nothing was lost')
    : terminal.style('red', `${plural(report.forcedCloses, 'forced close')}, ${plural(report.errors, 'error')}`);
  return [
    `${report.service}: ${report.from.addresses.join(', ')} → ${report.to.addresses.join(', ')}, ${verdict}`,
    `  requests          ${report.requestsOld} on generation ${report.from.generation} (old), ${report.requestsNew} on generation ${report.to.generation} (new)`,
    `  at the switch     ${report.inFlightAtFlip} in flight, ${report.held === 0 ? 'none held' : `${report.held} held for at most ${formatMs(report.holdMs)}`}`,
    `  drained           longest ${formatMs(report.longestDrainedMs)}, ${plural(report.forcedCloses, 'forced close')}`,
    `  retries, errors   ${report.retries}, ${report.errors}`,
    `  took              ${formatMs(report.durationMs)}, revision ${report.revision}`,
  ];
}

function formatMs(ms: number): string {
  if (ms < 1) return ms > 0 ? '<1 ms' : '0 ms';
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
