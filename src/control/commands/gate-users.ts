// `turnpike gate users add|list|remove|passwd|rights|totp`.
// Invariant: a password is typed or piped in, never an argument.
import type { Command } from 'commander';
import type { TotpSecret, UserRowStatus } from '../../process/gate-operations.ts';
import { CommandError } from '../client.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { readNewPassword } from '../secret-input.ts';
import { formatAge } from '../terminal.ts';
import { addList } from './gate-list.ts';

interface RightsOptions extends ClientOptions {
  readonly role: string;
  readonly apps?: string;
}

export function addGateUsers(gate: Command, context: CommandContext): void {
  const users = gate.command('users').description('Who may log in.');
  const { terminal } = context;

  const add = users
    .command('add')
    .description('Makes a user. The password is typed, or the first line of standard input.')
    .argument('<name>')
    .option('--role <role>', 'owner: every app and the dashboard; user: the apps of --apps', 'user')
    .option('--apps <apps>', 'names of apps, separated by commas')
    .action(async (name: string, options: RightsOptions) => {
      const rights = rightsOf(options);
      const password = await readNewPassword(terminal);
      const user = await connect(options, context).call<UserRowStatus>('gate.users.add', { name, password, ...rights });
      if (options.json === true) terminal.json(user);
      else terminal.line(`${user.name} may log in${user.role === 'owner' ? ' and owns every app' : ''}.`);
    });
  withExamples(
    withJson(withSocketOptions(add)),
    'gate users add anna --role owner',
    'gate users add ben --apps git.example.com',
  );

  addList<UserRowStatus>(users, context, {
    call: 'gate.users.list',
    description: 'Lists users.',
    heading: ['NAME', 'ROLE', 'APPS', 'CODE', 'SESSIONS', 'MADE'],
    cells: (user, now) => [
      user.name,
      user.role,
      user.role === 'owner' ? 'all' : user.apps.join(' ') || 'none',
      user.totp ? 'yes' : 'no',
      String(user.sessions),
      formatAge(now - user.createdAt),
    ],
  });

  const remove = users
    .command('remove')
    .description('Removes a user and ends their sessions, open streams included.')
    .argument('<name>')
    .action(async (name: string, options: ClientOptions) => {
      await connect(options, context).call('gate.users.remove', { name });
      if (options.json === true) terminal.json({ removed: name });
      else terminal.line(`${name} is removed.`);
    });
  withExamples(withJson(withSocketOptions(remove)), 'gate users remove ben');

  const passwd = users
    .command('passwd')
    .description('Sets another password and ends every session of the user.')
    .argument('<name>')
    .action(async (name: string, options: ClientOptions) => {
      const password = await readNewPassword(terminal);
      await connect(options, context).call('gate.users.passwd', { name, password });
      if (options.json === true) terminal.json({ changed: name });
      else terminal.line(`${name} has another password, and has to log in again.`);
    });
  withExamples(withJson(withSocketOptions(passwd)), 'gate users passwd anna', 'gate users passwd anna < password.txt');

  const rights = users
    .command('rights')
    .description('Sets the role of a user and the apps that they may use.')
    .argument('<name>')
    .requiredOption('--role <role>', 'owner or user')
    .option('--apps <apps>', 'names of apps, separated by commas')
    .action(async (name: string, options: RightsOptions) => {
      const user = await connect(options, context).call<UserRowStatus>('gate.users.rights', {
        name,
        ...rightsOf(options),
      });
      if (options.json === true) terminal.json(user);
      else
        terminal.line(
          `${user.name}: ${user.role}, ${user.role === 'owner' ? 'every app' : user.apps.join(', ') || 'no app'}.`,
        );
    });
  withExamples(withJson(withSocketOptions(rights)), 'gate users rights ben --role user --apps git.example.com,wiki');

  const totp = users
    .command('totp')
    .description('Asks for a code of an authenticator at the login of a user, or stops asking.')
    .argument('<name>')
    .option('--remove', 'ask for the password alone')
    .action(async (name: string, options: ClientOptions & { readonly remove?: boolean }) => {
      const enabled = options.remove !== true;
      const secret = await connect(options, context).call<TotpSecret>('gate.users.totp', { name, enabled });
      if (options.json === true) terminal.json(enabled ? secret : { removed: name });
      else if (!enabled) terminal.line(`${name} logs in by password alone.`);
      else {
        terminal.line(`Enter this key into the authenticator of ${name}; it is not shown again:`);
        terminal.line(`  ${secret.secret}`);
        terminal.line(`  ${secret.uri}`);
      }
    });
  withExamples(withJson(withSocketOptions(totp)), 'gate users totp anna', 'gate users totp anna --remove');
}

function rightsOf({ role, apps }: RightsOptions): { readonly role: string; readonly apps: readonly string[] } {
  if (role !== 'owner' && role !== 'user') throw new CommandError('--role owner or --role user is accepted.', 2);
  return { role, apps: listOf(apps) };
}

/** "a, b" → a and b. */
export function listOf(text: string | undefined): readonly string[] {
  return (text ?? '')
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');
}
