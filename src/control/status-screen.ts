// The screen of `turnpike status`, from the status as data.
// Invariant: what needs attention (a refused reload, a down backend, a certificate near its end) comes before the tables.
import { formatDuration } from '../base/units.ts';
import type { CertificateStatus, ServiceStatus, Status, SwitchStatus, WorkerStatus } from '../process/operations.ts';
import { formatAge, formatOrigin, formatTableWithHeading, plural, type Terminal } from './terminal.ts';

const dayMs = 86_400_000;

export function formatStatus(status: Status, now: number, terminal: Terminal): string[] {
  const ready = status.workers.filter((worker) => worker.state === 'ready').length;
  const lines = [
    `${terminal.style('bold', `Turnpike ${status.version}`)}  running since ${formatSince(now - status.startedAt)}, pid ${status.pid}, revision ${status.revision}, ${ready} of ${plural(status.workers.length, 'worker')} ready`,
    `configuration ${status.configFile} (${plural(status.hosts, 'host')}, ${plural(status.routes, 'route')}), state ${status.stateDir}`,
  ];
  const attention = attentionLines(status, now);
  if (attention.length > 0) lines.push('', ...attention.map((line) => terminal.style('yellow', `! ${line}`)));
  lines.push('', ...entrypointTable(status, terminal), '', ...serviceTable(status.services, now, terminal));
  if (status.certificates.length > 0) lines.push('', ...certificateTable(status.certificates, now, terminal));
  if (status.switchovers.length > 0) lines.push('', ...switchTable(status.switchovers, now, terminal));
  return lines;
}

function attentionLines(status: Status, now: number): string[] {
  const lines: string[] = [];
  const { lastReload } = status;
  if (lastReload?.outcome === 'refused') {
    const why = lastReload.fault === null ? plural(lastReload.problems.length, 'problem') : lastReload.fault.message;
    lines.push(
      `the reload ${formatAge(now - lastReload.at)} was refused (${why}); the older configuration is served. See: turnpike check`,
    );
  }
  for (const { problem } of status.entrypoints) if (problem !== null) lines.push(`${problem} (tried every second)`);
  for (const worker of status.workers) {
    if (worker.restarts > 0) lines.push(`worker ${worker.id} was restarted ${plural(worker.restarts, 'time')}`);
    const overload = overloadLine(worker);
    if (overload !== null) lines.push(overload);
  }
  for (const service of status.services) {
    const down = service.backends.filter((backend) => backend.state !== 'up');
    if (down.length > 0) {
      const list = down.map((backend) => `${backend.address} ${backend.state}`).join(', ');
      const all = down.length === service.backends.length ? ' (none left: clients get 503)' : '';
      lines.push(`${service.name}: ${list}${all}`);
    }
    if (service.state !== 'run') {
      const next = service.state === 'paused' ? 'resume' : 'start';
      lines.push(`${service.name} is ${service.state}. Undo: turnpike service ${next} ${service.name}`);
    }
  }
  for (const certificate of status.certificates) {
    const left = certificate.notAfter - now;
    if (left < warningMs(certificate)) {
      lines.push(
        `certificate ${certificate.names.join(', ')} ${left < 0 ? 'has expired' : `ends in ${Math.floor(left / dayMs)} days`}`,
      );
    }
  }
  for (const warning of status.warnings)
    lines.push(`${warning.file}:${warning.line} ${warning.key}: ${warning.message}`);
  return lines;
}

/** What a CA renews by itself is worth a word only when that is late. */
function warningMs({ source, notBefore, notAfter }: CertificateStatus): number {
  if (source === 'internal') return Number.NEGATIVE_INFINITY;
  return source === 'acme' ? Math.min(14 * dayMs, (notAfter - notBefore) / 6) : 14 * dayMs;
}

function overloadLine({ id, state, load }: WorkerStatus): string | null {
  if (load === null) return state === 'ready' ? `worker ${id} does not answer` : null;
  const { rung, delayMs, descriptors, descriptorLimit } = load;
  if (rung === 'calm') return null;
  const given = {
    'close-idle': 'closes idle connections',
    shed: 'refuses new work',
    'stop-accepting': 'accepts nothing',
  };
  return `worker ${id} is overloaded and ${given[rung]}: ${Math.round(delayMs)} ms late, ${descriptors} of ${descriptorLimit} descriptors`;
}

function entrypointTable(status: Status, terminal: Terminal): string[] {
  return formatTableWithHeading(
    terminal,
    ['ENTRYPOINT', 'ADDRESS', 'PROTOCOL', 'OPEN', 'ACCEPTED', 'REFUSED'],
    status.entrypoints.map((each) => [
      each.name,
      each.address,
      each.protocol,
      String(each.connections),
      String(each.accepted),
      String(each.refused),
    ]),
  );
}

function serviceTable(services: readonly ServiceStatus[], now: number, terminal: Terminal): string[] {
  return formatTableWithHeading(
    terminal,
    ['SERVICE', 'STATE', 'GENERATION', 'BACKENDS', 'ACTIVE', 'WAITING', 'DRAINING', 'FROM'],
    services.map((each) => [
      each.name,
      each.state,
      String(each.generation),
      each.backends.map((backend) => backendCell(backend, terminal)).join(', '),
      String(each.active),
      String(each.waiting),
      each.draining.map((old) => `${old.active} on ${old.generation}`).join(', ') || '-',
      fromCell(each, now),
    ]),
  );
}

function fromCell({ origin, override }: ServiceStatus, now: number): string {
  if (override === null) return formatOrigin(origin);
  return `service switch ${formatAge(now - override.since)}; the file says ${override.declared.join(', ')}`;
}

function backendCell(backend: { address: string; state: string }, terminal: Terminal): string {
  return backend.state === 'up' ? backend.address : terminal.style('red', `${backend.address} ${backend.state}`);
}

export function certificateTable(
  certificates: readonly CertificateStatus[],
  now: number,
  terminal: Terminal,
): string[] {
  return formatTableWithHeading(
    terminal,
    ['CERTIFICATE', 'SOURCE', 'ENDS', 'DEFAULT', 'FROM'],
    certificates.map((each) => [
      each.names.join(', '),
      each.source,
      `${new Date(each.notAfter).toISOString().slice(0, 10)} (${Math.floor((each.notAfter - now) / dayMs)} days)`,
      each.isDefault ? 'yes' : '-',
      formatOrigin(each.origin),
    ]),
  );
}

function switchTable(switchovers: readonly SwitchStatus[], now: number, terminal: Terminal): string[] {
  return formatTableWithHeading(
    terminal,
    ['SWITCHOVER', 'FROM', 'TO', 'PHASE', 'WHEN'],
    switchovers.map((each) => [
      each.service,
      each.from.join(', '),
      each.to.join(', '),
      each.fault === null ? each.phase : `${each.phase}: ${each.fault.message}`,
      formatAge(now - each.startedAt),
    ]),
  );
}

function formatSince(ms: number): string {
  return formatDuration(Math.max(1000, Math.floor(ms / 1000) * 1000));
}
