// `turnpike apps upstream [--check]`: where apps come from, and which of them have fallen behind.
// Invariant: an app without a source is listed as UNTRACKED; with --check, something behind gives exit code 1.
import type { Command } from 'commander';
import type { UpstreamRow } from '../../process/apps-operations.ts';
import { appPaths } from '../apps-api.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { formatTableWithHeading } from '../terminal.ts';
import { checkUpstream, type UpstreamVerdict } from '../upstream-check.ts';

const answerMs = 10_000;

export function addAppsUpstream(apps: Command, context: CommandContext): void {
  const { terminal } = context;
  const command = apps
    .command('upstream')
    .summary('where apps come from, and which have fallen behind')
    .description(
      'Lists the source of every app. With --check it asks GitHub and Docker Hub for newer versions (set GITHUB_TOKEN for\n' +
        'more than a few), and exits with 1 when something is behind.',
    )
    .option('--check', 'ask for newer versions')
    .action(async (options: ClientOptions & { check?: boolean }) => {
      const rows = await connect(options, context).get<readonly UpstreamRow[]>(appPaths.upstream);
      const verdicts =
        options.check === true ? await Promise.all(rows.map((row) => checkUpstream(row, fetchJson))) : null;
      if (options.json === true) terminal.json(verdicts ?? rows);
      else for (const line of upstreamTable(verdicts ?? rows, context)) terminal.line(line);
      context.exit(verdicts?.some(({ verdict }) => verdict === 'behind') ? 1 : 0);
    });
  withExamples(withJson(withSocketOptions(command)), 'apps upstream', 'apps upstream --check');
}

function upstreamTable(rows: readonly (UpstreamRow | UpstreamVerdict)[], { terminal }: CommandContext): string[] {
  return formatTableWithHeading(
    terminal,
    ['APP', 'VERSION', 'SOURCE', 'NEWEST', ''],
    rows.map((row) => [
      row.app,
      row.version ?? '-',
      row.upstream === null
        ? terminal.style('yellow', 'UNTRACKED')
        : `${row.upstream.kind} ${row.upstream.repo ?? row.upstream.url ?? ''}`.trim(),
      'newest' in row ? (row.newest ?? '-') : '-',
      'verdict' in row ? `${row.verdict}${row.detail === null ? '' : `: ${row.detail}`}` : '',
    ]),
  );
}

async function fetchJson(url: string): Promise<unknown> {
  const { request } = await import('undici');
  const token = process.env['GITHUB_TOKEN'];
  const { statusCode, body } = await request(url, {
    headers: {
      accept: 'application/json',
      'user-agent': 'turnpike',
      ...(token !== undefined && url.startsWith('https://api.github.com/') ? { authorization: `Bearer ${token}` } : {}),
    },
    signal: AbortSignal.timeout(answerMs),
  });
  if (statusCode !== 200) {
    await body.dump();
    throw new Error(`${new URL(url).host} answered ${statusCode}`);
  }
  return body.json();
}
