// `list`, the verb that users, tokens and sessions of the gate share.
// Invariant: --json gives the rows as they came.
import type { Command } from 'commander';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { formatTableWithHeading } from '../terminal.ts';

export interface Listing<Row> {
  /** What is asked of the running process. */
  readonly call: string;
  readonly description: string;
  readonly heading: readonly string[];
  cells(row: Row, now: number): readonly string[];
}

/** @param group  the command that gets the verb, e.g. `gate users` */
export function addList<Row>(group: Command, context: CommandContext, listing: Listing<Row>): void {
  const list = group
    .command('list')
    .description(listing.description)
    .action(async (options: ClientOptions) => {
      const { terminal } = context;
      const rows = await connect(options, context).call<readonly Row[]>(listing.call, {});
      if (options.json === true) {
        terminal.json(rows);
        return;
      }
      const now = Date.now();
      const cells = rows.map((row) => listing.cells(row, now));
      for (const line of formatTableWithHeading(terminal, listing.heading, cells)) terminal.line(line);
    });
  withExamples(withJson(withSocketOptions(list)), `gate ${group.name()} list`);
}
