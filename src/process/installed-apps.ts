// The apps of the running process: what the control socket's handlers call, on top of src/apps.
// Invariant: what cannot be done is a Fault of side `operator`; a manifest with a problem changes nothing.
import { randomUUID } from 'node:crypto';
import { dirname } from 'node:path';
import { type ActiveApp, Apps, type Manifest } from '../apps/apps.ts';
import type { AppsBook } from '../apps/book.ts';
import type { AppsObserver } from '../apps/ports.ts';
import type { DeployReport } from '../apps/reports.ts';
import { appOf } from '../apps/routing.ts';
import type { Incarnation } from '../apps/state.ts';
import type { Clock } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import type { Declaration } from '../config/declaration.ts';
import { diffApps } from '../manifest/diff.ts';
import { loadManifest } from '../manifest/load.ts';
import { factsOf } from '../manifest/operator-facts.ts';
import { parseBackend } from '../model/backend.ts';
import { backedPorts, type PortBackend, type Runtime } from '../runtime/runtime.ts';
import { readLogs } from './app-logs.ts';
import { AppSecrets } from './app-secrets.ts';
import { ManifestDirectory } from './apps-directory.ts';
import { appGroundOf } from './apps-ground.ts';
import { appRow, appShown, appStatus, leftoverRow, upstreamRow } from './apps-inspection.ts';
import type {
  AppDiff,
  ApplyRequest,
  ApplyResult,
  AppOperations,
  AppRow,
  AppShown,
  AppStatus,
  DeployOrder,
  LeftoverRow,
  LogOrder,
  OnDeployProgress,
  RestartOrder,
  RollbackOrder,
  UpstreamRow,
} from './apps-operations.ts';
import { runtimeFor } from './apps-runtime.ts';
import { appsStoreOf, ServingTraffic } from './apps-traffic.ts';
import { ChosenSecretStore } from './chosen-secret-store.ts';
import { Installation } from './installation.ts';
import type { Serving } from './serving.ts';
import type { StateStore } from './state-store.ts';

export interface InstalledAppsOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly book: AppsBook;
  readonly store: StateStore;
  readonly serving: Serving;
  readonly observer: AppsObserver;
  readonly declaration: Declaration;
}

export class InstalledApps implements AppOperations {
  readonly #apps: Apps;
  readonly #options: InstalledAppsOptions;
  readonly #directory: ManifestDirectory;
  readonly secrets: AppSecrets;
  readonly #runtime: Runtime;
  readonly #chosen: Declaration['runtime'];
  #declaration: Declaration;

