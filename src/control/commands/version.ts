// `turnpike version`.
// Invariant: needs no process and no configuration.
import type { Command } from 'commander';
import { version } from '../../base/version.ts';
import { type CommandContext, withExamples, withJson } from '../command.ts';

export function addVersion(program: Command, context: CommandContext): void {
  const command = program
    .command('version')
    .description('Prints the version of Turnpike and of the Node.js it runs on.')
    .action((options: { json?: boolean }) => {
      if (options.json === true) context.terminal.json({ turnpike: version, node: process.versions.node });
      else context.terminal.line(`turnpike ${version} (Node.js ${process.versions.node})`);
    });
  withExamples(withJson(command), 'version');
}
