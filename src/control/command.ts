// What every command file is given, and the options they share.
// Invariant: a command says in its help how it is used, with an example; it ends by an exit code, never by process.exit.
import type { Command } from 'commander';
import { CommandError, ControlClient } from './client.ts';
import { findConfig, findSocket, type SocketOptions, type Surroundings, systemConfigFile } from './socket-path.ts';
import type { Terminal } from './terminal.ts';

export interface CommandContext extends Surroundings {
  readonly terminal: Terminal;
  /** Called by the action that ran; 0 unless it says otherwise. */
  exit(code: 0 | 1 | 2): void;
}

/** Adds one command (with its verbs) to the program. */
export type AddCommand = (program: Command, context: CommandContext) => void;

export interface ClientOptions extends SocketOptions {
  readonly json?: boolean;
}

/** `--config` and `--socket`, with which a command finds the running process. */
export function withSocketOptions(command: Command): Command {
  return command
    .option(
      '--config <file>',
      `configuration file of the running Turnpike (default: ./config.toml, ${systemConfigFile})`,
    )
    .option('--socket <path>', 'its control socket, instead of looking in the configuration');
}

export function withJson(command: Command): Command {
  return command.option('--json', 'machine-readable output');
}

export function withExamples(command: Command, ...examples: readonly string[]): Command {
  const lines = examples.map((each) => `  $ turnpike ${each}`);
  return command.addHelpText('after', `\nExample${examples.length > 1 ? 's' : ''}:\n${lines.join('\n')}`);
}

export function connect(options: SocketOptions, context: CommandContext): ControlClient {
  const place = findSocket(options, context);
  if (place === null) {
    throw new CommandError(
      `No configuration file: looked for ./config.toml and ${context.systemConfigFile}.\n` +
        'Name the one that Turnpike runs with by --config FILE, or its socket by --socket PATH.',
    );
  }
  return new ControlClient(place);
}

export function requireConfig(named: string | undefined, context: CommandContext): string {
  const file = findConfig(named, context);
  if (file !== null) return file;
  throw new CommandError(
    `No configuration file: looked for ./config.toml and ${context.systemConfigFile}.\n` +
      'Start from the example:  cp config.example.toml config.toml\n' +
      'or name a file with --config FILE.',
  );
}
