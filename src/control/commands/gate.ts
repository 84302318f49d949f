// `turnpike gate status`, `gate set`, and the nouns below `gate`.
// Invariant: says for each app whether a login is asked for right now, and why.
import type { Command } from 'commander';
import type { AppGateStatus, GateStatus } from '../../process/gate-operations.ts';
import { CommandError } from '../client.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { formatTableWithHeading, plural, type Terminal } from '../terminal.ts';
import { addGateSessions } from './gate-sessions.ts';
import { addGateTokens } from './gate-tokens.ts';
import { addGateUsers } from './gate-users.ts';

export function addGate(program: Command, context: CommandContext): void {
  const gate = program.command('gate').description('The login in front of apps: access, users, tokens, sessions.');
  addStatus(gate, context);
  addSet(gate, context);
  addGateUsers(gate, context);
  addGateTokens(gate, context);
  addGateSessions(gate, context);
}

function addStatus(gate: Command, context: CommandContext): void {
  const command = gate
    .command('status')
    .description('Lists apps with their policy, what was set at run time, and whether a login is asked for.')
    .action(async (options: ClientOptions) => {
      const { terminal } = context;
      const status = await connect(options, context).call<GateStatus>('gate.status', {});
      if (options.json === true) {
        terminal.json(status);
        return;
      }
      printStatus(status, terminal);
    });
  withExamples(withJson(withSocketOptions(command)), 'gate status');
}

function printStatus({ host, users, sessions, tokens, apps, ports }: GateStatus, terminal: Terminal): void {
  const rows = apps.map((app) => [
    app.app,
    app.policy,
    loginText(app),
    overrideText(app),
    app.routes.join(' ') || '-',
    app.rationale ?? '',
  ]);
  const heading = ['APP', 'POLICY', 'LOGIN', 'SET', 'ROUTES', 'WHY'];
  for (const line of formatTableWithHeading(terminal, heading, rows)) terminal.line(line);
  for (const { app, openPaths, upgradeOpenPaths, problem } of apps) {
    const open = [...openPaths, ...upgradeOpenPaths.map((path) => `${path} (WebSocket)`)];
    if (open.length > 0) terminal.line(`${app}: open without a login: ${open.join(', ')}`);
    if (problem !== null) terminal.line(terminal.style('red', `${app}: a login is asked for, because ${problem}`));
  }
  if (ports.length > 0) printPorts(ports, terminal);
  terminal.line();
  terminal.line(
    `${plural(users, 'user')}, ${plural(sessions, 'session')}, ${plural(tokens, 'token')}; people log in on ${host ?? 'each name by itself'}`,
  );
}

function printPorts(ports: GateStatus['ports'], terminal: Terminal): void {
  const rows = ports.map(({ port, protocol, app, policy, addresses, onion, rationale }) => [
    `${port}/${protocol}`,
    app,
    policy === 'absent' ? 'no instruction' : policy,
    addresses.join(' ') || '-',
    onion ?? '-',
    rationale ?? '',
  ]);
  terminal.line();
  const heading = ['PORT', 'APP', 'POLICY', 'TAKEN AT', 'ONION', 'WHY'];
  for (const line of formatTableWithHeading(terminal, heading, rows)) terminal.line(line);
  for (const { port, faults } of ports) {
    for (const fault of faults) terminal.line(terminal.style('red', `${port}: ${fault}`));
  }
}

function loginText({ login }: AppGateStatus): string {
  return login === null ? '-' : login ? 'asked for' : 'none';
}

function overrideText({ override }: AppGateStatus): string {
  return override === null ? '-' : override ? 'enabled' : 'disabled';
}

interface SetOptions extends ClientOptions {
  readonly enabled?: boolean;
  readonly disabled?: boolean;
  readonly clear?: boolean;
}

function addSet(gate: Command, context: CommandContext): void {
  const command = gate
    .command('set')
    .description(
      'Asks for a login in front of an app, or stops asking, from the next request on, whatever is declared.',
    )
    .argument('<app>', 'as in `turnpike gate status`')
    .option('--enabled', 'ask for a login')
    .option('--disabled', 'ask for none')
    .option('--clear', 'go by what is declared again')
    .action(async (app: string, options: SetOptions) => {
      const chosen = [options.enabled, options.disabled, options.clear].filter((each) => each === true);
      if (chosen.length !== 1) throw new CommandError('Say one of --enabled, --disabled, --clear.', 2);
      const enabled = options.clear === true ? null : options.enabled === true;
      const status = await connect(options, context).call<AppGateStatus>('security.set-app-gate', { id: app, enabled });
      if (options.json === true) context.terminal.json(status);
      else context.terminal.line(`${status.app}: a login is ${status.login === true ? 'asked for' : 'not asked for'}.`);
    });
  withExamples(
    withJson(withSocketOptions(command)),
    'gate set git.example.com --disabled',
    'gate set git.example.com --clear',
  );
}
