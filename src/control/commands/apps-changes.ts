// `turnpike apps deploy|rollback|restart|remove APP`, and `leftovers`.
// Invariant: the command ends when the truth is known; a drain is waited for only with --wait.
import type { Command } from 'commander';
import type { LeftoverRow } from '../../process/apps-operations.ts';
import { appPath, appPaths } from '../apps-api.ts';
import { CommandError } from '../client.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { formatAge, formatTableWithHeading } from '../terminal.ts';
import { followDeploy } from './apps-deploy-lines.ts';

interface DeployOptions extends ClientOptions {
  readonly service?: string;
  readonly backend: readonly string[];
  readonly wait?: boolean;
}

const backendForm = /^[^=:]+(?::[1-9]\d{0,4})?=(?:\[[0-9A-Fa-f:.]+\]|[^:[\]\s/]+):[1-9]\d{0,4}$/;

export function addAppsChanges(apps: Command, context: CommandContext): void {
  const collect = (value: string, before: readonly string[]): readonly string[] => {
    if (!backendForm.test(value)) {
      throw new CommandError(`--backend ${value}: SERVICE=HOST:PORT is accepted, such as web=127.0.0.1:3001.`, 2);
    }
    return [...before, value];
  };
  const deploy = apps
    .command('deploy')
    .summary('serve what was applied')
    .description(
      'Replaces, service by service in sorted order, what runs by what was applied last. A service without volume, bind,\n' +
        'device or UDP is replaced while the old generation serves: during the overlap both answer to its name, so\n' +
        'migrations of a database have to suit the previous version too. Others are replaced one after the other, while\n' +
        'their requests wait. Answers as soon as every worker has switched.',
    )
    .argument('<app>', 'its name, as in `turnpike apps list`')
    .option('--service <service>', 'only this one')
    .option('--backend <service=address>', 'where it listens; with several ports SERVICE:PORT=HOST:PORT', collect, [])
    .option('--wait', 'until the old generations are drained')
    .action(async (app: string, { service, backend, wait, json, ...options }: DeployOptions) => {
      const body = { revision: null, service: service ?? null, backends: backend, wait: wait === true };
      await followDeploy(connect(options, context), app, 'deploy', body, context, json === true);
    });
  withExamples(
    withJson(withSocketOptions(deploy)),
    'apps deploy blog',
    'apps deploy blog --service web --backend web=127.0.0.1:3002',
  );
  addRollback(apps, context);
  addRestart(apps, context);
  addRemove(apps, context);
  addLeftovers(apps, context);
}

function addRollback(apps: Command, context: CommandContext): void {
  const command = apps
    .command('rollback')
    .summary('serve an earlier revision again')
    .description(
      'Makes an earlier revision what is wanted, as a new revision, and deploys it. While the old generation has not been\n' +
        'stopped it takes over again in one step.',
    )
    .argument('<app>', 'its name')
    .argument('[revision]', 'as in `turnpike apps show` (default: the one before the active one)')
    .option('--wait', 'until the replaced generations are drained')
    .action(async (app: string, revision: string | undefined, { wait, json, ...options }: DeployOptions) => {
      const body = { revision: revision === undefined ? null : revisionOf(revision), wait: wait === true };
      await followDeploy(connect(options, context), app, 'rollback', body, context, json === true);
    });
  withExamples(withJson(withSocketOptions(command)), 'apps rollback blog', 'apps rollback blog 3');
}

function addRestart(apps: Command, context: CommandContext): void {
  const command = apps
    .command('restart')
    .summary('replace its processes by new ones of the same revision')
    .description('Starts what is active anew, with the same secrets, probed and switched like a deploy.')
    .argument('<app>', 'its name')
    .option('--service <service>', 'only this one')
    .option('--wait', 'until the old generations are drained')
    .action(async (app: string, { service, wait, json, ...options }: DeployOptions) => {
      const body = { service: service ?? null, wait: wait === true };
      await followDeploy(connect(options, context), app, 'restart', body, context, json === true);
    });
  withExamples(withJson(withSocketOptions(command)), 'apps restart blog --service web');
}

function addRemove(apps: Command, context: CommandContext): void {
  const command = apps
    .command('remove')
    .summary('take it down and free its names')
    .description(
      'Withdraws its traffic, stops its processes, and then frees its name and its hosts. Volumes and secrets stay, and no\n' +
        'new app of that name gets them: see `turnpike apps leftovers`.',
    )
    .argument('<app>', 'its name')
    .action(async (app: string, { json, ...options }: ClientOptions) => {
      await followDeploy(connect(options, context), app, 'remove', {}, context, json === true);
    });
  withExamples(withJson(withSocketOptions(command)), 'apps remove blog');
}

function addLeftovers(apps: Command, context: CommandContext): void {
  const leftovers = apps.command('leftovers').description('What removed apps have left behind.');
  const list = leftovers
    .command('list', { isDefault: true })
    .description('Volumes and secrets of removed apps.')
    .action(async (options: ClientOptions) => {
      const { terminal } = context;
      const rows = await connect(options, context).get<readonly LeftoverRow[]>(appPaths.leftovers);
      if (options.json === true) terminal.json(rows);
      else printLeftovers(rows, context);
    });
  withExamples(withJson(withSocketOptions(list)), 'apps leftovers list');
  const prune = leftovers
    .command('prune')
    .description('Gives up for good what removed apps of this name have left behind.')
    .argument('<app>', 'the name it had')
    .option('--yes', 'really')
    .action(async (app: string, options: ClientOptions & { yes?: boolean }) => {
      if (options.yes !== true)
        throw new CommandError(`This cannot be undone. Really:  turnpike apps leftovers prune ${app} --yes`, 2);
      const rows = await connect(options, context).post<readonly LeftoverRow[]>(appPath(app, 'prune'));
      if (options.json === true) context.terminal.json(rows);
      else for (const each of rows) context.terminal.line(`${each.app}: ${each.leftovers.join(', ')} given up`);
    });
  withExamples(withJson(withSocketOptions(prune)), 'apps leftovers prune blog --yes');
}

function printLeftovers(rows: readonly LeftoverRow[], { terminal }: CommandContext): void {
  if (rows.length === 0) terminal.error('No removed app has left anything behind.');
  const table = rows.map((each) => [each.app, formatAge(Date.now() - each.removedAt), each.leftovers.join(', ')]);
  for (const line of formatTableWithHeading(terminal, ['APP', 'REMOVED', 'LEFT'], table)) terminal.line(line);
}

function revisionOf(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new CommandError(`${text}: a revision is a number, such as 3.`, 2);
  return Number(text);
}
