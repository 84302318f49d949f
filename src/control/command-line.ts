// `turnpike <noun> <verb>`: argv in, exit code out.
// Invariant: 0 ok, 1 failed, 2 wrong usage; errors go to stderr and say what to do next.
import { Command, CommanderError } from 'commander';
import { CommandError } from './client.ts';
import type { AddCommand, CommandContext } from './command.ts';
import { addApps } from './commands/apps.ts';
import { addBench } from './commands/bench.ts';
import { addCheck } from './commands/check.ts';
import { addDemo } from './commands/demo.ts';
import { addDiff } from './commands/diff.ts';
import { addExplain } from './commands/explain.ts';
import { addGate } from './commands/gate.ts';
import { addReload } from './commands/reload.ts';
import { addRoutes } from './commands/routes.ts';
import { addServe } from './commands/serve.ts';
import { addService } from './commands/service.ts';
import { addStatus } from './commands/status.ts';
import { addTls } from './commands/tls.ts';
import { addTraffic } from './commands/traffic.ts';
import { addVersion } from './commands/version.ts';
import { addWorkers } from './commands/workers.ts';
import { type Surroundings, systemConfigFile } from './socket-path.ts';
import { createTerminal, type TerminalStreams } from './terminal.ts';

/** In the order of the help text. */
const commands: readonly AddCommand[] = [
  addServe,
  addCheck,
  addReload,
  addDiff,
  addStatus,
  addRoutes,
  addTraffic,
  addExplain,
  addApps,
  addService,
  addTls,
  addGate,
  addWorkers,
  addBench,
  addDemo,
  addVersion,
];

export function createProgram(context: CommandContext, streams: TerminalStreams): Command {
  const program = new Command('turnpike')
    .description('Reverse proxy and traffic manager that replaces a running app version without losing a request.')
    .helpCommand(false)
    .showHelpAfterError('(see --help)')
    .addHelpText(
      'after',
      '\nFirst steps:\n  $ turnpike demo\n  $ turnpike check --config config.toml\n  $ turnpike serve --config config.toml',
    );
  for (const add of commands) add(program, context);
  // Subcommands copy these settings when they are made, so every level is set up once more here.
  for (const command of withSubcommands(program)) {
    command.exitOverride().configureOutput({
      writeOut: (text) => streams.out.write(text),
      writeErr: (text) => streams.err.write(text),
    });
  }
  return program;
}

/** @param argv  what follows the program's name */
export async function runCommandLine(
  argv: readonly string[],
  streams: TerminalStreams = processStreams(),
  surroundings: Surroundings = { cwd: process.cwd(), systemConfigFile },
): Promise<number> {
  let exitCode = 0;
  const terminal = createTerminal(streams);
  const context: CommandContext = {
    terminal,
    ...surroundings,
    exit: (code) => {
      exitCode = code;
    },
  };
  try {
    await createProgram(context, streams).parseAsync(argv, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    terminal.progressDone();
    if (error instanceof CommandError) {
      terminal.error(error.message);
      return error.exitCode;
    }
    terminal.error(`A bug in turnpike: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    return 1;
  }
  return exitCode;
}

function processStreams(): TerminalStreams {
  // `turnpike routes list | head`: who has read enough closes the pipe, which is no failure of ours.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
  return { out: process.stdout, err: process.stderr, env: process.env };
}

function* withSubcommands(command: Command): IterableIterator<Command> {
  yield command;
  for (const each of command.commands) yield* withSubcommands(each);
}
