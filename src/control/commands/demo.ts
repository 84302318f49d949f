// `turnpike demo`: what `npm start` runs.
// Invariant: everything it starts ends with it.
import type { Command } from 'commander';
import { type CommandContext, withExamples } from '../command.ts';

export function addDemo(program: Command, context: CommandContext): void {
  const command = program
    .command('demo')
    .summary('try it: two small backends and a switch')
    .description(
      'Runs Turnpike on config.example.toml in front of two small bundled backends, on unprivileged ports of 127.0.0.1,\n' +
        'and shows what to open and how to switch. Ctrl-C ends everything.',
    )
    .action(async () => {
      const { runDemo } = await import('../demo/demo.ts');
      context.exit(await runDemo(context.terminal));
    });
  withExamples(command, 'demo');
}
