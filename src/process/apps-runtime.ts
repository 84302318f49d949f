// Which runtime runs the apps, by the configuration.
// Invariant: chosen once for the life of the process; what it may start it reads from the configuration that is served.
import type { Clock } from '../base/clock.ts';
import type { Declaration } from '../config/declaration.ts';
import { CommandRuntime } from '../runtime/command-runtime.ts';
import type { Runtime } from '../runtime/runtime.ts';

export interface RuntimeGround {
  readonly clock: Clock;
  readonly stateDir: string;
  /** Where the operator's commands run. */
  readonly directory: string;
  readonly declaration: () => Declaration;
}

export function runtimeFor({ clock, stateDir, directory, declaration }: RuntimeGround): Runtime {
  return new CommandRuntime({ clock, stateDir, directory, processes: () => declaration().apps.processes });
}
