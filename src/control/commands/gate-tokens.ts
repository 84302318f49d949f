// `turnpike gate tokens create|list|revoke`.
// Invariant: a token is printed once, when it is made, and nowhere else.
import type { Command } from 'commander';
import { parseDuration } from '../../base/units.ts';
import type { CreatedToken, TokenStatus } from '../../process/gate-operations.ts';
import { CommandError } from '../client.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { formatAge } from '../terminal.ts';
import { addList } from './gate-list.ts';
import { listOf } from './gate-users.ts';

interface CreateOptions extends ClientOptions {
  readonly name: string;
  readonly expires?: string;
  readonly paths?: string;
  readonly methods?: string;
  readonly from?: string;
}

export function addGateTokens(gate: Command, context: CommandContext): void {
  const tokens = gate.command('tokens').description('What programmes log in with: each opens one app.');
  const { terminal } = context;

  const create = tokens
    .command('create')
    .description('Makes a token: sent as `Authorization: Bearer tp_…`, or as the password of Basic with any name.')
    .argument('<app>', 'as in `turnpike gate status`')
    .requiredOption('--name <name>', 'what it is for, e.g. ci')
    .option('--expires <duration>', 'e.g. 90d; without it, the token is good until it is revoked')
    .option('--paths <paths>', 'only these, e.g. /api/*,/hook')
    .option('--methods <methods>', 'only these, e.g. GET,HEAD')
    .option('--from <cidrs>', 'only from these addresses, e.g. 192.168.1.0/24')
    .action(async (app: string, options: CreateOptions) => {
      const token = await connect(options, context).call<CreatedToken>('gate.tokens.create', {
        app,
        name: options.name,
        expiresAt: expiryOf(options.expires),
        paths: listOf(options.paths),
        methods: listOf(options.methods),
        cidrs: listOf(options.from),
      });
      if (options.json === true) terminal.json(token);
      else {
        terminal.line(token.token);
        terminal.error(
          `It opens ${token.app} and is not shown again. Take it back with:  turnpike gate tokens revoke ${token.id}`,
        );
      }
    });
  withExamples(
    withJson(withSocketOptions(create)),
    'gate tokens create git.example.com --name ci --expires 90d',
    'gate tokens create git.example.com --name backup --paths "/api/*" --methods GET --from 192.168.1.20',
  );

  addList<TokenStatus>(tokens, context, {
    call: 'gate.tokens.list',
    description: 'Lists tokens, without what opens anything.',
    heading: ['ID', 'NAME', 'APP', 'FOR', 'EXPIRES', 'USED'],
    cells: (token, now) => [
      token.id,
      token.name,
      token.app,
      [...token.methods, ...token.paths, ...token.cidrs].join(' ') || 'everything',
      token.expiresAt === null ? 'never' : new Date(token.expiresAt).toISOString().slice(0, 10),
      token.lastUsedAt === 0 ? 'never' : formatAge(now - token.lastUsedAt),
    ],
  });

  const revoke = tokens
    .command('revoke')
    .description('Takes a token back and ends what it has open.')
    .argument('<token>', 'its id or name')
    .action(async (which: string, options: ClientOptions) => {
      const token = await connect(options, context).call<TokenStatus>('gate.tokens.revoke', { token: which });
      if (options.json === true) terminal.json(token);
      else terminal.line(`${token.name} opens ${token.app} no longer.`);
    });
  withExamples(withJson(withSocketOptions(revoke)), 'gate tokens revoke ci');
}

function expiryOf(text: string | undefined): number | null {
  if (text === undefined) return null;
  const ms = parseDuration(text);
  if (ms === null || ms === 0) throw new CommandError(`--expires ${text}: a duration such as 90d is accepted.`, 2);
  return Date.now() + ms;
}
