// What is being served, and every way to change it: the state store, the held listeners, the workers and the publisher
// together.
// Invariant: nothing here changes what workers serve except by a publication; what a publication decides is in the state
// store before the first worker commits it.
import type { AppsBook } from '../apps/book.ts';
import { type AppGround, routingServices } from '../apps/routing.ts';
import type { AppsChange } from '../apps/state.ts';
import type { Clock, Timer } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import type { Log, LogLevel } from '../base/log.ts';
import type { CredentialsDelta } from '../gate/credentials.ts';
import type { DeskAnswer, DeskQuestion, UsageReport } from '../gate/desk.ts';
import type { PublicationFault } from '../model/publication.ts';
import type {
  Certificate,
  CertificatesPart,
  ChallengesPart,
  GatePart,
  RoutingPart,
  Service,
  Snapshot,
} from '../model/snapshot.ts';
import { type Drain, Drains } from './drains.ts';
import type { PortGround } from './gate-ports.ts';
import { Health } from './health.ts';
import type { Listeners } from './listeners.ts';
import { MetricsSum } from './metrics.ts';
import type { OnionServices } from './onion-services.ts';
import { PortTakeover } from './port-takeover.ts';
import { lendAll, Proposals, type Wanted, type Wish } from './proposals.ts';
import type { DrainLimits, Notice, ProcessMetrics, Questions, WorkerStats } from './protocol.ts';
import { Publisher } from './publication.ts';
import type { Published, StepObserver } from './publication-run.ts';
import type { StoredService } from './service-state.ts';
import type { StateStore } from './state-store.ts';
import { UdpOwners } from './udp-owners.ts';
import { Upkeep } from './upkeep.ts';
import type { WorkerHandle } from './worker-handle.ts';
import { WorkerPool } from './worker-pool.ts';
import type { SpareWorker } from './worker-process.ts';

export interface ServingOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly logLevel: LogLevel;
  readonly store: StateStore;
  /** What is known of apps, as it is in the store. */
  readonly apps: AppsBook;
  readonly listeners: Listeners;
  readonly onions: OnionServices;
  readonly workers: number;
  readonly program: string;
  readonly spare: SpareWorker | null;
  readonly observer: StepObserver | null;
  /** A worker asks for a leaf of the internal CA. */
  readonly leafFor: (name: string) => Promise<Certificate | null>;
  /** Every worker serves this routing, apps' hosts included; `ofFile` has those of the file alone. */
  readonly routingServed: (routing: RoutingPart, ofFile: RoutingPart) => void;
  /** What the workers' gates know and ask. */
  readonly gate: GateSource;
}

export interface GateSource {
  whole(): CredentialsDelta;
  answer(question: DeskQuestion): Promise<DeskAnswer | null>;
  report(report: UsageReport): void;
  part(): GatePart;
  /** Every worker serves this routing. */
  adopted(routing: RoutingPart): void;
}

/** A worker that has not taken a session away by then is ended instead. */
const credentialsMs = 2000;
/** How long an answer to a question of statistics is waited for. */
const answerMs = 2000;

export class Serving {
  readonly health: Health;
  readonly metrics = new MetricsSum();
  readonly #options: ServingOptions;
  readonly #proposals: Proposals;
  readonly #publisher: Publisher;
  readonly #pool: WorkerPool;
  readonly #drains: Drains;
  readonly #udpOwners: UdpOwners;
  readonly #health: Upkeep;
  readonly #certificates: Upkeep;
  readonly #ticketKey: Upkeep;
  readonly #ports: Upkeep;
  readonly takeover: PortTakeover;
  #logLevel: LogLevel;
  #begun: readonly Drain[] = [];

