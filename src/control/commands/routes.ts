// `turnpike routes list`: what matches what.
// Invariant: every route is one row, with the line of the configuration that made it.
import type { Command } from 'commander';
import type { RouteRow } from '../../process/operations.ts';
import { paths } from '../api.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { formatOrigin, formatTableWithHeading } from '../terminal.ts';

export function addRoutes(program: Command, context: CommandContext): void {
  const routes = program.command('routes').description('What matches what.');
  const command = routes
    .command('list')
    .description('Lists every route: host and path, TLS policy, entrypoints, where it goes and the line that says so.')
    .action(async (options: ClientOptions) => {
      const { terminal } = context;
      const rows = await connect(options, context).get<readonly RouteRow[]>(paths.routes);
      if (options.json === true) {
        terminal.json(rows);
        return;
      }
      if (rows.length === 0) terminal.error('No routes are configured. Add one under [external_routes] and reload.');
      const table = rows.map((row) => [
        row.host,
        row.path,
        row.tls,
        row.entrypoints.join(', '),
        row.service === null ? row.action : row.backends.join(', '),
        formatOrigin(row.origin),
      ]);
      const heading = ['HOST', 'PATH', 'TLS', 'ENTRYPOINTS', 'GOES TO', 'FROM'];
      for (const line of formatTableWithHeading(terminal, heading, table)) terminal.line(line);
    });
  withExamples(withJson(withSocketOptions(command)), 'routes list', 'routes list --json');
}
