// `runtime = "none"`: backends by address, and processes by the operator's own `start` and `stop` commands.
// Invariant: a process that is started carries its instance's id in its environment, so it is found again by a supervisor
// that never saw it; its output goes to a file, so it outlives the supervisor that started it.
import { spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { DeclaredProcess } from '../config/declared-apps.ts';
import { environmentOf } from '../manifest/app.ts';
import { effectiveReadiness } from '../manifest/readiness.ts';
import { FreePorts } from './free-port.ts';
import { isAlive, type LabelledProcess, processesWith, variableOf } from './process-table.ts';
import {
  backedPorts,
  type InstanceRef,
  type Launch,
  type LaunchCheck,
  type PortBackend,
  type Runtime,
  type Started,
  type StopStep,
} from './runtime.ts';

/** App → service → how its process is run. Read anew each time: a reload may have changed it. */
export type Processes = ReadonlyMap<string, ReadonlyMap<string, DeclaredProcess>>;

export interface CommandRuntimeOptions {
  readonly clock: Clock;
  readonly stateDir: string;
  /** Where commands run. */
  readonly directory: string;
  readonly processes: () => Processes;
}

const label = 'TURNPIKE_INSTANCE';
const ownerLabel = 'TURNPIKE_STATE_DIR';
/** Of our own environment; everything else may be meant for us alone (NOTIFY_SOCKET, LISTEN_FDS, credentials). */
const inherited = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'];
/** What `output` reads of a long file. */
const outputTail = 262_144;
/** How long the kernel may take for a SIGKILL. */
const killMs = 5000;
const pollMs = 15;

export class CommandRuntime implements Runtime {
  readonly kind = 'none';
  readonly #clock: Clock;
  readonly #options: CommandRuntimeOptions;
  readonly #ports = new FreePorts('127.0.0.1');

  constructor(options: CommandRuntimeOptions) {
    this.#clock = options.clock;
    this.#options = options;
  }

  async check({ app, service, given }: Launch): Promise<LaunchCheck> {
    const process = this.#process(app.name, service.name);
    const managed = (process?.start.length ?? 0) > 0;
    const ports = backedPorts(service);
    const problems: string[] = [];
    const fixed = fixedAddresses(ports, given, process);
    const missing = ports.filter((port) => !fixed.some((each) => each.port === port));
    const chosen = managed && given.length === 0 && (process?.address === null || process?.address.port === 0);
    if (missing.length > 0 && !chosen) problems.push(noAddress(app.name, service.name, ports, missing));
    const strange = given.filter((each) => !ports.includes(each.port));
    if (strange.length > 0) {
      const has = ports.length === 0 ? 'none' : ports.join(', ');
      problems.push(`${service.name} has no port ${strange[0]!.port} that is reached from outside (it has ${has})`);
    }
    if (service.readiness?.type === 'log' && !managed) {
      problems.push(`${service.name} is ready by a line of its output, and nobody here starts it`);
    }
    const probe = effectiveReadiness(service);
    if (probe !== null && probe.type !== 'log' && !ports.includes(probe.port)) {
      problems.push(`${service.name} is asked for its readiness at port ${probe.port}, which only a container has`);
    }
    if (managed && service.secrets.length > 0) {
      problems.push(`${service.name} needs secrets, which only a container engine is given`);
    }
    return { problems, fixed, managed };
  }

  async start(launch: Launch): Promise<Started> {
    const { app, service, given, instance } = launch;
    const process = this.#process(app.name, service.name);
    const ports = backedPorts(service);
    const fixed = fixedAddresses(ports, given, process);
    if (process === null || process.start.length === 0) return { backends: fixed, managed: false, ended: null };
    const backends = fixed.length === ports.length ? fixed : await this.#choose(ports);
    const { start } = process;
    const [program, ...args] = start.map((each) => filledIn(each, backends[0]?.address ?? ''));
    mkdirSync(this.#outputDirectory, { recursive: true, mode: 0o700 });
    const output = openSync(this.#outputFile(instance), 'a', 0o600);
    try {
      const child = spawn(program!, args, {
        cwd: this.#options.directory,
        env: this.#environment(launch, backends),
        stdio: ['ignore', output, output],
        // A session of its own: it stays when we go, and a Ctrl-C in our terminal is not for it.
        detached: true,
      });
      await new Promise<void>((resolve, reject) => {
        child.once('spawn', resolve);
        child.once('error', (error) => reject(new Error(`${program} could not be started: ${error.message}`)));
      });
      child.unref();
      const ended = new Promise<string>((resolve) => {
        child.once('exit', async (code, signal) => {
          // A launcher has ended well and leaves behind what it launched, or knows how to stop it.
          if (code === 0 && process.stop.length > 0) return;
          if (code === 0 && (await processesWith(label, instance)).length > 0) return;
          resolve(signal === null ? `it ended with exit code ${code}` : `it was ended by ${signal}`);
        });
      });
      return { backends, managed: true, ended };
    } finally {
      closeSync(output);
    }
  }

  async stop(instance: InstanceRef, graceMs: number, onStep: (step: StopStep) => void): Promise<void> {
    if (!instance.managed) return;
    const deadline = this.#clock.monotonic() + graceMs;
    const command = this.#process(instance.app, instance.service)?.stop ?? [];
    const begun = await this.#all(instance.id);
    if (command.length > 0) {
      onStep('term');
      await this.#runStop(command, instance, graceMs);
    } else if (begun.length > 0) {
      onStep('term');
      // What they started is theirs to end.
      for (const each of begun) if (!begun.some(({ pid }) => pid === each.parent)) signal(each, 'SIGTERM');
    }
    if (await this.#gone(instance.id, deadline)) return;
    onStep('kill');
    for (const each of await this.#all(instance.id)) signal(each, 'SIGKILL');
    if (await this.#gone(instance.id, this.#clock.monotonic() + killMs)) return;
    throw new Error(`processes of ${instance.app}/${instance.service} are still there after SIGKILL`);
  }

  async alive(instance: InstanceRef): Promise<boolean | null> {
    if (!instance.managed) return null;
    if ((await this.#all(instance.id)).length > 0) return true;
    // Started through something else (a service manager, say), it does not carry our label.
    return (this.#process(instance.app, instance.service)?.stop.length ?? 0) > 0 ? null : false;
  }

  async list(): Promise<readonly string[]> {
    const ours = await processesWith(ownerLabel, this.#options.stateDir);
    const ids = ours.map(({ environment }) => variableOf(environment, label)).filter((id) => id !== null);
    return [...new Set(ids)];
  }

  async output({ id }: InstanceRef): Promise<string> {
    const file = await open(this.#outputFile(id)).catch(() => null);
    if (file === null) return '';
    try {
      const { size } = await file.stat();
      const length = Math.min(size, outputTail);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
      return buffer.toString('utf8', 0, bytesRead);
    } finally {
      await file.close();
    }
  }

  /** It was started here, whatever is declared today; known until it is forgotten. */
  began(id: string): boolean {
    return existsSync(this.#outputFile(id));
  }

  async forget(id: string): Promise<void> {
    await rm(this.#outputFile(id), { force: true });
  }

  get #outputDirectory(): string {
    return join(this.#options.stateDir, 'output');
  }

  #outputFile(id: string): string {
    return join(this.#outputDirectory, `${id}.log`);
  }

  #process(app: string, service: string): DeclaredProcess | null {
    return this.#options.processes().get(app)?.get(service) ?? null;
  }

  async #choose(ports: readonly number[]): Promise<readonly PortBackend[]> {
    const backends: PortBackend[] = [];
    for (const port of ports) backends.push({ port, address: `127.0.0.1:${await this.#ports.take()}` });
    return backends;
  }

  #environment(launch: Launch, backends: readonly PortBackend[]): Record<string, string> {
    const environment: Record<string, string> = {};
    for (const name of inherited) {
      const value = process.env[name];
      if (value !== undefined) environment[name] = value;
    }
    const [first] = backends;
    if (first !== undefined) Object.assign(environment, { PORT: portOf(first), TURNPIKE_ADDRESS: first.address });
    for (const each of backends) environment[`TURNPIKE_PORT_${each.port}`] = portOf(each);
    for (const { name, value } of environmentOf(launch.app, launch.service)) environment[name] = value;
    return {
      ...environment,
      TURNPIKE_APP: launch.app.name,
      TURNPIKE_SERVICE: launch.service.name,
      TURNPIKE_REVISION: String(launch.revision),
      [ownerLabel]: this.#options.stateDir,
      [label]: launch.instance,
    };
  }

  async #runStop(command: readonly string[], instance: InstanceRef, limitMs: number): Promise<void> {
    const [program, ...args] = command.map((each) => filledIn(each, instance.backends[0]?.address ?? ''));
    const environment: Record<string, string> = {
      PATH: process.env['PATH'] ?? '/usr/bin:/bin',
      TURNPIKE_APP: instance.app,
      TURNPIKE_SERVICE: instance.service,
      TURNPIKE_ADDRESS: instance.backends[0]?.address ?? '',
      // Under another name: the command must not be taken for the instance.
      TURNPIKE_STOPS: instance.id,
    };
    const child = spawn(program!, args, { cwd: this.#options.directory, env: environment, stdio: 'ignore' });
    await new Promise<void>((resolve, reject) => {
      const timer = this.#clock.after(limitMs, () => {
        child.kill('SIGKILL');
        resolve();
      });
      child.once('error', (error) => reject(new Error(`${program} could not be started: ${error.message}`)));
      child.once('exit', (code) => {
        timer.cancel();
        if (code === 0 || code === null) resolve();
        else reject(new Error(`the stop command of ${instance.app}/${instance.service} ended with exit code ${code}`));
      });
    });
  }

  #all(id: string): Promise<readonly LabelledProcess[]> {
    return processesWith(label, id);
  }

  /** Looks at those that are known again and again, and for new ones only when they are gone. */
  async #gone(id: string, deadline: number): Promise<boolean> {
    for (;;) {
      const left = await this.#all(id);
      if (left.length === 0) return true;
      for (const each of left) {
        while (await isAlive(each)) {
          if (this.#clock.monotonic() >= deadline) return false;
          await pause(this.#clock, pollMs);
        }
      }
    }
  }
}

function fixedAddresses(
  ports: readonly number[],
  given: readonly PortBackend[],
  process: DeclaredProcess | null,
): readonly PortBackend[] {
  if (given.length > 0) return given.filter(({ port }) => ports.includes(port));
  const address = process?.address ?? null;
  if (address === null || address.port === 0 || ports.length !== 1) return [];
  return [{ port: ports[0]!, address: address.address }];
}

function noAddress(app: string, service: string, ports: readonly number[], missing: readonly number[]): string {
  const example = ports.length === 1 ? `${service}=HOST:PORT` : `${service}:${missing[0]}=HOST:PORT`;
  return `nobody says where ${service} listens for port ${missing.join(', ')}: turnpike apps deploy ${app} --backend ${example}, or [apps.${app}.${service}] address`;
}

/** `{address}`, `{host}` and `{port}` of the first address. */
function filledIn(text: string, address: string): string {
  const colon = address.lastIndexOf(':');
  const host = address.slice(0, Math.max(colon, 0));
  return text
    .replaceAll('{address}', address)
    .replaceAll('{host}', host)
    .replaceAll('{port}', address.slice(colon + 1));
}

const portOf = ({ address }: PortBackend): string => address.slice(address.lastIndexOf(':') + 1);

function signal({ pid }: LabelledProcess, name: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}
