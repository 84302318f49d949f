// The operations of a running process: what the control socket's handlers call.
// Invariant: what cannot be done is a Fault of side `operator`; nothing is half done when one is thrown.
import { Fault } from '../base/fault.ts';
import { version } from '../base/version.ts';
import { compileRouting } from '../config/compile.ts';
import type { Declaration } from '../config/declaration.ts';
import { loadConfig, type Problem } from '../config/load.ts';
import { excludeEachOther } from '../entrypoint/bind-fault.ts';
import { formatBind, routingChanges } from '../model/changes.ts';
import { endsTls } from '../model/entrypoint-protocol.ts';
import type { Entrypoint, RawFallback, RoutingPart, Service } from '../model/snapshot.ts';
import { appGroundOf } from './apps-ground.ts';
import type { GateOperations } from './gate-operations.ts';
import {
  type ConnectionCounters,
  certificateRows,
  entrypointStatus,
  openConnections,
  overrideOf,
  routeRows,
  serviceStatus,
} from './inspection.ts';
import type { InstalledApps } from './installed-apps.ts';
import type {
  DiffResult,
  ExplainFacts,
  LastReload,
  Operations,
  ReloadResult,
  RouteRow,
  ServiceChange,
  ServiceOverride,
  Status,
  SwitchProgress,
  SwitchReport,
  SwitchRequest,
  TlsStatus,
  TrafficStatus,
} from './operations.ts';
import { portGroundOf } from './ported-apps.ts';
import type { Wish } from './proposals.ts';
import type { ProcessMetrics, WorkerStats } from './protocol.ts';
import type { ServiceRunState } from './service-state.ts';
import type { Serving } from './serving.ts';
import type { Switches } from './switches.ts';
import type { TlsOperations } from './tls-operations.ts';
import { trafficStatus } from './traffic-status.ts';

/** What the operations need of the supervisor beside what is served. */
export interface Household {
  readonly configFile: string;
  readonly stateDir: string;
  readonly startedAt: number;
  readonly lastReload: LastReload | null;
  readonly warnings: readonly Problem[];
  readonly certificateProblems: readonly Problem[];
  readonly gate: GateOperations;
  readonly tls: TlsOperations;
  readonly ca: { readonly rootPem: string; readonly rootFingerprint: string; readonly rootNotAfter: number } | null;
  reload(): Promise<ReloadResult>;
  /** Keys that differ from what this process was started with and that only a restart applies. */
  needsRestart(declaration: Declaration): readonly string[];
  metricsText(): Promise<string>;
}

export class RunningOperations implements Operations {
  readonly apps: InstalledApps;
  readonly #serving: Serving;
  readonly #switches: Switches;
  readonly #household: Household;

  constructor(serving: Serving, switches: Switches, apps: InstalledApps, household: Household) {
    this.apps = apps;
    this.#serving = serving;
    this.#switches = switches;
    this.#household = household;
  }

  get gate(): GateOperations {
    return this.#household.gate;
  }

  get tls(): TlsOperations {
    return this.#household.tls;
  }

  reload(): Promise<ReloadResult> {
    return this.#household.reload();
  }

  async diff(file: string | null): Promise<DiffResult> {
    const path = file ?? this.#household.configFile;
    const loaded = await loadConfig(path);
    const base = { file: path, warnings: loaded.warnings, overrides: this.#overrides() };
    if (!loaded.ok) return { ...base, problems: loaded.problems, changes: null, needsRestart: [], closes: [] };
    const { declaration } = loaded;
    const next = this.#serving.preview(
      compileRouting(declaration),
      appGroundOf(declaration),
      portGroundOf(declaration),
    );
    const { routing } = this.#serving.snapshot.parts;
    return {
      ...base,
      problems: [],
      changes: routingChanges(routing, next),
      needsRestart: this.#household.needsRestart(declaration),
      closes: await this.#closes(routing, next),
    };
  }

  async status(): Promise<Status> {
    const { configFile, stateDir, startedAt, lastReload, warnings } = this.#household;
    const [answers, metrics] = await Promise.all([this.#serving.stats(), this.#serving.workerMetrics()]);
    const stats = answers.map(([, each]) => each);
    const loads = new Map(answers.map(([worker, { load }]) => [worker, load]));
    const counters = this.#counters(metrics);
    const { snapshot } = this.#serving;
    const { routing, certificates } = snapshot.parts;
    return {
      version,
      pid: process.pid,
      startedAt,
      configFile,
      stateDir,
      revision: snapshot.revision,
      workers: this.#serving.workers.map((worker) => ({
        id: worker.slot,
        pid: worker.pid,
        state: worker.state,
        revision: worker.revision,
        startedAt: worker.startedAt,
        restarts: this.#serving.restartsOf(worker),
        load: loads.get(worker) ?? null,
      })),
      lastReload,
      entrypoints: routing.entrypoints.map((entrypoint) => entrypointStatus(entrypoint, stats, counters)),
      services: routing.services.map((service) =>
        serviceStatus(service, snapshot, stats, this.#serving.stored(service.name), this.#isEjected),
      ),
      hosts: routing.hosts.length,
      routes: routing.hosts.reduce((total, host) => total + host.routes.length, 0),
      certificates: certificateRows(certificates),
      switchovers: this.#switches.status(),
      warnings,
    };
  }

