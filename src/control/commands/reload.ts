// `turnpike reload`: apply the changed configuration, or say why not.
// Invariant: exit code 0 means that the file on disk is what every worker serves.
import type { Command } from 'commander';
import type { ReloadResult } from '../../process/operations.ts';
import { paths } from '../api.ts';
import { formatChanges } from '../changes-screen.ts';
import { commandErrorOf } from '../client.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { printProblems } from '../problems.ts';

export function addReload(program: Command, context: CommandContext): void {
  const command = program
    .command('reload')
    .summary('apply the changed configuration')
    .description('Reads the configuration again and applies it as a whole; when anything is wrong the old one stays.')
    .action(async (options: ClientOptions) => {
      const { terminal } = context;
      const result = await connect(options, context).post<ReloadResult>(paths.reload);
      if (options.json === true) terminal.json(result);
      else await printReload(result, context);
      context.exit(result.outcome === 'refused' ? 1 : 0);
    });
  withExamples(withJson(withSocketOptions(command)), 'reload');
}

async function printReload(result: ReloadResult, { terminal }: CommandContext): Promise<void> {
  await printProblems(result.file, result.problems, result.warnings, terminal);
  if (result.problems.length > 0) terminal.error(`Nothing was changed: revision ${result.revision} is served on.`);
  if (result.fault !== null) terminal.error(commandErrorOf({ error: result.fault }).message);
  if (result.changes !== null && result.outcome === 'applied') {
    for (const line of formatChanges(result.changes, terminal)) terminal.line(line);
  }
  if (result.outcome === 'applied') terminal.line(`Applied: revision ${result.revision} is served by every worker.`);
  if (result.outcome === 'unchanged') terminal.line(`Nothing to apply: revision ${result.revision} is served already.`);
  for (const key of result.needsRestart) terminal.error(`${key} changed; it takes effect after a restart.`);
}
