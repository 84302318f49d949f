// Apps as a command prints them: tables, one app's status, a deploy's progress and report.
// Invariant: nothing here asks anything; what has no terminal gets no colour.
import type {
  AppRow,
  AppServiceStatus,
  AppStatus,
  DeployProgress,
  DeployReport,
  ServiceReport,
} from '../process/apps-operations.ts';
import { formatAge, formatTableWithHeading, plural, type Style, type Terminal } from './terminal.ts';

const stateStyles: Readonly<Record<AppRow['state'], Style>> = {
  new: 'dim',
  active: 'green',
  pending: 'yellow',
  partial: 'red',
  down: 'red',
  deploying: 'cyan',
};

export function appTable(rows: readonly AppRow[], terminal: Terminal): string[] {
  return formatTableWithHeading(
    terminal,
    ['APP', 'STATE', 'ACTIVE', 'WANTED', 'SERVICES', 'HOSTS', 'FROM'],
    rows.map((row) => [
      row.name,
      terminal.style(stateStyles[row.state], row.state),
      row.active === null ? '-' : String(row.active),
      String(row.desired),
      row.external ? 'runs outside' : String(row.services),
      row.hosts.join(', ') || '-',
      row.file,
    ]),
  );
}

export function statusScreen(status: AppStatus, now: number, terminal: Terminal): string[] {
  const { name, state, active, desired } = status;
  const head = `${name}: ${terminal.style(stateStyles[state], state)}, revision ${active ?? '-'} active, ${desired} wanted`;
  const lines = [head];
  if (status.underWay.length > 0) lines.push(`  under way         ${status.underWay.join(', then ')}`);
  if (status.pending.length > 0) lines.push(`  not deployed yet  ${status.pending.join(', ')}`);
  if (status.manifestTrouble !== null)
    lines.push(terminal.style('red', `  manifest          ${status.manifestTrouble}`));
  if (status.serviceStates.length > 0) lines.push('', ...serviceTable(status.serviceStates, now, terminal));
  if (status.retiring.length > 0) {
    const rows = status.retiring.map((each) => [
      each.service,
      String(each.revision),
      each.addresses.join(', ') || '-',
      each.phase,
      formatAge(now - each.since),
    ]);
    lines.push('', ...formatTableWithHeading(terminal, ['OLD', 'REVISION', 'AT', 'DOES', 'SINCE'], rows));
  }
  if (status.deploys.length > 0) {
    const rows = status.deploys
      .slice(0, 5)
      .map((each) => [
        each.kind,
        String(each.revision),
        each.outcome ?? each.step ?? 'begun',
        formatAge(now - each.begunAt),
        each.fault === null ? '' : each.fault.detail.split('\n')[0]!,
      ]);
    lines.push('', ...formatTableWithHeading(terminal, ['LATEST', 'REVISION', 'OUTCOME', 'WHEN', 'WHY'], rows));
  }
  return lines;
}

function serviceTable(services: readonly AppServiceStatus[], now: number, terminal: Terminal): string[] {
  return formatTableWithHeading(
    terminal,
    ['SERVICE', 'STATE', 'REVISION', 'AT', 'SINCE', ''],
    services.map((each) => [
      each.name,
      terminal.style(each.state === 'serving' ? 'green' : 'red', each.state),
      each.revision === null ? '-' : String(each.revision),
      each.addresses.join(', ') || '-',
      each.startedAt === null ? '-' : formatAge(now - each.startedAt),
      [each.restart_unsafe ? 'single-writer' : '', restartWords(each, now)].filter(Boolean).join('; '),
    ]),
  );
}

function restartWords({ restarts: trouble }: AppServiceStatus, now: number): string {
  if (trouble === null) return '';
  const { restarts, reason, nextAt } = trouble;
  const next = nextAt === null ? '' : `, again in ${Math.max(1, Math.ceil((nextAt - now) / 1000))} s`;
  return `started again ${plural(restarts, 'time')}${next}: ${reason}`;
}

const stepWords: Readonly<Record<string, string>> = {
  planned: 'planned',
  kept: 'nothing changed, kept',
  withdrawing: 'its traffic is withdrawn',
  draining: 'withdrawn, waiting for what is in work',
  stopping: 'the old one is stopped',
  starting: 'the new one is started',
  probing: 'is it ready?',
  publishing: 'ready; every worker switches',
  discarding: 'the new one is removed',
  reinstating: 'the old one gets its traffic back',
  done: 'switched: every new request goes to the new one',
  failed: 'failed',
};

export function formatDeployProgress({ app, service, step, detail }: DeployProgress): string {
  const words = stepWords[step] ?? step;
  const what = `${service === '' ? app : service}: ${words}`;
  return detail === null ? what : `${what}: ${detail.split('\n')[0]}`;
}

const outcomeWords: Readonly<Record<DeployReport['outcome'], string>> = {
  done: 'done',
  failed: 'failed',
  superseded: 'superseded, nothing was changed',
  undone: 'interrupted, undone',
};

export function formatDeployReport(report: DeployReport, terminal: Terminal): string[] {
  const { app, kind, revision, outcome, services, tookMs } = report;
  const verdict = terminal.style(report.clean ? 'green' : 'red', outcomeWords[outcome]);
  const what = kind === 'remove' ? `${app}: removed` : `${app} revision ${revision}: ${kind}`;
  return [
    `${what} ${verdict}, took ${formatMs(tookMs)}`,
    ...services.flatMap((each) => formatService(each, terminal)),
    ...(report.fault === null || services.some(({ detail }) => detail !== null) ? [] : [report.fault.detail]),
  ];
}

function formatService(report: ServiceReport, terminal: Terminal): string[] {
  const { service, outcome, from, to, mode, warm } = report;
  switch (outcome) {
    case 'kept':
      return [`  ${service}: nothing changed, kept`];
    case 'withdrawn':
      return [`  ${service}: withdrawn; what was there is stopped when nobody uses it any more`];
    case 'failed':
      return [
        terminal.style('red', `  ${service}: failed`),
        ...(report.detail ?? '').split('\n').map((l) => `    ${l}`),
      ];
    case 'started':
      return [`  ${service}: serves at ${to.join(', ') || 'no address'}, after ${formatMs(report.tookMs)}`];
    case 'replaced': {
      const how = warm ? 'the old one took over again' : mode === 'sequential' ? 'one after the other' : 'overlapping';
      return [
        `  ${service}: ${from.join(', ') || '-'} → ${to.join(', ') || '-'}, ${how}, after ${formatMs(report.tookMs)}`,
        `    at the switch   ${report.inFlight} in flight, ${report.held === 0 ? 'none held' : `${report.held} held for at most ${formatMs(report.holdMs)}`}`,
        `    old generation  ${formatDrain(report)}`,
        `    errors          ${report.errors}`,
      ];
    }
  }
}

function formatDrain({ drained, mode }: ServiceReport): string {
  if (mode === 'sequential') return 'stopped before the new one was started';
  if (drained === null) return 'drains; it is stopped when nobody uses it any more';
  const { requests, forced, tookMs } = drained;
  return `${plural(requests, 'request')}, drained after ${formatMs(tookMs)}, ${plural(forced, 'forced close')}`;
}

function formatMs(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