  async routes(): Promise<readonly RouteRow[]> {
    return routeRows(this.#serving.snapshot.parts.routing);
  }

  async traffic(): Promise<TrafficStatus> {
    const [stats, metrics] = await Promise.all([this.#stats(), this.#serving.workerMetrics()]);
    return trafficStatus({
      at: Date.now(),
      lastReload: this.#household.lastReload,
      snapshot: this.#serving.snapshot,
      stats,
      seriesOf: (family) => this.#serving.metrics.sum(metrics, `turnpike_${family}`),
      isEjected: this.#isEjected,
    });
  }

  async switchService(request: SwitchRequest, progress: (step: SwitchProgress) => void): Promise<SwitchReport> {
    this.apps.refuseSwitch(request.service);
    return this.#switches.run(request, progress);
  }

  pauseService(name: string): Promise<ServiceChange> {
    return this.#setState(name, 'paused');
  }

  resumeService(name: string): Promise<ServiceChange> {
    return this.#setState(name, 'run');
  }

  stopService(name: string): Promise<ServiceChange> {
    return this.#setState(name, 'stopped');
  }

  startService(name: string): Promise<ServiceChange> {
    return this.#setState(name, 'run');
  }

  async tlsStatus(): Promise<TlsStatus> {
    const { routing, certificates } = this.#serving.snapshot.parts;
    const { ca, certificateProblems } = this.#household;
    return {
      certificates: certificateRows(certificates),
      names: this.tls.names(),
      internalCa: {
        enabled: certificates.internalCa,
        rootFingerprint: ca?.rootFingerprint ?? null,
        rootNotAfter: ca?.rootNotAfter ?? null,
      },
      entrypoints: routing.entrypoints.filter((each) => hasTls(each, routing)).map(({ name }) => name),
      problems: certificateProblems,
    };
  }

  async caPem(): Promise<string | null> {
    return this.#household.ca?.rootPem ?? null;
  }

  async explainFacts(): Promise<ExplainFacts> {
    const { revision, parts } = this.#serving.snapshot;
    const { routing, certificates, challenges, health, gate } = parts;
    return { revision, routing, certificates, challenges, health, gate, overrides: this.#overrides() };
  }

  metricsText(): Promise<string> {
    return this.#household.metricsText();
  }

  async replaceWorkers(): Promise<{ readonly replaced: number }> {
    return { replaced: await this.#serving.replaceWorkers() };
  }

  async #setState(name: string, state: ServiceRunState): Promise<ServiceChange> {
    this.#service(name);
    const wish: Wish = { service: name, intent: { kind: 'state', state }, drainMs: null, proven: [] };
    const { published } = await this.#serving.grant(wish, () => {});
    return { service: name, state, revision: published.revision, changed: published.changed };
  }

  #service(name: string): Service {
    const service = this.#serving.service(name);
    if (service === null) throw new Fault('unknown-service', `no service is named ${name}`);
    return service;
  }

  readonly #isEjected = (service: string, address: string): boolean => this.#serving.health.isEjected(service, address);

  #overrides(): readonly ServiceOverride[] {
    const { services } = this.#serving.snapshot.parts.routing;
    return services.map(({ name }) => overrideOf(this.#serving.stored(name))).filter((each) => each !== null);
  }

  #counters(metrics: readonly ProcessMetrics[]): ConnectionCounters {
    return {
      accepted: this.#serving.metrics.sum(metrics, 'turnpike_entrypoint_accepted_total'),
      refused: this.#serving.metrics.sum(metrics, 'turnpike_entrypoint_refused_total'),
    };
  }

  async #stats(): Promise<readonly WorkerStats[]> {
    return (await this.#serving.stats()).map(([, stats]) => stats);
  }

  /** Listeners that would go take their connections along; narrowed sources close what no longer belongs. */
  async #closes(from: RoutingPart, to: RoutingPart): Promise<DiffResult['closes']> {
    const stats = await this.#stats();
    const closes: { entrypoint: string; connections: number; why: string }[] = [];
    for (const entrypoint of from.entrypoints) {
      const connections = openConnections(entrypoint, stats);
      const next = to.entrypoints.find((each) => each.name === entrypoint.name);
      const bind = formatBind(entrypoint.host, entrypoint.port);
      if (next === undefined) closes.push({ entrypoint: entrypoint.name, connections, why: `${bind} is removed` });
      else if (formatBind(next.host, next.port) !== bind || next.protocol !== entrypoint.protocol) {
        const now = `${formatBind(next.host, next.port)} ${next.protocol}`;
        const refused = excludeEachOther(entrypoint, next) ? ', which no single reload can do' : '';
        closes.push({ entrypoint: entrypoint.name, connections, why: `${bind} becomes ${now}${refused}` });
      } else if (next.trustedCidrs.join() !== entrypoint.trustedCidrs.join() && next.trustedCidrs.length > 0) {
        const why = 'peers outside trusted_cidrs are closed';
        closes.push({ entrypoint: entrypoint.name, connections, why });
      } else if (narrowsFallback(entrypoint.rawFallback, next.rawFallback)) {
        const why = 'raw connections of clients that may not reach the fallback are closed';
        closes.push({ entrypoint: entrypoint.name, connections, why });
      }
    }
    return closes;
  }
}

function hasTls({ name, protocol }: Entrypoint, { routers }: RoutingPart): boolean {
  return (
    endsTls(protocol) || routers.tcp.some(({ entrypoint, terminate }) => entrypoint === name && terminate !== null)
  );
}

function narrowsFallback(from: RawFallback | null, to: RawFallback | null): boolean {
  if (from === null) return false;
  return to === null || (to.trustedCidrs !== null && to.trustedCidrs.join() !== from.trustedCidrs?.join());
}
