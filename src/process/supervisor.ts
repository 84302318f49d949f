// The supervisor: reads the configuration, keeps certificates and keys fresh, answers its operator, and ends in order.
// Carries no traffic.
// Invariant: a configuration that cannot be served changes nothing; why is in the answer, in `status` and in a metric.
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { AppsBook } from '../apps/book.ts';
import type { AppsObserver } from '../apps/ports.ts';
import { type Clock, systemClock, type Timer } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import { createLog, type Log } from '../base/log.ts';
import { PathWatch } from '../certificates/path-watch.ts';
import { compileRouting } from '../config/compile.ts';
import type { Declaration } from '../config/declaration.ts';
import { formatProblem, loadConfig, type Problem } from '../config/load.ts';
import { routingChanges } from '../model/changes.ts';
import { appGroundOf } from './apps-ground.ts';
import { CertificateProblems, Certificates, type LoadedCertificates } from './certificates.ts';
import { ControlAddress, type ControlMove } from './control-address.ts';
import { ControlSocket, socketName } from './control-socket.ts';
import { GateAdministration } from './gate-administration.ts';
import { GateDashboard } from './gate-dashboard.ts';
import { GateHouse } from './gate-house.ts';
import type { GateOperations } from './gate-operations.ts';
import { InstalledApps } from './installed-apps.ts';
import { inheritedSockets, Listeners } from './listeners.ts';
import { type MetricsMove, MetricsServer } from './metrics-server.ts';
import { OnionServices } from './onion-services.ts';
import type { CreateControlHandler, LastReload, ReloadResult } from './operations.ts';
import { portGroundOf } from './ported-apps.ts';
import type { ProcessMetrics } from './protocol.ts';
import type { Published, StepObserver } from './publication-run.ts';
import { type Household, RunningOperations } from './running-operations.ts';
import { ServiceManager } from './service-manager.ts';
import { Serving } from './serving.ts';
import { StateStore } from './state-store.ts';
import { SupervisorMetrics } from './supervisor-metrics.ts';
import { ServingGround } from './switch-ground.ts';
import { Switches } from './switches.ts';
import { Telemetry } from './telemetry.ts';
import { TlsAdministration } from './tls-administration.ts';
import type { TlsOperations } from './tls-operations.ts';
import type { SpareWorker } from './worker-process.ts';

export interface SupervisorOptions {
  readonly configFile: string;
  readonly createControlHandler: CreateControlHandler;
  /** The program that is forked as a worker. */
  readonly program: string;
  /** A worker that was forked ahead. */
  readonly spare: SpareWorker | null;
  readonly observer: StepObserver | null;
  /** Told before every step of a deploy. */
  readonly appsObserver: AppsObserver | null;
}

const ticketKeyLifeMs = 12 * 3_600_000;
/** How long after the drain limit a worker may take to end. */
const drainGraceMs = 500;
/** How long an order that was broken off may take to leave its things in order. */
const certificatesGraceMs = 2000;

export class Supervisor implements Household {
  readonly configFile: string;
  readonly stateDir: string;
  readonly startedAt = Date.now();
  lastReload: LastReload | null = null;
  warnings: readonly Problem[];
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #workers: Declaration['workers'];
  readonly #store: StateStore;
  readonly #serving: Serving;
  readonly #apps: InstalledApps;
  readonly gate: GateOperations;
  readonly #gate: GateHouse;
  readonly #dashboard: GateDashboard;
  readonly #certificates: Certificates;
  readonly #tls: TlsOperations;
  readonly #metrics = new SupervisorMetrics();
  readonly #metricsServer: MetricsServer;
  readonly #telemetry: Telemetry;
  readonly #manager: ServiceManager;
  readonly #operations: RunningOperations;
  readonly #controlAddress: ControlAddress;
  #control: ControlSocket | null = null;
  readonly #watch: PathWatch;
  #rotation: Timer | null = null;
  #reloading: Promise<unknown> = Promise.resolve();
  #ended = false;

  /** Serves the declaration, or throws what made that impossible and leaves nothing running. */
  static async start(
    options: SupervisorOptions,
    declaration: Declaration,
    warnings: readonly Problem[],
  ): Promise<Supervisor> {
    const supervisor = new Supervisor(options, declaration, warnings);
    try {
      await supervisor.#start(declaration, options.createControlHandler);
      return supervisor;
    } catch (error) {
      supervisor.#close();
      throw error;
    }
  }

