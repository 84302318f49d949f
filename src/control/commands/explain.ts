// `turnpike explain URL`: what would happen to this request, step by step.
// Invariant: sends no request; prints what the running process decides.
import type { Command } from 'commander';
import { type ExplainBody, paths } from '../api.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import type { Explanation } from '../explain/trace.ts';
import { formatTable, type Terminal } from '../terminal.ts';

interface ExplainOptions extends ClientOptions {
  readonly from?: string;
  readonly sni?: string;
  readonly method: string;
  readonly entrypoint?: string;
}

export function addExplain(program: Command, context: CommandContext): void {
  const command = program
    .command('explain')
    .summary('what would happen to a request or connection, and which line decides')
    .description(
      'Shows step by step what the running Turnpike would do with a request, and which line of the configuration decides\n' +
        'each step. Nothing is sent. The reason at the end is the word that the access log uses. tcp://, tls:// and\n' +
        'udp:// ask about connections and datagrams.',
    )
    .argument('<url>', 'http:// or https:// URL, as a client would ask for it; or tcp://HOST:PORT, tls://, udp://')
    .option('--from <ip>', 'address of the client')
    .option('--sni <name>', 'name in the TLS handshake, when it is not the host of the URL')
    .option('--method <method>', 'request method', 'GET')
    .option('--entrypoint <name>', 'entrypoint, when the port of the URL does not tell')
    .action(async (url: string, options: ExplainOptions) => {
      const question: ExplainBody = {
        url,
        method: options.method,
        from: options.from ?? null,
        sni: options.sni ?? null,
        entrypoint: options.entrypoint ?? null,
      };
      const explanation = await connect(options, context).post<Explanation>(paths.explain, question);
      if (options.json === true) context.terminal.json(explanation);
      else for (const line of formatExplanation(explanation, context.terminal)) context.terminal.line(line);
    });
  withExamples(
    withJson(withSocketOptions(command)),
    'explain https://app.example.com/login',
    'explain http://app.example.com/ --from 203.0.113.7',
    'explain https://app.example.com/ --sni other.example.com --method POST',
    'explain tcp://localhost:5432 --from 203.0.113.7',
  );
}

export function formatExplanation(explanation: Explanation, terminal: Terminal): string[] {
  const rows = explanation.steps.map((step) => [
    `  ${terminal.style(step.stops ? 'red' : 'green', step.stops ? '✗' : '✓')} ${step.name}`,
    step.text,
    step.origin === null ? '' : terminal.style('dim', step.origin),
  ]);
  const { outcome } = explanation;
  const status = outcome.status === null ? '' : `${outcome.status} `;
  return [
    terminal.style('bold', explanation.request),
    ...formatTable(rows),
    '',
    `→ ${terminal.style('bold', `${status}${outcome.text}`)}`,
    ...(outcome.reason === null ? [] : [`  reason: ${outcome.reason}`]),
  ];
}
