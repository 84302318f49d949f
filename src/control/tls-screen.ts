// The screens of `turnpike tls status` and `turnpike tls plan`.
// Invariant: what went wrong is told right below the name that it is about.
import { formatDuration } from '../base/units.ts';
import type { TlsNameStatus, TlsPlan } from '../process/tls-operations.ts';
import { formatAge, formatTableWithHeading, type Terminal } from './terminal.ts';

export function nameTable(names: readonly TlsNameStatus[], now: number, terminal: Terminal): string[] {
  const lines = formatTableWithHeading(
    terminal,
    ['NAME', 'SOURCE', 'ISSUER', 'ENDS', 'NEXT ATTEMPT', 'CHALLENGE'],
    names.map(({ name, source, issuer, notAfter, nextAttempt, challenge }) => [
      name,
      source === 'none' ? terminal.style('red', source) : source,
      issuer ?? '-',
      notAfter === null ? '-' : formatWhen(notAfter, now),
      nextAttempt === null ? '-' : formatWhen(nextAttempt, now),
      challenge?.kind ?? '-',
    ]),
  );
  for (const { name, lastError, challenge } of names) {
    if (lastError === null) continue;
    lines.push(
      terminal.style('yellow', `! ${name}: ${lastError.detail} (${lastError.kind}, ${ago(lastError.at, now)})`),
    );
    if (challenge !== null) lines.push(`  it is proved by ${challenge.kind}: ${challenge.why}`);
  }
  return lines;
}

export function planScreen(plan: TlsPlan, terminal: Terminal): string[] {
  const { now, rows, authorities, storeTrouble } = plan;
  const lines = storeTrouble === null ? [] : [terminal.style('red', `! ${storeTrouble}`), ''];
  lines.push(
    ...formatTableWithHeading(
      terminal,
      ['NAME', 'NEXT ATTEMPT', 'AT', 'FAILURES', 'WHY'],
      rows.map(({ names, at, directory, why, failures }) => [
        names.join(', '),
        at === null ? 'never' : formatWhen(at, now),
        directory === null ? '-' : hostOf(directory),
        String(failures),
        why,
      ]),
    ),
    '',
    ...formatTableWithHeading(
      terminal,
      ['CA', 'ORDERS LEFT', 'STATE'],
      authorities.map(({ directory, ordersLeft, pausedUntil, pausedWhy }) => [
        directory,
        String(ordersLeft),
        pausedUntil === null
          ? 'asked when something is due'
          : `paused until ${formatWhen(pausedUntil, now)}: ${pausedWhy}`,
      ]),
    ),
  );
  return lines;
}

function formatWhen(at: number, now: number): string {
  const ms = at - now;
  if (ms <= 0) return ms > -60_000 ? 'now' : `${date(at)} (${ago(at, now)})`;
  return `${date(at)} (in ${formatDuration(ms < 60_000 ? 60_000 : ms - (ms % 60_000))})`;
}

const date = (at: number): string => new Date(at).toISOString().slice(0, 16).replace('T', ' ');
const ago = (at: number, now: number): string => formatAge(Math.max(0, now - at));
const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : url);
