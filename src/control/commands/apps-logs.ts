// `turnpike apps logs APP [--service S] [-f]`.
// Invariant: what the service wrote on standard output, unchanged; nothing of ours in between.
import type { Command } from 'commander';
import { appPath } from '../apps-api.ts';
import { type ClientOptions, type CommandContext, connect, withExamples, withSocketOptions } from '../command.ts';

export function addAppsLogs(apps: Command, context: CommandContext): void {
  const command = apps
    .command('logs')
    .summary('what a service writes')
    .description(
      'The last lines that the serving generation of a service wrote, both of its streams. With --follow it goes on, from\n' +
        'one generation to the next, until it is interrupted.',
    )
    .argument('<app>', 'its name')
    .option('--service <service>', 'which one (default: the only one)')
    .option('-f, --follow', 'go on with what comes')
    .option('--json', 'one object a line: {"line": "…"}')
    .action(async (app: string, options: ClientOptions & { service?: string; follow?: boolean }) => {
      const query = new URLSearchParams();
      if (options.service !== undefined) query.set('service', options.service);
      if (options.follow === true) query.set('follow', '');
      const path = `${appPath(app, 'logs')}?${query}`;
      const decoder = new TextDecoder();
      const print = options.json === true ? jsonLines(context) : (text: string) => context.terminal.text(text);
      for await (const chunk of connect(options, context).bytes(path)) print(decoder.decode(chunk, { stream: true }));
    });
  withExamples(withSocketOptions(command), 'apps logs blog', 'apps logs blog --service web -f');
}

function jsonLines({ terminal }: CommandContext): (text: string) => void {
  let rest = '';
  return (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop()!;
    for (const line of lines) terminal.line(JSON.stringify({ line }));
  };
}
