// `turnpike service switch|pause|resume|stop|start`: one service's traffic by hand.
// Invariant: a verb changes one service and nothing else.
import type { Command } from 'commander';
import type { CommandContext } from '../command.ts';
import { addServiceState } from './service-state.ts';
import { addServiceSwitch } from './service-switch.ts';

export function addService(program: Command, context: CommandContext): void {
  const service = program
    .command('service')
    .description(
      'Moves, holds or stops the traffic of one service. An external route is a service named like its host.',
    );
  addServiceSwitch(service, context);
  addServiceState(service, context);
}
