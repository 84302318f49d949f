// Services as containers of an engine.
// Invariant: everything that a launch needs is proved to be there before anything is made; what is made carries our labels
// from its first moment, so that a crash at any point leaves nothing that cannot be found again.
import { createHmac, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { Clock } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import { formatImage, type ImagePolicy, refuseImage } from '../manifest/image.ts';
import type { ProbeResult } from '../switchover/probe-result.ts';
import type { Container } from './containers.ts';
import { type Engine, requireDevices } from './engine.ts';
import { EngineError } from './engine-client.ts';
import { runHooks } from './hooks.ts';
import type { HostFiles } from './host-files.ts';
import { probeFromInside } from './inside-probe.ts';
import { aliasesOf, containerSpec, hasPrivateNetwork, type LaunchFacts, launchName } from './launch-spec.ts';
import {
  appIdOf,
  appLabels,
  type InstanceMark,
  type Owner,
  ownerLabels,
  privateNetworkName,
  sealLabel,
  sharedNetworkName,
  volumeName,
} from './ownership.ts';
import {
  backedPorts,
  type InstanceRef,
  type Launch,
  type LaunchCheck,
  type PortBackend,
  type PortProbe,
  type Runtime,
  type Started,
  type StopStep,
  type Tail,
} from './runtime.ts';
import type { SecretDirectory } from './secret-directory.ts';
import type { SecretFiles } from './secret-files.ts';
import type { SecretStore } from './secret-store.ts';

/** Who may use what the operator grants by name. */
export interface Granted {
  readonly allowedApps: readonly string[];
  readonly allowedServices: readonly string[];
}

/** What the operator's configuration allows, as of now. */
export interface ContainerGrants {
  readonly images: ImagePolicy;
  readonly mounts: ReadonlyMap<string, Granted & { readonly source: string; readonly readOnly: boolean }>;
  readonly devices: ReadonlyMap<string, Granted & { readonly cdi: readonly string[] }>;
}

export interface ContainerRuntimeOptions {
  readonly kind: 'docker' | 'podman' | 'auto';
  readonly clock: Clock;
  readonly log: Log;
  readonly owner: Owner;
  /** The engine, when it answers. Throws `runtime-unavailable`. */
  readonly engine: () => Promise<Engine>;
  readonly close: () => void;
  readonly grants: () => ContainerGrants;
  readonly secrets: SecretStore;
  readonly secretFiles: SecretFiles;
  /** With which labels tell whether secrets have changed, without telling them. */
  readonly seal: Buffer;
  readonly hostFiles: HostFiles;
  /** Data of one YAML app. */
  readonly dataOf: (app: string) => string;
  /** Incarnations whose hooks have run. */
  readonly installed: { has(incarnation: string): boolean; add(incarnation: string): void };
  /** Of YAML apps. */
  readonly secretDirectory: SecretDirectory;
  /** `{{HOST_IP}}` and the like. */
  readonly placeholders: () => Readonly<Record<string, string>>;
}

/** How often a container that was asked to end is looked at. */
const pollMs = 100;
/** How long the engine may take for a SIGKILL. */
const killMs = 10_000;
const outputTail = 1000;
/** Shorter values stand everywhere by chance. */
const redactedLength = 4;

export class ContainerRuntime implements Runtime {
  readonly kind: 'docker' | 'podman' | 'auto';
  readonly #options: ContainerRuntimeOptions;
  /** Of instances that this process started: programs print what they should not. */
  readonly #secretsOf = new Map<string, readonly string[]>();
  /** Between the making of a network and the first member of it nothing may take it away. */
  #starting = 0;
  #leaving: Promise<void> = Promise.resolve();

  constructor(options: ContainerRuntimeOptions) {
    this.kind = options.kind;
    this.#options = options;
  }

  /** Pulls the image if it is missing: a cache is filled, nothing of the app is changed. */
  async check(launch: Launch): Promise<LaunchCheck> {
    const { app, service } = launch;
    const problems: string[] = [];
    const attempt = async (task: () => Promise<unknown> | unknown): Promise<void> => {
      try {
        await task();
      } catch (error) {
        if (!(error instanceof Fault || error instanceof EngineError)) throw error;
        problems.push(`${app.name}/${service.name}: ${error.message}`);
      }
    };
    if (launch.given.length > 0) problems.push('addresses are given only with runtime = "none"');
    await attempt(() => this.#granted(launch));
    await attempt(() => this.#secrets(launch));
    await attempt(async () => {
      if (service.devices.length > 0) requireDevices((await this.#options.engine()).version);
    });
    await attempt(() => this.#volumesAreOurs(launch));
    if (problems.length === 0) await attempt(() => this.#image(launch));
    return { problems, fixed: this.#fixed(launch), managed: true };
  }

  async start(launch: Launch): Promise<Started> {
    const engine = await this.#options.engine();
    const mark = this.#markOf(launch);
    const facts = await this.#facts(launch, mark);
    await this.#leaving;
    this.#starting++;
    try {
      return await this.#start(engine, launch, mark, facts);
    } finally {
      this.#starting--;
    }
  }

  async #start(engine: Engine, launch: Launch, mark: InstanceMark, facts: LaunchFacts): Promise<Started> {
    await this.#networks(engine, launch, mark);
    for (const volume of launch.service.volumes) {
      await engine.volumes.ensure(volumeName(mark, launch.service.name, volume.name), mark);
    }
    const { shape } = launch.service;
    if (shape !== null) await this.#options.hostFiles.prepare(shape, facts.placeholders);
    const files = launch.service.secrets.filter(({ delivery }) => delivery === 'file');
    await this.#options.secretFiles.write(
      mark.instance,
      new Map(files.map(({ env }) => [env, facts.secrets.get(env)!])),
    );
    const id = await engine.containers.create(launchName(facts), containerSpec(launch, facts, this.#sealed(facts)));
    for (const { network, services } of launch.app.sharedNetworks) {
      if (!services.includes(launch.service.name)) continue;
      await engine.networks.join(sharedNetworkName(network), id, aliasesOf(launch.service.name, null));
    }
    await engine.containers.start(id);
    const container = await engine.containers.inspect(id);
    if (container === null) throw new EngineError(0, `${launchName(facts)} is gone right after its start`);
    const long = [...facts.secrets.values()].filter((value) => value.length >= redactedLength);
    this.#secretsOf.set(mark.instance, long);
    const ended = this.#endOf(engine, id);
    // One that has ended already is published nowhere any more.
    return { backends: container.running ? backendsOf(launch, container) : [], managed: true, ended };
  }

  async stop(instance: InstanceRef, graceMs: number, onStep: (step: StopStep) => void): Promise<void> {
    const engine = await this.#options.engine();
    const found = await this.#find(engine, instance.id);
    for (const { id, running } of found) {
      if (running) {
        onStep('term');
        await engine.containers.kill(id, 'SIGTERM');
        if (!(await this.#endsWithin(engine, id, graceMs))) {
          onStep('kill');
          await engine.containers.kill(id, 'SIGKILL');
          if (!(await this.#endsWithin(engine, id, killMs))) {
            throw new EngineError(0, `container ${id.slice(0, 12)} does not end`);
          }
        }
      }
      await engine.containers.remove(id);
    }
    await this.#options.secretFiles.remove(instance.id);
  }

  async alive(instance: InstanceRef): Promise<boolean> {
    const found = await this.#find(await this.#options.engine(), instance.id);
    return found.some(({ running }) => running);
  }

  async list(): Promise<readonly string[]> {
    const engine = await this.#options.engine();
    return [...new Set((await engine.containers.list()).map(({ mark }) => mark.instance))];
  }

  /** The last lines, without the values of secrets that it was started with. */
  async output(instance: InstanceRef): Promise<string> {
    const engine = await this.#options.engine();
    const [found] = await this.#find(engine, instance.id);
    if (found === undefined) return '';
    let text = '';
    for await (const { data } of engine.containers.output(found.id, { follow: false, tail: outputTail })) {
      text += data.toString('utf8');
    }
    for (const value of this.#secretsOf.get(instance.id) ?? []) text = text.replaceAll(value, '[redacted]');
    return text;
  }

  async forget(id: string): Promise<void> {
    this.#secretsOf.delete(id);
    await this.#options.secretFiles.remove(id);
  }

  async watch(instance: InstanceRef): Promise<string> {
    const engine = await this.#options.engine();
    const running = (await this.#find(engine, instance.id)).find((each) => each.running);
    return running === undefined ? 'it does not run' : this.#endOf(engine, running.id);
  }

  async *read(instance: InstanceRef, follow: boolean, signal: AbortSignal): AsyncIterable<Buffer> {
    const engine = await this.#options.engine();
    for (const { id } of await this.#find(engine, instance.id)) {
      for await (const { data } of engine.containers.output(id, { follow, tail: outputTail, signal })) yield data;
    }
  }

  async tail(launch: Launch, sinceMs: number, signal: AbortSignal): Promise<Tail | null> {
    const engine = await this.#options.engine();
    const [found] = await this.#find(engine, launch.instance);
    const container = found === undefined ? null : await engine.containers.inspect(found.id);
    if (container === null) return null;
    const { id, image } = container;
    const chunks = engine.containers.output(id, { follow: true, sinceMs, timestamps: true, signal });
    return { container: id, image, secrets: await this.#unspoken(launch), chunks };
  }

  /** What a container may hold: what it was started with, what served last, and what is set now. */
  async #unspoken(launch: Launch): Promise<readonly string[]> {
    const values = new Set(this.#secretsOf.get(launch.instance) ?? []);
    for (const again of [true, false]) {
      for (const value of (await this.#secrets({ ...launch, again })).values()) values.add(value);
    }
    // A key of many lines is printed line by line.
    const parts = [...values].flatMap((value) => value.split(/\r?\n/)).filter(({ length }) => length >= redactedLength);
    return [...new Set(parts)].sort((a, b) => b.length - a.length);
  }

  async install(launch: Launch): Promise<void> {
    await this.#hooks(launch);
    await this.#keepSecrets(launch);
  }

  async #hooks({ app, service, incarnation, instance }: Launch): Promise<void> {
    const steps = service.shape?.hooks.postInstall ?? [];
    const { installed, dataOf } = this.#options;
    if (steps.length === 0 || installed.has(incarnation)) return;
    const engine = await this.#options.engine();
    const running = (await this.#find(engine, instance)).find((each) => each.running);
    if (running === undefined) throw new Fault('deploy-failed', 'it ended before its hooks could run');
    await runHooks(steps, running.id, engine.containers, dataOf(app.name));
    installed.add(incarnation);
  }

  async isCurrent(launch: Launch, { id }: InstanceRef): Promise<boolean> {
    const engine = await this.#options.engine();
    const found = (await engine.containers.list()).find(({ mark }) => mark.instance === id);
    const container = found === undefined ? null : await engine.containers.inspect(found.id);
    if (container === null) return true;
    try {
      const made = this.#sealed({ image: await this.#image(launch), secrets: await this.#secrets(launch) });
      return container.labels[sealLabel] === made;
    } catch (error) {
      // What cannot be made now is no reason to replace what runs.
      if (error instanceof Fault || error instanceof EngineError) return true;
      throw error;
    }
  }

  async probeInside(instance: InstanceRef, probe: PortProbe, signal: AbortSignal): Promise<ProbeResult> {
    const engine = await this.#options.engine();
    const found = (await engine.containers.list()).find(({ mark }) => mark.instance === instance.id);
    const container = found === undefined ? null : await engine.containers.inspect(found.id);
    if (found === undefined || container === null) return { ok: false, detail: 'it is gone' };
    const own = privateNetworkName(found.mark);
    const [network, address] = Object.entries(container.addresses).find(([name]) => name === own) ??
      Object.entries(container.addresses).find(([, each]) => each !== '') ?? ['', ''];
    if (address === '') return { ok: false, detail: 'it has no address in a network' };
    const mark = { ...found.mark, instance: randomUUID() };
    return probeFromInside(engine, { mark, image: container.image, network, address }, probe, signal);
  }

  close(): void {
    this.#options.close();
  }

  async leave(incarnation: string): Promise<void> {
    const engine = await this.#options.engine();
    while (this.#starting > 0) await new Promise<void>((resolve) => this.#options.clock.after(pollMs, resolve));
    const leave = async (): Promise<void> => {
      for (const { name, labels } of await engine.networks.list()) {
        const app = appIdOf(labels);
        if (app === incarnation || app === null) await engine.networks.removeUnused(name);
      }
    };
    this.#leaving = leave().catch((error: unknown) => this.#options.log.warn('network-not-removed', { err: error }));
    await this.#leaving;
  }

  async prune(incarnation: string): Promise<void> {
    await this.#options.secrets.forget(incarnation);
    const engine = await this.#options.engine();
    for (const { name, labels } of await engine.volumes.list()) {
      if (appIdOf(labels) === incarnation) await engine.volumes.remove(name);
    }
  }

  // ---- what a launch needs ---------------------------------------------------------------------------------------

  #markOf({ app, service, incarnation, instance }: Launch): InstanceMark {
    return { ...this.#options.owner, app: app.name, appId: incarnation, service: service.name, instance };
  }

  async #facts(launch: Launch, mark: InstanceMark): Promise<LaunchFacts> {
    const { grants, secretFiles, placeholders } = this.#options;
    this.#granted(launch);
    return {
      mark,
      image: await this.#image(launch),
      secrets: await this.#secrets(launch),
      secretFiles: secretFiles.directory(mark.instance),
      mounts: grants().mounts,
      cdiDevices: launch.service.devices.flatMap((name) => grants().devices.get(name)?.cdi ?? []),
      placeholders: placeholders(),
    };
  }

  /** The id of the image on the engine. The operator's policy is asked again right before each pull. */
  async #image({ service }: Launch): Promise<string> {
    const { source } = service;
    if (source.kind === 'build') throw new Fault('runtime-unsupported', 'images are not built here yet; name an image');
    const reference = formatImage(source.image);
    const refused = refuseImage(source.image, this.#options.grants().images);
    if (refused !== null)
      throw new Fault('runtime-refused', `${reference}: ${refused.why}; accepted: ${refused.accepted}`);
    const { images } = await this.#options.engine();
    const known = source.pull === 'always' ? null : await images.find(reference);
    if (known !== null) return known.id;
    if (source.pull === 'never') {
      throw new Fault('runtime-refused', `${reference} is not on the engine, and pull_policy is never`);
    }
    this.#options.log.info('image-pull', { image: reference });
    const { id } = await images.pull(reference, () => {}, AbortSignal.timeout(pullMs));
    return id;
  }

  #sealed({ image, secrets }: Pick<LaunchFacts, 'image' | 'secrets'>): string {
    const content = JSON.stringify([image, [...secrets].sort(([a], [b]) => (a < b ? -1 : 1))]);
    return createHmac('sha256', this.#options.seal).update(content).digest('base64url');
  }

  /** Throws what the operator does not grant. */
  #granted({ app, service }: Launch): void {
    const { mounts, devices } = this.#options.grants();
    const allowed = ({ allowedApps, allowedServices }: Granted): boolean =>
      allowedApps.includes(app.name) && allowedServices.includes(service.name);
    for (const { name } of service.binds) {
      const mount = mounts.get(name);
      if (mount === undefined) throw new Fault('runtime-refused', `no [app_mounts.${name}] is declared`);
      if (!allowed(mount)) throw new Fault('runtime-refused', `[app_mounts.${name}] does not allow this service`);
      if (!existsSync(mount.source)) {
        throw new Fault('runtime-refused', `[app_mounts.${name}]: ${mount.source} does not exist`);
      }
    }
    for (const name of service.devices) {
      const device = devices.get(name);
      if (device === undefined) throw new Fault('runtime-refused', `no [app_devices.${name}] is declared`);
      if (!allowed(device)) throw new Fault('runtime-refused', `[app_devices.${name}] does not allow this service`);
    }
  }

  /** By environment name. Throws `secret-missing` with the names that have no value. */
  async #keepSecrets({ service, incarnation, again = false }: Launch): Promise<void> {
    if (service.shape !== null || again) return;
    const { secrets } = this.#options;
    for (const { secret: name } of service.secrets) {
      const value = await secrets.read({ appId: incarnation, service: service.name, name });
      const kept = { appId: incarnation, service: servedName(service.name), name };
      if (value !== null && (await secrets.read(kept)) !== value) await secrets.write(kept, value);
    }
  }

  async #secrets({ app, service, incarnation, again = false }: Launch): Promise<ReadonlyMap<string, string>> {
    const values = new Map<string, string>();
    const missing: string[] = [];
    const { secrets, secretDirectory } = this.#options;
    for (const each of service.shape?.generatedSecrets ?? []) await secretDirectory.make(each);
    for (const { env, secret } of service.secrets) {
      const at = (name: string) => ({ appId: incarnation, service: name, name: secret });
      const served = again && service.shape === null ? await secrets.read(at(servedName(service.name))) : null;
      const value =
        served ?? (service.shape === null ? await secrets.read(at(service.name)) : await secretDirectory.read(secret));
      if (value === null) missing.push(secret);
      else values.set(env, value);
    }
    if (missing.length === 0) return values;
    if (service.shape !== null) {
      const where = 'put each into a file of that name (mode 600) in the directory secrets of state_dir';
      throw new Fault('secret-missing', `no value for ${missing.join(', ')}; ${where}`);
    }
    const command = `turnpike apps secrets set ${app.name} ${service.name} ${missing[0]}`;
    throw new Fault('secret-missing', `no value for ${missing.join(', ')}; set it with: ${command}`);
  }

  async #volumesAreOurs(launch: Launch): Promise<void> {
    if (launch.service.volumes.length === 0) return;
    const engine = await this.#options.engine();
    const mark = this.#markOf(launch);
    for (const { name } of launch.service.volumes) {
      const found = await engine.volumes.find(volumeName(mark, launch.service.name, name));
      if (found !== null) await engine.volumes.ensure(found.name, mark);
    }
  }

  async #networks(engine: Engine, { app, service }: Launch, mark: InstanceMark): Promise<void> {
    if (hasPrivateNetwork(service.shape)) {
      await engine.networks.ensure(privateNetworkName(mark), appLabels(mark));
    }
    for (const { network, services } of app.sharedNetworks) {
      if (services.includes(service.name)) {
        await engine.networks.ensure(sharedNetworkName(network), ownerLabels(this.#options.owner));
      }
    }
  }

  /** Ports that are the same for every generation. */
  #fixed({ service }: Launch): readonly PortBackend[] {
    return service.publications.flatMap(({ container, address, hostPort }) =>
      hostPort === null ? [] : [{ port: container, address: addressText(address, hostPort) }],
    );
  }

  // ---- running containers ----------------------------------------------------------------------------------------

  async #find(
    engine: Engine,
    instance: string,
  ): Promise<readonly { readonly id: string; readonly running: boolean }[]> {
    return (await engine.containers.list()).filter(({ mark }) => mark.instance === instance);
  }

  async #endsWithin(engine: Engine, id: string, ms: number): Promise<boolean> {
    const { clock } = this.#options;
    const limit = clock.monotonic() + ms;
    for (;;) {
      const container = await engine.containers.inspect(id);
      if (container === null || !container.running) return true;
      if (clock.monotonic() >= limit) return false;
      await new Promise<void>((resolve) => clock.after(Math.min(pollMs, limit - clock.monotonic()), resolve));
    }
  }

  async #endOf(engine: Engine, id: string): Promise<string> {
    try {
      const exitCode = await engine.containers.waitForEnd(id);
      if (exitCode === null) return 'it was removed';
      const container = await engine.containers.inspect(id);
      return container?.outOfMemory ? 'it ran out of memory' : `it exited with ${exitCode}`;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }
}

/** Where the values are kept that serve. No service is named like this: names of services have no capitals. */
const servedName = (service: string): string => `${service}.SERVED`;

/** Large images over slow lines; a pull that says nothing dies much earlier. */
const pullMs = 60 * 60_000;

function backendsOf({ service }: Launch, container: Container): readonly PortBackend[] {
  const ports = new Set([...backedPorts(service), ...service.publications.map((each) => each.container)]);
  return [...ports].map((port) => {
    const published = container.publications.find((each) => each.container === port);
    if (published === undefined) throw new EngineError(0, `port ${port} of ${container.name} was not published`);
    return { port, address: addressText(published.address, published.hostPort) };
  });
}

/** What is published on every address is reached on loopback. */
function addressText(address: string, port: number): string {
  const host = address === '' || address === '::' ? '127.0.0.1' : address;
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
