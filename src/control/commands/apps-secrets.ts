// `turnpike apps secrets set|list|remove APP [SERVICE] [NAME]`.
// Invariant: a value is read from standard input or typed unseen, never an argument; what is printed are names.
import type { Command } from 'commander';
import type { SecretRow } from '../../process/app-secrets.ts';
import { appPath } from '../apps-api.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { readNewSecret } from '../secret-input.ts';
import { formatTableWithHeading } from '../terminal.ts';

export function addAppsSecrets(apps: Command, context: CommandContext): void {
  const secrets = apps
    .command('secrets')
    .summary('values that manifests only name')
    .description(
      'Manifests name secrets, their values are set here. Containers keep what they were made with: a value that was set\n' +
        'is used from the next `turnpike apps deploy` on.',
    );
  addSet(secrets, context);
  addList(secrets, context);
  addRemove(secrets, context);
}

function addSet(secrets: Command, context: CommandContext): void {
  const { terminal } = context;
  const command = secrets
    .command('set')
    .summary('set the value of one')
    .description('Reads the value from standard input as it is, without a line feed at its end, or asks for it unseen.')
    .argument('<app>', 'its name')
    .argument('<service>', 'the service that uses it')
    .argument('<name>', 'as the manifest names it')
    .action(async (app: string, service: string, name: string, options: ClientOptions) => {
      const value = await readNewSecret(terminal);
      const client = connect(options, context);
      await client.post(appPath(app, 'secret-set'), { service, name, value });
      if (options.json === true) terminal.json({ app, service, name });
      else terminal.line(`${app}/${service}: ${name} is set. It is used from:  turnpike apps deploy ${app}`);
    });
  withExamples(
    withJson(withSocketOptions(command)),
    'apps secrets set blog web api-key',
    'apps secrets set blog web api-key < key.txt',
  );
}

function addList(secrets: Command, context: CommandContext): void {
  const { terminal } = context;
  const command = secrets
    .command('list')
    .summary('names, and which of them have a value')
    .description('Names of the secrets that the services of an app use, and whether they are set. Never a value.')
    .argument('<app>', 'its name')
    .action(async (app: string, options: ClientOptions) => {
      const rows = await connect(options, context).get<readonly SecretRow[]>(appPath(app, 'secrets'));
      if (options.json === true) terminal.json(rows);
      else for (const line of table(rows, context)) terminal.line(line);
    });
  withExamples(withJson(withSocketOptions(command)), 'apps secrets list blog');
}

function table(rows: readonly SecretRow[], { terminal }: CommandContext): string[] {
  return formatTableWithHeading(
    terminal,
    ['SERVICE', 'NAME', 'IN THE CONTAINER', ''],
    rows.map(({ service, name, env, delivery, isSet }) => [
      service,
      name,
      env === null ? '-' : delivery === 'file' ? `/run/secrets/${env}` : env,
      env === null ? 'not used any more' : isSet ? 'set' : terminal.style('red', 'not set'),
    ]),
  );
}

function addRemove(secrets: Command, context: CommandContext): void {
  const { terminal } = context;
  const command = secrets
    .command('remove')
    .summary('forget the value of one')
    .description('Forgets the value. What runs keeps what it was made with; the next deploy is refused without one.')
    .argument('<app>', 'its name')
    .argument('<service>', 'the service that uses it')
    .argument('<name>', 'as in `turnpike apps secrets list`')
    .action(async (app: string, service: string, name: string, options: ClientOptions) => {
      await connect(options, context).post(appPath(app, 'secret-remove'), { service, name });
      if (options.json === true) terminal.json({ app, service, name });
      else terminal.line(`${app}/${service}: ${name} is forgotten.`);
    });
  withExamples(withJson(withSocketOptions(command)), 'apps secrets remove blog web api-key');
}
