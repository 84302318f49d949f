// `runtime = "auto"`: an engine for what is an image, the operator's commands for what he runs himself.
// Invariant: a service with a command or an address of its own never becomes a container; what an instance is was decided
// when it was started, whatever is declared since; once an engine has run something here it is asked about every instance
// that no command began, so that an engine that is away for a moment is not taken for "nothing runs".
import { Fault } from '../base/fault.ts';
import type { ProbeResult } from '../switchover/probe-result.ts';
import type { CommandRuntime, Processes } from './command-runtime.ts';
import type { InstanceRef, Launch, LaunchCheck, PortProbe, Runtime, Started, StopStep, Tail } from './runtime.ts';

export interface AutoRuntimeOptions {
  readonly commands: Runtime & Pick<CommandRuntime, 'began'>;
  readonly containers: Runtime;
  readonly processes: () => Processes;
  /** Rejects while no engine answers. */
  readonly engine: () => Promise<unknown>;
  /** An engine has run something of this installation, ever. */
  readonly engineUsed: () => boolean;
  /** Written down before the first container is made. */
  readonly useEngine: () => void;
}

export class AutoRuntime implements Runtime {
  readonly kind = 'auto';
  readonly #options: AutoRuntimeOptions;

  constructor(options: AutoRuntimeOptions) {
    this.#options = options;
  }

  async check(launch: Launch): Promise<LaunchCheck> {
    const { commands, containers } = this.#options;
    return (await this.#isContainer(launch)) ? containers.check(launch) : commands.check(launch);
  }

  async start(launch: Launch): Promise<Started> {
    const { commands, containers, useEngine } = this.#options;
    if (!(await this.#isContainer(launch))) return commands.start(launch);
    useEngine();
    return containers.start(launch);
  }

  async stop(instance: InstanceRef, graceMs: number, onStep: (step: StopStep) => void): Promise<void> {
    const { commands, containers } = this.#options;
    const container = this.#mayBeContainer(instance);
    // A stop command that was declared since is for another instance.
    if (!container || (await commands.alive(instance))) await commands.stop(instance, graceMs, onStep);
    if (container) await containers.stop(instance, graceMs, onStep);
  }

  async alive(instance: InstanceRef): Promise<boolean | null> {
    const known = await this.#options.commands.alive(instance);
    return known !== true && this.#mayBeContainer(instance) ? this.#options.containers.alive(instance) : known;
  }

  async list(): Promise<readonly string[]> {
    const { commands, containers, engineUsed } = this.#options;
    const ids = await commands.list();
    return engineUsed() ? [...ids, ...(await containers.list())] : ids;
  }

  async output(instance: InstanceRef): Promise<string> {
    const text = await this.#options.commands.output(instance);
    return text === '' && this.#mayBeContainer(instance) ? this.#options.containers.output(instance) : text;
  }

  async forget(id: string): Promise<void> {
    await this.#options.commands.forget(id);
    await this.#options.containers.forget(id);
  }

  async watch(instance: InstanceRef): Promise<string> {
    if (this.#mayBeContainer(instance) && (await this.#options.containers.alive(instance))) {
      return this.#options.containers.watch!(instance);
    }
    return new Promise(() => {});
  }

  async probeInside(instance: InstanceRef, probe: PortProbe, signal: AbortSignal): Promise<ProbeResult> {
    if (!this.#mayBeContainer(instance)) {
      return { ok: false, detail: `nobody knows where port ${probe.port} is reached` };
    }
    return this.#options.containers.probeInside!(instance, probe, signal);
  }

  async install(launch: Launch): Promise<void> {
    if (await this.#isContainer(launch)) await this.#options.containers.install!(launch);
  }

  async isCurrent(launch: Launch, instance: InstanceRef): Promise<boolean> {
    return !this.#mayBeContainer(instance) || this.#options.containers.isCurrent!(launch, instance);
  }

  close(): void {
    this.#options.containers.close?.();
  }

  async leave(incarnation: string): Promise<void> {
    if (this.#options.engineUsed()) await this.#options.containers.leave!(incarnation);
  }

  async prune(incarnation: string): Promise<void> {
    await this.#options.containers.prune!(incarnation);
  }

  async *read(instance: InstanceRef, follow: boolean, signal: AbortSignal): AsyncIterable<Buffer> {
    const text = await this.#options.commands.output(instance);
    if (text !== '') yield Buffer.from(text);
    else if (this.#mayBeContainer(instance)) yield* this.#options.containers.read!(instance, follow, signal);
  }

  async tail(launch: Launch, sinceMs: number, signal: AbortSignal): Promise<Tail | null> {
    const isContainer = this.#options.engineUsed() && !this.#options.commands.began(launch.instance);
    return isContainer ? this.#options.containers.tail!(launch, sinceMs, signal) : null;
  }

  #mayBeContainer({ managed, id }: InstanceRef): boolean {
    return managed && this.#options.engineUsed() && !this.#options.commands.began(id);
  }

  #isCommand(app: string, service: string): boolean {
    return this.#options.processes().get(app)?.has(service) ?? false;
  }

  async #isContainer({ app, service, given }: Launch): Promise<boolean> {
    if (given.length > 0 || this.#isCommand(app.name, service.name)) return false;
    if (this.#options.engineUsed()) return true;
    try {
      await this.#options.engine();
      return true;
    } catch (error) {
      if (error instanceof Fault && error.code === 'runtime-unavailable') return false;
      throw error;
    }
  }
}