  constructor(options: InstalledAppsOptions) {
    const { clock, log, book, store, serving, observer, declaration } = options;
    this.#options = options;
    this.#declaration = declaration;
    this.#chosen = declaration.runtime;
    const secrets = new ChosenSecretStore(() => this.#declaration);
    this.secrets = new AppSecrets(book, secrets);
    this.#runtime = runtimeFor({
      clock,
      log,
      stateDir: declaration.stateDir,
      directory: dirname(declaration.file),
      installation: new Installation(store),
      secrets,
      declaration: () => this.#declaration,
      running: () => book.apps().flatMap(({ name, active }) => (active === null ? [] : [name])),
    });
    this.#apps = new Apps({
      clock,
      log,
      book,
      store: appsStoreOf(store),
      traffic: new ServingTraffic(serving),
      runtime: this.#runtime,
      observer,
      newId: randomUUID,
      file: () => serving.declared,
      ground: () => appGroundOf(this.#declaration),
      settings: () => this.#declaration.apps,
    });
    this.#directory = new ManifestDirectory(clock, log, {
      apply: (path) => this.#applyFile({ path, shown: path, dryRun: false }, true),
      deploy: async (app) => {
        await this.deploy({ app, revision: null, service: null, backends: [], wait: false }, () => {});
      },
    });
  }

  get engine(): Runtime {
    return this.#runtime;
  }

  /** What was chosen when the process started. */
  get runtime(): Declaration['runtime'] {
    return this.#chosen;
  }

  /** Deploys that were interrupted are settled and watched manifests applied, while traffic is served. */
  begin(): void {
    const begun = this.#apps.resume().then(() => {
      this.#apps.keepAlive();
      return this.#directory.follow(this.#declaration.apps);
    });
    begun.catch((error: unknown) => this.#options.log.error('apps-not-resumed', { err: error }));
  }

  /** The configuration was reloaded. */
  async reconfigured(declaration: Declaration): Promise<void> {
    this.#declaration = declaration;
    await this.#directory.follow(declaration.apps);
  }

  close(): void {
    this.#directory.close();
    this.#apps.close();
    this.#runtime.close?.();
  }

  activeApps(): readonly ActiveApp[] {
    return this.#apps.activeApps();
  }

  onChange(listener: () => void): () => void {
    return this.#apps.onChange(listener);
  }

  /** Throws when the service is an app's, which is switched by its deploys only. */
  refuseSwitch(service: string): void {
    const owner = appOf(service, this.#options.book.active());
    const [, ported] = /^([^/]+)\/\d+$/.exec(service) ?? [];
    if (owner === null && ported !== undefined && this.#options.book.app(ported) !== null) {
      throw new Fault('app-service', `${service} is a port of the app ${ported}: its manifest says where that is`);
    }
    if (owner === null) return;
    const { app, name } = owner;
    const how = `use  turnpike apps deploy ${app} --backend ${name}=HOST:PORT`;
    throw new Fault('app-service', `${service} belongs to the app ${app}: ${how}`);
  }

  async apply(request: ApplyRequest): Promise<ApplyResult> {
    return this.#applyFile(request, false);
  }

  deploy(order: DeployOrder, progress: OnDeployProgress): Promise<DeployReport> {
    const { app, revision, service: only, backends, wait } = order;
    const given = this.#given(app, revision, backends);
    return this.#apps.deploy({ app, kind: 'deploy', revision, only, given, wait }, progress);
  }

  rollback({ app, revision, wait }: RollbackOrder, progress: OnDeployProgress): Promise<DeployReport> {
    return this.#apps.rollback(app, revision, wait, progress);
  }

  async restart({ app, service: only, wait }: RestartOrder, progress: OnDeployProgress): Promise<DeployReport> {
    const { active } = this.#find(app);
    if (active === null) throw new Fault('deploy-refused', `${app} was never deployed: turnpike apps deploy ${app}`);
    const given = new Map<string, readonly PortBackend[]>();
    return this.#apps.deploy({ app, kind: 'restart', revision: active, only, given, wait }, progress);
  }

  remove(app: string, progress: OnDeployProgress): Promise<DeployReport> {
    return this.#apps.remove(app, progress);
  }

  async list(): Promise<readonly AppRow[]> {
    const { book } = this.#options;
    return book.apps().map((each) => appRow(each, book, this.#apps.underWay(each.name)));
  }

  async show(app: string, number: number | null): Promise<AppShown> {
    const incarnation = this.#find(app);
    return appShown(incarnation, this.#revision(incarnation, number ?? incarnation.desired), this.#options.book);
  }

  async diff(app: string, from: number | null, to: number | null): Promise<AppDiff> {
    const incarnation = this.#find(app);
    const before = from ?? incarnation.active;
    const after = to ?? incarnation.desired;
    const old = before === null ? null : this.#revision(incarnation, before).app;
    return { app, from: before, to: after, entries: diffApps(old, this.#revision(incarnation, after).app) };
  }

  async status(app: string): Promise<AppStatus> {
    const incarnation = this.#find(app);
    const trouble = this.#directory.troubleOf(app);
    return appStatus(incarnation, this.#options.book, this.#apps.underWay(app), trouble, (each) =>
      this.#apps.troubleOf(each),
    );
  }

  async upstream(): Promise<readonly UpstreamRow[]> {
    const { book } = this.#options;
    return book.apps().map((each) => upstreamRow(each, book));
  }

  async leftovers(): Promise<readonly LeftoverRow[]> {
    return this.#options.book
      .removed()
      .filter(({ leftovers }) => leftovers.length > 0)
      .map(leftoverRow);
  }

  async prune(app: string): Promise<readonly LeftoverRow[]> {
    return (await this.#apps.prune(app)).map(leftoverRow);
  }

  async #applyFile({ path, shown, dryRun }: ApplyRequest, watched: boolean): Promise<ApplyResult> {
    const loaded = await loadManifest(path, factsOf(this.#declaration));
    const { warnings } = loaded;
    if (!loaded.ok) return { applied: null, problems: loaded.problems, warnings };
    const { app, origins } = loaded;
    if (!watched && !dryRun) this.#directory.refuse(app.name, path);
    const manifest: Manifest = { app, file: shown, origins, watched };
    return { applied: this.#apps.apply(manifest, dryRun), problems: [], warnings };
  }

  async *logs({ app, service, follow }: LogOrder, signal: AbortSignal): AsyncIterable<Buffer> {
    yield* readLogs(this.#find(app), service, follow, this.#options.book, this.#runtime, signal);
  }

  #given(app: string, revision: number | null, texts: readonly string[]): ReadonlyMap<string, readonly PortBackend[]> {
    const incarnation = this.#find(app);
    const { services } = this.#revision(incarnation, revision ?? incarnation.desired).app;
    const given = new Map<string, PortBackend[]>();
    for (const text of texts) {
      const match = /^([^=:]+)(?::(\d+))?=(.+)$/.exec(text);
      const backend = match === null ? null : parseBackend(match[3]!);
      if (match === null || backend === null) {
        throw new Fault('deploy-refused', `"${text}" names no backend: SERVICE=HOST:PORT, or SERVICE:PORT=HOST:PORT`);
      }
      const name = match[1]!;
      const service = services.find((each) => each.name === name);
      const ports = service === undefined ? [] : backedPorts(service);
      if (match[2] === undefined && ports.length > 1) {
        const how = ports.map((port) => `--backend ${name}:${port}=HOST:PORT`).join(' ');
        throw new Fault('deploy-refused', `${name} has ${ports.length} ports: name each of them, ${how}`);
      }
      const port = match[2] === undefined ? (ports[0] ?? backend.port) : Number(match[2]);
      given.set(name, [...(given.get(name) ?? []), { port, address: backend.address }]);
    }
    return given;
  }

  #find(name: string): Incarnation {
    const found = this.#options.book.app(name);
    if (found === null) throw new Fault('unknown-app', `no app is named ${name}`);
    return found;
  }

  #revision({ id, name }: Incarnation, number: number) {
    const found = this.#options.book.revision(id, number);
    if (found === null) throw new Fault('unknown-app', `${name} has no revision ${number}`);
    return found;
  }
}
