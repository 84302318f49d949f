// `turnpike serve`: become the supervisor, in the foreground.
// Invariant: resolves when the process has ended in order; the exit code is its own.
import type { Command } from 'commander';
import { type CommandContext, requireConfig, withExamples } from '../command.ts';
import { createControlHandler } from '../server.ts';

export function addServe(program: Command, context: CommandContext): void {
  const command = program
    .command('serve')
    .summary('run in the foreground')
    .description(
      'Runs Turnpike in the foreground. SIGHUP reads the configuration again, SIGTERM drains and ends, a second one ends at once.',
    )
    .option('--config <file>', 'configuration file (default: ./config.toml, /etc/turnpike/config.toml)')
    .action(async (options: { config?: string }) => {
      const configFile = requireConfig(options.config, context);
      // Loaded here only: the other commands start without the whole proxy.
      const { serve } = await import('../../process/serve.ts');
      context.exit((await serve({ configFile, createControlHandler })) === 0 ? 0 : 1);
    });
  withExamples(command, 'serve', 'serve --config /etc/turnpike/config.toml');
}
