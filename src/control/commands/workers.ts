// `turnpike workers replace`: new worker processes, one by one, on the listeners that stay open.
// Invariant: ends when every new worker serves; the old ones finish what they have.
import type { Command } from 'commander';
import { paths } from '../api.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { plural } from '../terminal.ts';

export function addWorkers(program: Command, context: CommandContext): void {
  const workers = program.command('workers').description('The processes that carry the traffic.');
  const command = workers
    .command('replace')
    .description(
      'Replaces the workers one by one without refusing a connection, for instance after the program was updated.\n' +
        'The old ones finish what they have, within the drain limits.',
    )
    .action(async (options: ClientOptions) => {
      const result = await connect(options, context).post<{ readonly replaced: number }>(paths.replaceWorkers);
      if (options.json === true) context.terminal.json(result);
      else context.terminal.line(`${plural(result.replaced, 'worker')} replaced.`);
    });
  withExamples(withJson(withSocketOptions(command)), 'workers replace');
}
