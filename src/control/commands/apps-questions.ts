// `turnpike apps list|show|diff|status`.
// Invariant: asks and prints; a diff names things, never values.
import type { Command } from 'commander';
import type { AppDiff, AppRow, AppShown, AppStatus } from '../../process/apps-operations.ts';
import { appPath, appPaths } from '../apps-api.ts';
import { appTable, statusScreen } from '../apps-screen.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { formatAge, formatTableWithHeading } from '../terminal.ts';

export function addAppsQuestions(apps: Command, context: CommandContext): void {
  const { terminal } = context;
  const list = apps
    .command('list')
    .description('Every app: what is active, what is wanted, its hosts.')
    .action(async (options: ClientOptions) => {
      const rows = await connect(options, context).get<readonly AppRow[]>(appPaths.list);
      if (options.json === true) {
        terminal.json(rows);
        return;
      }
      if (rows.length === 0) terminal.error('There are no apps. Add one with:  turnpike apps apply --file APP.toml');
      for (const line of appTable(rows, terminal)) terminal.line(line);
    });
  withExamples(withJson(withSocketOptions(list)), 'apps list', 'apps list --json');

  const show = apps
    .command('show')
    .description('One app as it was applied, and its revisions.')
    .argument('<app>', 'its name')
    .option('--revision <number>', 'another revision than the one that is wanted')
    .action(async (app: string, options: ClientOptions & { revision?: string }) => {
      const query = options.revision === undefined ? '' : `?revision=${encodeURIComponent(options.revision)}`;
      const shown = await connect(options, context).get<AppShown>(appPath(app, 'show') + query);
      if (options.json === true) terminal.json(shown);
      else for (const line of showScreen(shown, context)) terminal.line(line);
    });
  withExamples(withJson(withSocketOptions(show)), 'apps show blog', 'apps show blog --revision 2 --json');

  const diff = apps
    .command('diff')
    .description('What a deploy would change: one name for each thing added, removed or changed.')
    .argument('<app>', 'its name')
    .argument('[from]', 'a revision (default: the active one)')
    .argument('[to]', 'a revision (default: the wanted one)')
    .action(async (app: string, from: string | undefined, to: string | undefined, options: ClientOptions) => {
      const query = new URLSearchParams({
        ...(from === undefined ? {} : { from }),
        ...(to === undefined ? {} : { to }),
      });
      const answer = await connect(options, context).get<AppDiff>(`${appPath(app, 'diff')}?${query}`);
      if (options.json === true) terminal.json(answer);
      else if (answer.entries.length === 0) terminal.line(`${app}: no difference.`);
      else for (const entry of answer.entries) terminal.line(entry);
    });
  withExamples(withJson(withSocketOptions(diff)), 'apps diff blog', 'apps diff blog 2 3');

  const status = apps
    .command('status')
    .description('What serves, what is being stopped, what is under way, and how the latest deploys ended.')
    .argument('<app>', 'its name')
    .action(async (app: string, options: ClientOptions) => {
      const answer = await connect(options, context).get<AppStatus>(appPath(app, 'status'));
      if (options.json === true) terminal.json(answer);
      else for (const line of statusScreen(answer, Date.now(), terminal)) terminal.line(line);
    });
  withExamples(withJson(withSocketOptions(status)), 'apps status blog', 'apps status blog --json');
}

function showScreen(shown: AppShown, { terminal }: CommandContext): string[] {
  const { app } = shown;
  const rows = shown.revisions.map((each) => [
    String(each.number),
    [each.isActive ? 'active' : '', each.isDesired ? 'wanted' : ''].filter((word) => word !== '').join(', ') || '-',
    formatAge(Date.now() - each.at),
    each.why,
    each.file,
  ]);
  const single = new Set(shown.restart_unsafe);
  return [
    `${shown.name} revision ${shown.revision}, from ${shown.file}`,
    ...app.env.map(({ name, value }) => `  env ${name}=${value}`),
    ...app.services.flatMap((service) => [
      `  service ${service.name}${single.has(service.name) ? ' (single-writer)' : ''}`,
      ...service.http.map((each) =>
        each.visibility === 'public'
          ? `    http ${each.host} → ${each.port}, tls ${each.tls}`
          : `    http internal ${each.port}`,
      ),
      ...service.tcp.map((each) => `    tcp ${each.entrypoint} → ${each.port}`),
      ...service.udp.map((each) => `    udp ${each.entrypoint} → ${each.port}`),
      ...service.env.map(({ name, value }) => `    env ${name}=${value}`),
      ...service.secrets.map(({ env, secret }) => `    secret ${env} ← ${secret}`),
      ...service.volumes.map(({ name, path }) => `    volume ${name} at ${path}`),
      ...service.binds.map(({ name, path }) => `    bind ${name} at ${path}`),
    ]),
    ...app.ports.map((each) => `  port ${each.host}/${each.protocol} → ${each.container}, auth ${each.auth ?? '-'}`),
    '',
    ...formatTableWithHeading(terminal, ['REVISION', 'IS', 'FROM', 'BY', 'FILE'], rows),
  ];
}
