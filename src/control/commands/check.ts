// `turnpike check`: every problem of a configuration file at once. Needs no running process.
// Invariant: works without a running process; warnings never make it fail.
import type { Command } from 'commander';
import { type CommandContext, requireConfig, withExamples, withJson } from '../command.ts';
import { printProblems } from '../problems.ts';

export function addCheck(program: Command, context: CommandContext): void {
  const command = program
    .command('check')
    .summary('validate a configuration file')
    .description('Checks a configuration file and prints every problem with its line and what is accepted instead.')
    .option('--config <file>', 'configuration file (default: ./config.toml, /etc/turnpike/config.toml)')
    .action(async (options: { config?: string; json?: boolean }) => {
      const { terminal } = context;
      const file = requireConfig(options.config, context);
      const { loadConfig } = await import('../../config/load.ts');
      const loaded = await loadConfig(file);
      const problems = loaded.ok ? [] : loaded.problems;
      if (options.json === true) terminal.json({ file, ok: loaded.ok, problems, warnings: loaded.warnings });
      else {
        await printProblems(file, problems, loaded.warnings, terminal);
        if (loaded.ok) terminal.line(`${file} is valid.`);
      }
      context.exit(loaded.ok ? 0 : 1);
    });
  withExamples(withJson(command), 'check', 'check --config /etc/turnpike/config.toml');
}
