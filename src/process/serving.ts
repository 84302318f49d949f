// What is being served, and every way to change it: the state store, the held listeners, the workers and the publisher
// together.
// Invariant: nothing here changes what workers serve except by a publication; what a publication decides is in the state
// store before the first worker commits it.
import { randomBytes } from 'node:crypto';
import type { Clock, Timer } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import type { Log, LogLevel } from '../base/log.ts';
import type { PublicationFault } from '../model/publication.ts';
import type {
  Certificate,
  CertificatesPart,
  KeysPart,
  RoutingPart,
  Service,
  Snapshot,
  SnapshotParts,
} from '../model/snapshot.ts';
import { type Drain, Drains } from './drains.ts';
import { Health } from './health.ts';
import type { HeldListener, Listeners } from './listeners.ts';
import { MetricsSum } from './metrics.ts';
import type { DrainLimits, Notice, ProcessMetrics, Questions, WorkerStats } from './protocol.ts';
import { type Proposal, type Published, Publisher, type StepObserver } from './publication.ts';
import { type Intent, resolveServices, type StoredService } from './service-state.ts';
import type { StateStore } from './state-store.ts';
import type { WorkerChannel, WorkerHandle } from './worker-handle.ts';
import { WorkerPool } from './worker-pool.ts';

export interface ServingOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly logLevel: LogLevel;
  readonly store: StateStore;
  readonly listeners: Listeners;
  readonly workers: number;
  /** The program to fork; becomes a worker by its first argument. */
  readonly program: string;
  readonly observer: StepObserver | null;
  /** A worker asks for a leaf of the internal CA. */
  readonly leafFor: (name: string) => Promise<Certificate | null>;
}

/** What the configuration file says, ready to be served. */
export interface Wanted {
  /** Generations hold the file's addresses. */
  readonly routing: RoutingPart;
  readonly certificates: CertificatesPart;
}

/** A failed publication of the supervisor's own (health, certificates) is tried again after this time. */
const retryMs = 1000;
/** Flips that come together are published together. */
const gatherMs = 50;
const answerMs = 2000;

export class Serving {
  readonly health: Health;
  readonly metrics = new MetricsSum();
  readonly #options: ServingOptions;
  readonly #publisher: Publisher;
  readonly #pool: WorkerPool;
  readonly #drains: Drains;
  #stored: ReadonlyMap<string, StoredService>;
  #keys: KeysPart;
  #declared: RoutingPart | null = null;
  #logLevel: LogLevel;
  #begun: readonly Drain[] = [];
  #healthDue = false;
  #closing = false;

