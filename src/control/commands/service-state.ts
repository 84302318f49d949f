// `turnpike service pause|resume|stop|start SERVICE`.
// Invariant: saying what is so already is no error, and is said.
import type { Command } from 'commander';
import type { ServiceChange } from '../../process/operations.ts';
import { servicePath } from '../api.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';

const verbs = [
  {
    verb: 'pause',
    summary: 'hold its traffic',
    description: 'New requests wait (at most max_hold, then 503) until `service resume`; running ones go on.',
    done: (name: string) => `${name} is paused: new requests wait. Go on with:  turnpike service resume ${name}`,
  },
  {
    verb: 'resume',
    summary: 'let held traffic go on',
    description: 'Ends `service pause`: what waited goes on to the backends.',
    done: (name: string) => `${name} runs: what waited has gone on.`,
  },
  {
    verb: 'stop',
    summary: 'take it down behind a maintenance page',
    description: 'New requests get 503 and a maintenance page until `service start`; running ones go on.',
    done: (name: string) =>
      `${name} is stopped: clients see the maintenance page. Back with:  turnpike service start ${name}`,
  },
  {
    verb: 'start',
    summary: 'end `service stop`',
    description: 'Ends `service stop`: requests go to the backends again.',
    done: (name: string) => `${name} runs.`,
  },
] as const;

export function addServiceState(service: Command, context: CommandContext): void {
  for (const { verb, summary, description, done } of verbs) {
    const command = service
      .command(verb)
      .summary(summary)
      .description(description)
      .argument('<service>', 'its name, as in `turnpike status`')
      .action(async (name: string, options: ClientOptions) => {
        const change = await connect(options, context).post<ServiceChange>(servicePath(name, verb));
        if (options.json === true) context.terminal.json(change);
        else
          context.terminal.line(
            change.changed ? done(change.service) : `${change.service}: nothing to do, it was so already.`,
          );
      });
    withExamples(withJson(withSocketOptions(command)), `service ${verb} app.example.com`);
  }
}
