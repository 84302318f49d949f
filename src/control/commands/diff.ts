// `turnpike diff`: what a reload would do, before it is done.
// Invariant: changes nothing; exit code 1 means that a reload would be refused.
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { DiffResult } from '../../process/operations.ts';
import { paths } from '../api.ts';
import { formatChanges } from '../changes-screen.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { printProblems } from '../problems.ts';
import { plural } from '../terminal.ts';

export function addDiff(program: Command, context: CommandContext): void {
  const command = program
    .command('diff')
    .summary('what a reload would change')
    .description(
      'Compares the configuration file with what is served: listeners, hosts, services, connections that would close.',
    )
    .option('--with <file>', 'compare with this file instead of the one that Turnpike runs on')
    .action(async (options: ClientOptions & { with?: string }) => {
      const { terminal } = context;
      const query = options.with === undefined ? '' : `?file=${encodeURIComponent(resolve(context.cwd, options.with))}`;
      const result = await connect(options, context).get<DiffResult>(`${paths.diff}${query}`);
      if (options.json === true) terminal.json(result);
      else await printDiff(result, context);
      context.exit(result.changes === null ? 1 : 0);
    });
  withExamples(withJson(withSocketOptions(command)), 'diff', 'diff --with config.new.toml');
}

async function printDiff(result: DiffResult, { terminal }: CommandContext): Promise<void> {
  await printProblems(result.file, result.problems, result.warnings, terminal);
  if (result.changes === null) return;
  const { changes } = result;
  if (changes.empty && result.needsRestart.length === 0) terminal.line('A reload would change nothing.');
  for (const line of formatChanges(changes, terminal)) terminal.line(line);
  if (changes.held.length > 0) {
    terminal.line(`Arrivals wait for the moment of the change (milliseconds): ${changes.held.join(', ')}`);
  }
  for (const close of result.closes) {
    if (close.connections === 0) continue;
    terminal.line(`${plural(close.connections, 'open connection')} of ${close.entrypoint} would close: ${close.why}`);
  }
  for (const each of result.overrides) {
    terminal.line(
      `${each.service} stays on ${each.addresses.join(', ')} (service switch); the file says ${each.declared.join(', ')}.` +
        ` Back to the file: turnpike service switch ${each.service} --to-config`,
    );
  }
  for (const key of result.needsRestart) terminal.line(`${key} would change only with a restart.`);
}
