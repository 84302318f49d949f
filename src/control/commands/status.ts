// `turnpike status`: one screen about the running process.
// Invariant: asks once and prints once; nothing is computed here that the process does not know.
import type { Command } from 'commander';
import type { Status } from '../../process/operations.ts';
import { paths } from '../api.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { formatStatus } from '../status-screen.ts';

export function addStatus(program: Command, context: CommandContext): void {
  const command = program
    .command('status')
    .summary('one screen: entrypoints, services, certificates, switchovers')
    .description('Shows what the running Turnpike serves: workers, entrypoints, services, certificates, switchovers.')
    .action(async (options: ClientOptions) => {
      const status = await connect(options, context).get<Status>(paths.status);
      if (options.json === true) context.terminal.json(status);
      else for (const line of formatStatus(status, Date.now(), context.terminal)) context.terminal.line(line);
    });
  withExamples(withJson(withSocketOptions(command)), 'status', 'status --json --config /etc/turnpike/config.toml');
}
