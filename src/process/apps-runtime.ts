// Which runtime runs the apps, by the configuration.
// Invariant: chosen once for the life of the process; what it may start it reads from the configuration that is served.
import { join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Declaration } from '../config/declaration.ts';
import { AutoRuntime } from '../runtime/auto-runtime.ts';
import { CommandRuntime } from '../runtime/command-runtime.ts';
import { ContainerRuntime } from '../runtime/container-runtime.ts';
import { EngineDoor } from '../runtime/engine-door.ts';
import { HostFiles } from '../runtime/host-files.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { SecretDirectory } from '../runtime/secret-directory.ts';
import { SecretFiles, secretFilesRoot } from '../runtime/secret-files.ts';
import type { SecretStore } from '../runtime/secret-store.ts';
import { hostFacts } from './host-facts.ts';
import type { Installation } from './installation.ts';

export interface RuntimeGround {
  readonly clock: Clock;
  readonly log: Log;
  readonly stateDir: string;
  /** Where the operator's commands run. */
  readonly directory: string;
  readonly installation: Installation;
  readonly secrets: SecretStore;
  readonly declaration: () => Declaration;
  /** Names of active apps. */
  readonly running: () => readonly string[];
}

export function runtimeFor(ground: RuntimeGround): Runtime {
  const { clock, stateDir, directory, declaration, installation } = ground;
  const kind = declaration().runtime;
  const processes = () => declaration().apps.processes;
  const commands = new CommandRuntime({ clock, stateDir, directory, processes });
  if (kind === 'none') return commands;
  const options = { kind, env: process.env, uid: process.getuid?.() ?? 0 };
  const door = new EngineDoor(clock, options, { installation: installation.id });
  const containers = containersOf(ground, kind, door);
  if (kind !== 'auto') return containers;
  return new AutoRuntime({
    commands,
    containers,
    processes,
    engine: () => door.open(),
    engineUsed: () => installation.engineUsed,
    useEngine: () => installation.useEngine(),
  });
}

function containersOf(
  { clock, log, stateDir, declaration, installation, secrets, running }: RuntimeGround,
  kind: ContainerRuntime['kind'],
  door: EngineDoor,
): ContainerRuntime {
  return new ContainerRuntime({
    kind,
    clock,
    log,
    owner: { installation: installation.id },
    engine: () => door.open(),
    close: () => door.close(),
    grants: () => {
      const { images, appMounts: mounts, appDevices: devices } = declaration();
      return { images, mounts, devices };
    },
    secrets,
    seal: installation.seal,
    hostFiles: new HostFiles(clock, () => declaration().apps.dataRoot),
    dataOf: (app) => join(declaration().apps.dataRoot, app),
    installed: installation.hooks,
    secretFiles: new SecretFiles(secretFilesRoot(stateDir, installation.id, process.env)),
    secretDirectory: new SecretDirectory(join(stateDir, 'secrets')),
    placeholders: () => hostFacts(declaration().apps.dataRoot, running()),
  });
}
