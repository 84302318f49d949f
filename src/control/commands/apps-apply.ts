// `turnpike apps apply --file F`: checks a manifest against everything, stores it as what is wanted.
// Invariant: with a problem or a conflict nothing is stored; `--dry-run` stores nothing in any case.
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { ApplyResult } from '../../process/apps-operations.ts';
import { appPaths } from '../apps-api.ts';
import { CommandError } from '../client.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { printProblems } from '../problems.ts';
import { followDeploy } from './apps-deploy-lines.ts';

interface ApplyOptions extends ClientOptions {
  readonly file: string;
  readonly dryRun?: boolean;
  readonly deploy?: boolean;
  readonly wait?: boolean;
}

export function addAppsApply(apps: Command, context: CommandContext): void {
  const command = apps
    .command('apply')
    .summary('check a manifest and store it as what is wanted')
    .description(
      'Checks a manifest, its grants and its reservations, and stores it as a new revision. Traffic does not change\n' +
        'before the app is deployed. The same manifest once more changes nothing.',
    )
    .requiredOption('--file <manifest>', 'APP.toml, or APP/manifest.yml')
    .option('--dry-run', 'store nothing, only say what would change')
    .option('--deploy', 'deploy exactly what was stored, right away')
    .option('--wait', 'with --deploy: until the old generations are drained')
    .action(async (options: ApplyOptions) => apply(options, context));
  withExamples(
    withJson(withSocketOptions(command)),
    'apps apply --file apps/blog.toml --dry-run',
    'apps apply --file apps/blog.toml --deploy',
  );
}

async function apply(options: ApplyOptions, context: CommandContext): Promise<void> {
  const { terminal } = context;
  const { file, dryRun = false, deploy = false } = options;
  if (dryRun && deploy) throw new CommandError('--dry-run stores nothing, so there is nothing to --deploy.', 2);
  const client = connect(options, context);
  const path = resolve(context.cwd, file);
  const { applied, problems, warnings } = await client.post<ApplyResult>(appPaths.apply, { path, shown: file, dryRun });
  const json = options.json === true;
  if (applied === null || !deploy) {
    if (json) terminal.json({ applied, problems, warnings });
    else await printProblems(file, problems, warnings, terminal);
  }
  if (applied === null) {
    context.exit(1);
    return;
  }
  const { app, revision, outcome, diff } = applied;
  if (!json) {
    for (const entry of diff) terminal.line(`  ${entry}`);
    if (outcome === 'unchanged') terminal.line(`${app}: nothing to do, revision ${revision} says the same.`);
    else if (outcome === 'dry-run') terminal.line(`${app} would become revision ${revision}; nothing was stored.`);
    else if (!deploy)
      terminal.line(`${app} revision ${revision} is stored. Serve it with:  turnpike apps deploy ${app}`);
  }
  if (!deploy) return;
  const body = { revision, service: null, backends: [], wait: options.wait === true };
  await followDeploy(client, app, 'deploy', body, context, json);
}
