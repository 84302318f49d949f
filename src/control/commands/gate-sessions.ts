// `turnpike gate sessions list|revoke`.
// Invariant: a session is named by an id that opens nothing.
import type { Command } from 'commander';
import type { SessionStatus } from '../../process/gate-operations.ts';
import { CommandError } from '../client.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { formatAge, plural } from '../terminal.ts';
import { addList } from './gate-list.ts';

export function addGateSessions(gate: Command, context: CommandContext): void {
  const sessions = gate.command('sessions').description('Who is logged in.');
  const { terminal } = context;

  addList<SessionStatus>(sessions, context, {
    call: 'gate.sessions.list',
    description: 'Lists sessions.',
    heading: ['ID', 'USER', 'HOST', 'BY', 'FROM', 'BEGAN', 'USED'],
    cells: (each, now) => [
      each.id,
      each.user,
      each.host,
      each.secure ? 'https' : 'http',
      each.address,
      formatAge(now - each.createdAt),
      formatAge(now - each.lastUsedAt),
    ],
  });

  const revoke = sessions
    .command('revoke')
    .description('Ends a session, or every one of a user, open streams included.')
    .argument('[id]', 'as in `turnpike gate sessions list`')
    .option('--user <name>', 'every session of this user')
    .action(async (id: string | undefined, options: ClientOptions & { readonly user?: string }) => {
      const { user } = options;
      if ((id === undefined) === (user === undefined))
        throw new CommandError('Name a session, or a user by --user.', 2);
      const which = user === undefined ? { id } : { user };
      const { ended } = await connect(options, context).call<{ ended: number }>('gate.sessions.revoke', which);
      if (options.json === true) terminal.json({ ended });
      else terminal.line(`${plural(ended, 'session')} ended.`);
    });
  withExamples(
    withJson(withSocketOptions(revoke)),
    'gate sessions revoke 3kq9xw2m81ab',
    'gate sessions revoke --user ben',
  );
}