  private constructor(options: SupervisorOptions, declaration: Declaration, warnings: readonly Problem[]) {
    const clock = systemClock;
    const log = createLog(declaration.log.level);
    this.configFile = options.configFile;
    this.stateDir = declaration.stateDir;
    this.warnings = warnings;
    this.#clock = clock;
    this.#log = log;
    this.#workers = declaration.workers;
    this.#store = StateStore.open(declaration.stateDir);
    this.#certificates = new Certificates({
      stateDir: declaration.stateDir,
      clock,
      log,
      metrics: this.#metrics.registry,
      onChange: (part) => this.#serving.publishCertificates(part),
      publishChallenges: (challenges) => this.#serving.publishChallenges(challenges),
    });
    this.#tls = new TlsAdministration({
      renewals: () => this.#certificates.acme?.renewals ?? null,
      snapshot: () => this.#serving.snapshot,
      now: clock.now,
    });
    this.#watch = new PathWatch({ clock, log, quietMs: 500, onChange: () => this.reloadSoon() });
    this.#gate = new GateHouse({
      clock,
      log,
      store: this.#store,
      stateDir: declaration.stateDir,
      spread: (delta, urgent) => this.#serving.spreadCredentials(delta, urgent),
      throttled: (addresses) => this.#serving.throttled(addresses),
      publish: () => this.#serving.publishGate(),
      dashboard: (ask) => this.#dashboard.answer(ask),
    });
    const book = new AppsBook(this.#store.apps.rows());
    this.#serving = new Serving({
      clock,
      log,
      logLevel: declaration.log.level,
      store: this.#store,
      apps: book,
      onions: new OnionServices(clock, log, declaration.stateDir),
      listeners: new Listeners(log, inheritedSockets(process.env, process.pid)),
      workers: declaration.workers === 'auto' ? availableParallelism() : declaration.workers,
      program: options.program,
      spare: options.spare,
      observer: options.observer,
      gate: this.#gate,
      leafFor: (name) => this.#certificates.leafFor(name, this.#serving.snapshot.parts.routing),
      routingServed: (routing, ofFile) => this.#certificates.routingServed(routing, ofFile),
    });
    this.#apps = new InstalledApps({
      clock,
      log,
      book,
      store: this.#store,
      serving: this.#serving,
      observer: options.appsObserver ?? (() => {}),
      declaration,
    });
    this.gate = new GateAdministration(
      this.#gate,
      clock,
      () => this.#serving.snapshot.parts,
      () => this.#serving.takeover.status(),
    );
    this.#metricsServer = new MetricsServer(() => this.metricsText(), log);
    this.#telemetry = new Telemetry({
      clock,
      log,
      book,
      runtime: this.#apps.engine,
      registry: this.#metrics.registry,
      startedAt: this.startedAt,
      metrics: async () => this.#serving.metrics.totals(await this.#allMetrics()),
    });
    this.#manager = new ServiceManager(process.env, log);
    const switches = new Switches(clock, log, new ServingGround(this.#serving, clock.now));
    this.#operations = new RunningOperations(this.#serving, switches, this.#apps, this);
    this.#dashboard = new GateDashboard({
      ledger: this.#gate.ledger,
      gate: this.gate,
      book,
      routing: () => this.#serving.snapshot.parts.routing,
      now: clock.now,
      operations: this.#operations,
    });
    this.#controlAddress = new ControlAddress(options.createControlHandler(this.#operations, log), log);
  }

  get tls(): TlsOperations {
    return this.#tls;
  }

  get certificateProblems(): readonly Problem[] {
    return this.#certificates.problems;
  }

  get ca(): Household['ca'] {
    return this.#certificates.ca;
  }

  /** One at a time; the next one sees what the one before it did. */
  reload(): Promise<ReloadResult> {
    const result = this.#reloading.then(() => this.#reload());
    this.#reloading = result.catch(() => {});
    return result;
  }

  needsRestart({ stateDir, workers, runtime }: Declaration): readonly string[] {
    const keys: string[] = [];
    if (stateDir !== this.stateDir) keys.push('state_dir');
    if (workers !== this.#workers) keys.push('workers');
    if (runtime !== this.#apps.runtime) keys.push('runtime');
    return keys;
  }

  async metricsText(): Promise<string> {
    return this.#serving.metrics.text(await this.#allMetrics());
  }

  async #allMetrics(): Promise<readonly ProcessMetrics[]> {
    const workers = await this.#serving.workerMetrics();
    this.#metrics.collectGate(this.#gate.counts);
    return [...workers, this.#metrics.collect(this.#serving)];
  }

  /** Stops accepting, lets everything finish within the drain limits. Resolves with the exit code. */
  async drain(): Promise<number> {
    if (this.#ended) return 0;
    this.#ended = true;
    this.#log.info('draining');
    this.#manager.notify('STOPPING');
    this.#quieten();
    await Promise.all([this.#serving.drain(drainGraceMs), this.#telemetry.close()]);
    await this.#certificates.ended(certificatesGraceMs);
    this.#close();
    this.#log.info('ended');
    return 0;
  }

  /** Ends everything now. */
  endNow(): void {
    this.#log.warn('ended-at-once');
    this.#serving.kill();
    this.#close();
  }

  async #start(declaration: Declaration, createControlHandler: CreateControlHandler): Promise<void> {
    const metricsMove = await this.#metricsServer.move(declaration.metrics);
    metricsMove.adopt();
    // Workers boot while the certificates are read.
    const certificates = this.#certificates.load(declaration);
    const routing = compileRouting(declaration);
    await this.#serving.start(
      certificates.then(({ part }) => ({
        routing,
        certificates: part,
        gate: () => this.#gate.part(declaration.gate),
        apps: appGroundOf(declaration),
        ports: portGroundOf(declaration),
      })),
    );
    this.#gate.adopt(declaration.gate);
    await (await certificates).adopt();
    this.#offerSetup();
    const path = join(this.stateDir, socketName);
    this.#control = await ControlSocket.listen(path, createControlHandler(this.#operations, this.#log));
    (await this.#controlAddress.move(declaration.control)).adopt();
    (await this.#telemetry.move(declaration.telemetry)).adopt();
    this.#apps.begin();
    this.#apps.onChange(() => this.#serving.lookAtPorts());
    this.#serving.takeover.follow();
    await this.#watch.set([this.configFile]);
    this.#rotation = this.#clock.every(ticketKeyLifeMs, () => this.#serving.rotateTicketKey());
    this.#manager.notify('READY');
    this.#log.info('serving', {
      config: this.configFile,
      revision: this.#serving.snapshot.revision,
      workers: this.#serving.workers.length,
      entrypoints: declaration.entrypoints.map(({ name }) => name),
    });
  }

  /** Nobody could log in: whoever sees this output owns the machine. Said here and never logged. */
  #offerSetup(): void {
    const link = this.#gate.setupLink(this.#serving.snapshot.parts.routing);
    if (link !== null) process.stdout.write(`No user yet. Make the first one, within this run, at:\n  ${link}\n`);
  }

  async #reload(): Promise<ReloadResult> {
    this.#manager.notify('RELOADING');
    const result = await this.#tryReload();
    this.#manager.notify('READY');
    const { outcome, problems, fault } = result;
    this.lastReload = { at: this.#clock.now(), outcome, problems, fault };
    this.#metrics.reloaded(outcome);
    if (outcome === 'refused') this.#log.error('reload-refused', { problems: problems.map(formatProblem), fault });
    else this.#log.info('reload-done', { outcome, revision: result.revision, needsRestart: result.needsRestart });
    return result;
  }

  async #tryReload(): Promise<ReloadResult> {
    const loaded = await loadConfig(this.configFile);
    const before = this.#serving.snapshot;
    const base: ReloadResult = {
      outcome: 'refused',
      revision: before.revision,
      file: this.configFile,
      problems: [],
      warnings: loaded.warnings,
      fault: null,
      changes: null,
      needsRestart: [],
    };
    if (!loaded.ok) return { ...base, problems: loaded.problems };
    const { declaration } = loaded;
    const needsRestart = this.needsRestart(declaration);
    try {
      const certificates = await this.#certificates.load(declaration);
      const { changed, revision } = await this.#publish(declaration, certificates);
      this.#serving.setLogLevel(declaration.log.level);
      this.#log.setLevel(declaration.log.level);
      this.warnings = loaded.warnings;
      await this.#apps.reconfigured(declaration);
      const changes = routingChanges(before.parts.routing, this.#serving.snapshot.parts.routing);
      return { ...base, outcome: changed ? 'applied' : 'unchanged', revision, changes, needsRestart };
    } catch (error) {
      if (error instanceof CertificateProblems) return { ...base, problems: error.problems };
      if (!(error instanceof Fault)) throw error;
      return { ...base, fault: { code: error.code, message: error.message }, needsRestart };
    }
  }

  async #publish(declaration: Declaration, certificates: LoadedCertificates): Promise<Published> {
    const moves: (MetricsMove | ControlMove)[] = [];
    try {
      const telemetry = await this.#telemetry.move(declaration.telemetry);
      moves.push(await this.#metricsServer.move(declaration.metrics));
      moves.push(await this.#controlAddress.move(declaration.control));
      const routing = compileRouting(declaration);
      const published = await this.#serving.publish({
        routing,
        certificates: certificates.part,
        gate: () => this.#gate.part(declaration.gate),
        apps: appGroundOf(declaration),
        ports: portGroundOf(declaration),
      });
      this.#gate.adopt(declaration.gate);
      for (const move of moves) move.adopt();
      telemetry.adopt();
      await certificates.adopt();
      return published;
    } catch (error) {
      for (const move of moves) move.abandon();
      throw error;
    }
  }

  /** Nobody waits for the answer: the log and `status` have it. A file that was touched only changes nothing. */
  reloadSoon(): void {
    this.reload().catch((error: unknown) => this.#log.error('reload-failed', { err: error }));
  }

  /** No more commands, changes and timers. */
  #quieten(): void {
    this.#rotation?.cancel();
    this.#watch.close();
    this.#apps.close();
    this.#certificates.close();
    this.#gate.close();
    this.#metricsServer.close();
  }

  #close(): void {
    this.#quieten();
    void this.#telemetry.close();
    this.#controlAddress.close();
    this.#control?.close();
    this.#store.close();
  }
}