  constructor(options: ServingOptions) {
    const { clock, log, store } = options;
    this.#options = options;
    this.#logLevel = options.logLevel;
    this.#drains = new Drains(clock);
    // The newest first: with the others, their turn to be replaced may come.
    this.#udpOwners = new UdpOwners(() =>
      this.#members()
        .filter(({ state }) => state !== 'leaving')
        .toReversed(),
    );
    this.health = new Health(clock, log, () =>
      this.#health.request(({ parts }) => this.#proposals.health(parts.routing)),
    );
    this.takeover = new PortTakeover({
      clock,
      log,
      book: options.apps,
      onions: options.onions,
      onChange: () => this.lookAtPorts(),
    });
    this.#proposals = new Proposals(store, options.listeners, options.apps, this.takeover, {
      healthOf: (routing) => this.health.part(routing),
      own: (...entrypoints) => this.#udpOwners.follow(...entrypoints),
      withdraw: (keys) => this.#pool.tellAll({ kind: 'withdraw', keys }),
      adopted: (routing, proven) => {
        this.health.follow(routing, proven);
        this.metrics.forget(routing);
        options.gate.adopted(routing);
        options.routingServed(routing, this.#proposals.declared);
      },
    });
    this.#publisher = new Publisher(
      {
        clock,
        workers: () => this.#members(),
        deciding: (from, to, workers) => {
          const ids = workers.map((worker) => worker.id);
          this.#begun = from === null ? [] : this.#drains.begin(from, to, ids);
        },
        observer: options.observer,
      },
      store.revision,
    );
    const upkeep = (part: string): Upkeep => new Upkeep(part, this.#publisher, clock, log);
    this.#health = upkeep('health');
    this.#certificates = upkeep('certificates');
    this.#ticketKey = upkeep('keys');
    this.#ports = upkeep('ports');
    this.#pool = new WorkerPool({
      clock,
      log,
      program: options.program,
      spare: options.spare,
      slots: options.workers,
      logLevel: () => this.#logLevel,
      join: (worker) => this.#join(worker),
      onNotice: (worker, notice) => this.#notice(worker, notice),
      onReplaced: (worker) => this.#udpOwners.leaving(worker),
      onLeft: (worker) => {
        this.#drains.left(worker.id);
        this.#udpOwners.settle();
        this.metrics.keep(worker.lastMetrics);
      },
    });
  }

  /** Forks the workers and makes them serve. Throws what made it impossible; nothing is left running then. */
  async start(wanted: Promise<Wanted>): Promise<void> {
    try {
      // Workers load their code while the certificates are read.
      const [ready] = await Promise.all([wanted, this.#pool.boot()]);
      const credentials = this.#options.gate.whole();
      for (const worker of this.#pool.processes) worker.ask('credentials', credentials);
      await this.publish(ready);
      this.#pool.serving();
      const { idle } = this.#options.listeners;
      if (idle.length > 0) this.#options.log.warn('passed-socket-unused', { addresses: idle });
    } catch (error) {
      this.#pool.kill();
      this.#options.listeners.closeAll();
      throw error;
    }
  }

  /** The snapshot that is served. */
  get snapshot(): Snapshot {
    const { committed } = this.#publisher;
    if (committed === null) throw new Fault('not-running', 'nothing is served yet');
    return committed;
  }

  get declared(): RoutingPart {
    return this.#proposals.declared;
  }

  service(name: string): Service | null {
    return this.snapshot.parts.routing.services.find((service) => service.name === name) ?? null;
  }

  stored(name: string): StoredService | null {
    return this.#proposals.stored(name);
  }

  get workers(): readonly WorkerHandle[] {
    return this.#pool.processes;
  }

  get restarts(): number {
    return this.#pool.restarts;
  }

  restartsOf(worker: WorkerHandle): number {
    return this.#pool.restartsOf(worker);
  }

  /** Publishes what the file says. */
  publish(wanted: Wanted): Promise<Published> {
    return this.#publisher.publish(() => this.#proposals.file(wanted));
  }

  /** What `publish` would serve. */
  preview(routing: RoutingPart, apps: AppGround, ports: PortGround): RoutingPart {
    return this.#proposals.preview(routing, apps, ports);
  }

  /** Publishes what an operator wants of one service. `drain` is null when no generation was replaced. */
  async grant(wish: Wish, onHold: () => void): Promise<{ published: Published; drain: Drain | null }> {
    let drain: Drain | null = null;
    const published = await this.#publisher.publish(
      () => {
        if (wish.intent.kind !== 'state') this.health.pardon(wish.service, wish.proven);
        return this.#proposals.wish(wish);
      },
      (move) => {
        if (move === 'hold') onHold();
        if (move === 'commit') drain = this.#begun.find((each) => each.service === wish.service) ?? null;
      },
    );
    return { published, drain };
  }

  /** Publishes what this makes active of apps. `drains`: the generations that were replaced by it. */
  async moveApps(change: AppsChange): Promise<{ published: Published; drains: readonly Drain[] }> {
    let drains: readonly Drain[] = [];
    const published = await this.#publisher.publish(
      () => {
        for (const active of change.active ?? []) {
          const proven = (active.instance?.backends ?? []).map(({ address }) => address);
          for (const service of routingServices(active)) this.health.pardon(service, proven);
        }
        return this.#proposals.apps(change);
      },
      (move) => {
        if (move === 'commit') drains = this.#begun;
      },
    );
    return { published, drains };
  }

  /** Watched files, or the internal CA, gave other certificates. */
  publishCertificates(certificates: CertificatesPart): void {
    this.#certificates.request(() => this.#proposals.certificates(certificates));
  }

  /** Every worker answers these challenges when it resolves. */
  publishChallenges(challenges: ChallengesPart): Promise<Published> {
    return this.#publisher.publish(() => this.#proposals.challenges(challenges));
  }

  /** Apps, or addresses of this machine, may be others: ports are taken, or given back. */
  lookAtPorts(): void {
    this.#ports.request(() => this.#proposals.ports());
  }

  /** Every worker judges by this when it resolves. */
  publishGate(): Promise<Published> {
    return this.#publisher.publish(() => this.#proposals.gate(this.#options.gate.part()));
  }

  /**
   * In force at every serving worker when it resolves. `urgent`: a worker that does not answer is ended, because what it
   * would let through may not pass any more.
   */
  async spreadCredentials(delta: CredentialsDelta, urgent: boolean): Promise<void> {
    const serving = new Set(this.#publisher.committed === null ? [] : this.#members());
    await Promise.all(
      this.#pool.processes.map(async (worker) => {
        const answer = worker.ask('credentials', delta);
        if (!serving.has(worker)) return;
        if ((await this.#inTime(answer, credentialsMs)) !== null || !urgent) return;
        this.#options.log.error('worker-silent', { slot: worker.slot, pid: worker.pid });
        worker.kill();
        await worker.left;
      }),
    );
  }

  /** Addresses that have to wait before they try again. */
  throttled(addresses: readonly (readonly [string, number])[]): void {
    this.#pool.tellAll({ kind: 'throttled', addresses });
  }

  /** New session tickets from now on; the old ones cost their holders one full handshake. */
  rotateTicketKey(): void {
    this.#ticketKey.request(() => this.#proposals.newTicketKey());
  }

  setLogLevel(level: LogLevel): void {
    this.#logLevel = level;
    this.#pool.tellAll({ kind: 'log', level });
  }

  async stats(): Promise<readonly [WorkerHandle, WorkerStats][]> {
    const answers = await this.#askAll('stats');
    for (const [worker, stats] of answers) worker.revision = stats.revision;
    return answers;
  }

  async workerMetrics(): Promise<readonly ProcessMetrics[]> {
    const answers = await this.#askAll('metrics');
    for (const [worker, metrics] of answers) worker.lastMetrics = metrics;
    return answers.map(([, metrics]) => metrics);
  }

  replaceWorkers(): Promise<number> {
    return this.#pool.replaceAll(this.#drainLimits());
  }

  /** Stops accepting and lets the workers finish. Resolves when they are gone. */
  async drain(graceMs: number): Promise<void> {
    this.#quieten();
    // Streams have no more time than requests: the process is asked to go, not a backend.
    const { requestsMs } = this.#drainLimits();
    const drained = this.#pool.drain({ requestsMs, streamsMs: requestsMs }, graceMs);
    this.#options.listeners.closeAll();
    await drained;
  }

  /** Ends everything at once. */
  kill(): void {
    this.#quieten();
    this.#options.listeners.closeAll();
    this.#pool.kill();
  }

  #quieten(): void {
    this.takeover.close();
    this.#udpOwners.close();
    this.#publisher.close();
    this.health.close();
    for (const upkeep of [this.#health, this.#certificates, this.#ticketKey, this.#ports]) upkeep.close();
  }

  /** Workers that take part in publications: those that serve, and before the first publication those that could. */
  #members(): readonly WorkerHandle[] {
    const first = this.#publisher.committed === null;
    return this.#pool.processes.filter((worker) => first || worker.digests !== null);
  }

  async #join(worker: WorkerHandle): Promise<PublicationFault | null> {
    // Before anything that could let somebody in.
    worker.ask('credentials', this.#options.gate.whole());
    const fault = await this.#publisher.join(worker, () => {
      lendAll(worker, this.#options.listeners.held());
    });
    // A port that cannot be bound right now must not keep a worker from serving the others.
    if (fault === null) this.#udpOwners.settle();
    return fault;
  }

  #notice(worker: WorkerHandle, notice: Notice): void {
    switch (notice.kind) {
      case 'drained':
        this.#drains.drained(worker.id, notice);
        break;
      case 'ejected':
        this.health.eject(notice.service, notice.address, notice.until);
        break;
      case 'listeners-wanted':
        lendAll(
          worker,
          this.#options.listeners.held().filter(({ key }) => notice.keys.includes(key)),
        );
        break;
      case 'leaf-wanted':
        this.#sendLeaf(worker, notice.name);
        break;
      case 'desk-question':
        this.#options.gate
          .answer(notice.question)
          .then((answer) => worker.tell({ kind: 'desk', id: notice.id, answer }));
        break;
      case 'gate-usage':
        this.#options.gate.report(notice.report);
        break;
      case 'leaving':
        worker.lastMetrics = notice.metrics;
    }
  }

  async #sendLeaf(worker: WorkerHandle, name: string): Promise<void> {
    let certificate: Certificate | null = null;
    try {
      certificate = await this.#options.leafFor(name);
    } catch (error) {
      this.#options.log.error('leaf-failed', { name, err: error });
    }
    worker.tell({ kind: 'leaf', name, certificate });
  }

  /** Answers of all workers that answer in time; statistics never wait for a busy one. */
  async #askAll<Q extends 'stats' | 'metrics'>(question: Q): Promise<[WorkerHandle, Questions[Q]['answer']][]> {
    const answers = await Promise.all(
      this.#members().map(async (worker): Promise<[WorkerHandle, Questions[Q]['answer']] | null> => {
        const answer = await this.#inTime(worker.ask(question, null), answerMs);
        return answer?.ok ? [worker, answer.value] : null;
      }),
    );
    return answers.filter((each) => each !== null);
  }

  /** Null: it did not come in time. */
  async #inTime<T>(answer: Promise<T>, ms: number): Promise<T | null> {
    let timer: Timer | null = null;
    const late = new Promise<null>((resolve) => {
      timer = this.#options.clock.after(ms, () => resolve(null));
    });
    const first = await Promise.race([answer, late]);
    (timer as Timer | null)?.cancel();
    return first;
  }

  #drainLimits(): DrainLimits {
    const { limits } = this.snapshot.parts.routing.settings;
    return { requestsMs: limits.drainMs, streamsMs: limits.streamDrainMs };
  }
}