  constructor(options: ServingOptions) {
    const { clock, log, store } = options;
    this.#options = options;
    this.#logLevel = options.logLevel;
    this.#stored = store.services();
    this.#keys = store.keys ?? { ticketKey: newKey(48), cookieKey: newKey(32) };
    this.#drains = new Drains(clock);
    this.health = new Health(clock, log, () => this.#healthChanged());
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
    this.#pool = new WorkerPool({
      clock,
      log,
      program: options.program,
      slots: options.workers,
      logLevel: () => this.#logLevel,
      join: (worker) => this.#join(worker),
      onNotice: (worker, notice) => this.#notice(worker, notice),
      onLeft: (worker) => {
        this.#drains.left(worker.id);
        this.metrics.keep(worker.lastMetrics);
      },
    });
  }

  /** Forks the workers and makes them serve. Throws what made it impossible; nothing is left running then. */
  async start(wanted: Promise<Wanted>): Promise<void> {
    try {
      // Workers load their code while the certificates are read.
      const [ready] = await Promise.all([wanted, this.#pool.boot()]);
      await this.publish(ready);
      this.#pool.serving();
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
    if (this.#declared === null) throw new Fault('not-running', 'nothing is served yet');
    return this.#declared;
  }

  service(name: string): Service | null {
    return this.snapshot.parts.routing.services.find((service) => service.name === name) ?? null;
  }

  stored(name: string): StoredService | null {
    return this.#stored.get(name) ?? null;
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
    return this.#publisher.publish(() => {
      const { certificates } = wanted;
      return this.#routingProposal(wanted.routing, new Map(), { parts: { certificates, keys: this.#keys } });
    });
  }

  /** What `publish` would serve. */
  preview(routing: RoutingPart): RoutingPart {
    return resolveServices(routing, this.#stored).routing;
  }

  /** Publishes an operator's wish about one service. `drain` is null when no generation was replaced. */
  async intend(name: string, intent: Intent, wish: Wish): Promise<{ published: Published; drain: Drain | null }> {
    let drain: Drain | null = null;
    const published = await this.#publisher.publish(
      () => {
        if (intent.kind !== 'state') this.health.pardon(name);
        return this.#routingProposal(this.declared, new Map([[name, intent]]), {
          proven: new Map([[name, wish.proven]]),
          drainMs: wish.drainMs === null ? {} : { [name]: wish.drainMs },
        });
      },
      (move) => {
        if (move === 'hold') wish.onHold();
        if (move === 'commit') drain = this.#begun.find((each) => each.service === name) ?? null;
      },
    );
    return { published, drain };
  }

  publishCertificates(certificates: CertificatesPart): Promise<Published> {
    return this.#publisher.publish(() => this.#proposal({ certificates }, []));
  }

  /** New session tickets from now on; the old ones cost their holders one full handshake. */
  rotateTicketKey(): Promise<Published> {
    return this.#publisher.publish(() => this.#proposal({ keys: { ...this.#keys, ticketKey: newKey(48) } }, []));
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
    this.#closing = true;
    this.health.close();
    const drained = this.#pool.drain(this.#drainLimits(), graceMs);
    this.#options.listeners.closeAll();
    await drained;
  }

  /** Ends everything at once. */
  kill(): void {
    this.#closing = true;
    this.health.close();
    this.#options.listeners.closeAll();
    this.#pool.kill();
  }

  /** Workers that take part in publications: those that serve, and before the first publication those that could. */
  #members(): readonly WorkerHandle[] {
    const first = this.#publisher.committed === null;
    return this.#pool.processes.filter((worker) => first || worker.digests !== null);
  }

  #join(worker: WorkerHandle): Promise<PublicationFault | null> {
    return this.#publisher.join(worker, () => {
      lendAll(worker, this.#options.listeners.held());
    });
  }

  #routingProposal(declared: RoutingPart, intents: ReadonlyMap<string, Intent>, extra: Extra): Proposal {
    const { listeners } = this.#options;
    const { routing, changed } = resolveServices(declared, this.#stored, intents);
    const opened = listeners.open(routing.entrypoints);
    const keys = opened.map(({ key }) => key);
    const proposal = this.#proposal({ ...extra.parts, routing, health: this.health.part(routing) }, changed);
    return {
      ...proposal,
      drainMs: extra.drainMs ?? {},
      persist: (revision) => {
        proposal.persist(revision);
        this.#declared = declared;
      },
      lend: (worker) => lendAll(worker, opened),
      abandoned: () => {
        listeners.close(keys);
        this.#pool.tellAll({ kind: 'withdraw', keys });
      },
      acknowledged: () => {
        listeners.close(listeners.unusedBy(routing.entrypoints));
        this.health.follow(routing, extra.proven);
        this.metrics.forget(routing);
      },
    };
  }

  #proposal(parts: Partial<SnapshotParts>, changed: readonly StoredService[]): Proposal {
    const keys = parts.keys ?? this.#keys;
    return {
      parts,
      persist: (revision) => {
        if (revision === this.#publisher.revision && changed.length === 0) return;
        this.#options.store.write({ revision, services: changed, keys });
        this.#keys = keys;
        this.#stored = new Map([...this.#stored, ...changed.map((row) => [row.name, row] as const)]);
      },
    };
  }

  #healthChanged(delayMs = gatherMs): void {
    if (this.#healthDue || this.#closing) return;
    this.#healthDue = true;
    this.#options.clock.after(delayMs, () => this.#publishHealth());
  }

  async #publishHealth(): Promise<void> {
    this.#healthDue = false;
    try {
      await this.#publisher.publish((committed) =>
        // The first publication carries it along.
        committed === null ? null : this.#proposal({ health: this.health.part(committed.parts.routing) }, []),
      );
    } catch (error) {
      this.#options.log.warn('health-not-published', { err: error });
      this.#healthChanged(retryMs);
    }
  }

  #notice(worker: WorkerHandle, notice: Notice): void {
    switch (notice.kind) {
      case 'drained':
        this.#drains.drained(worker.id, notice);
        break;
      case 'ejected':
        this.health.eject(notice.service, notice.address, notice.until);
        break;
      case 'leaf-wanted':
        this.#sendLeaf(worker, notice.name);
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
        let timer: Timer | null = null;
        const late = new Promise<null>((resolve) => {
          timer = this.#options.clock.after(answerMs, () => resolve(null));
        });
        const answer = await Promise.race([worker.ask(question, null), worker.left.then(() => null), late]);
        (timer as Timer | null)?.cancel();
        return answer?.ok ? [worker, answer.value] : null;
      }),
    );
    return answers.filter((each) => each !== null);
  }

  #drainLimits(): DrainLimits {
    const { limits } = this.snapshot.parts.routing.settings;
    return { requestsMs: limits.drainMs, streamsMs: limits.streamDrainMs };
  }
}

export interface Wish {
  /** Overrides the drain limits of the generation that is replaced; null: as configured. */
  readonly drainMs: number | null;
  /** Addresses that just passed a probe. */
  readonly proven: readonly string[];
  onHold(): void;
}

interface Extra {
  readonly parts?: Partial<SnapshotParts>;
  readonly proven?: ReadonlyMap<string, readonly string[]>;
  readonly drainMs?: Readonly<Record<string, number>>;
}

function lendAll(worker: WorkerChannel, listeners: readonly HeldListener[]): void {
  for (const { key, handle } of listeners) worker.lend(key, handle);
}

const newKey = (bytes: number): string => randomBytes(bytes).toString('base64');
