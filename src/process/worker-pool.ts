// The workers: one process a slot, started, replaced when it dies, exchanged one by one on request, drained at the end.
// Invariant: a slot has at most one process that is meant to stay; a process serves nothing before it joined.
import type { Clock } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import type { Log, LogLevel } from '../base/log.ts';
import type { PublicationFault } from '../model/publication.ts';
import type { DrainLimits, Notice, ToWorker } from './protocol.ts';
import { WorkerHandle } from './worker-handle.ts';
import { forkWorker, type SpareWorker } from './worker-process.ts';

export interface WorkerPoolDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** The program to fork; becomes a worker by its first argument. */
  readonly program: string;
  /** Used for the first worker, when there is one. */
  readonly spare: SpareWorker | null;
  readonly slots: number;
  logLevel(): LogLevel;
  /** Gives a booted worker what it serves; a fault when it did not take it. */
  join(worker: WorkerHandle): Promise<PublicationFault | null>;
  onNotice(worker: WorkerHandle, notice: Notice): void;
  /** It is about to be asked to finish, because another one serves in its place. */
  onReplaced(worker: WorkerHandle): void;
  onLeft(worker: WorkerHandle): void;
}

/** A worker that does not come up within this time never will. */
const bootMs = 15_000;
const pingMs = 2000;
/**
 * A worker that misses this many in a row stands still, and so do its connections. Counted instead of timed: when it is
 * this process that stood still, the answers are there before the next count.
 */
const missedPings = 5;
/** A process that lived this long did not die of its start. */
const settledMs = 10_000;
const firstBackoffMs = 100;
const longestBackoffMs = 10_000;

interface Slot {
  readonly number: number;
  worker: WorkerHandle | null;
  restarts: number;
  backoffMs: number;
}

export class WorkerPool {
  readonly #deps: WorkerPoolDeps;
  readonly #slots: readonly Slot[];
  /** Everything that runs, old processes that still drain included. */
  readonly #processes = new Set<WorkerHandle>();
  #closing = false;

  constructor(deps: WorkerPoolDeps) {
    this.#deps = deps;
    this.#slots = Array.from({ length: deps.slots }, (_, number) => ({
      number,
      worker: null,
      restarts: 0,
      backoffMs: 0,
    }));
  }

  /** Every process, oldest first. */
  get processes(): readonly WorkerHandle[] {
    return [...this.#processes];
  }

  /** Of all slots together. */
  get restarts(): number {
    return this.#slots.reduce((total, slot) => total + slot.restarts, 0);
  }

  restartsOf(worker: WorkerHandle): number {
    return this.#slots[worker.slot]?.restarts ?? 0;
  }

  /** Forks all slots; resolves when every one is ready to be given its first snapshot. They do not join by themselves. */
  async boot(): Promise<void> {
    const workers = this.#slots.map((slot) => this.#fork(slot));
    await Promise.all(workers.map((worker) => this.#booted(worker)));
  }

  /** The workers of `boot` serve now: from here on a death is followed by a restart. */
  serving(): void {
    for (const slot of this.#slots) {
      if (slot.worker === null) continue;
      slot.worker.state = 'ready';
      this.#guard(slot, slot.worker);
    }
  }

  /** Exchanges the processes one by one: the new one serves before the old one stops accepting. */
  async replaceAll(limits: DrainLimits): Promise<number> {
    let replaced = 0;
    for (const slot of this.#slots) {
      if (this.#closing) break;
      const old = slot.worker;
      const next = this.#fork(slot);
      const fault = await this.#bring(next);
      if (fault !== null) {
        next.kill();
        slot.worker = old;
        // The old one may have died meanwhile, when it was not the slot's to restart.
        if (old === null || old.ending !== null) this.#restart(slot, next);
        throw new Fault('publish-refused', `the new worker does not serve (${fault.detail}); the others go on`);
      }
      this.#guard(slot, next);
      if (old !== null) {
        old.state = 'leaving';
        this.#deps.onReplaced(old);
        this.#leave(old, limits);
      }
      replaced++;
    }
    return replaced;
  }

  tellAll(message: ToWorker): void {
    for (const worker of this.#processes) worker.tell(message);
  }

  /** Lets every worker finish; who has not by `limits` plus a moment is killed. Resolves when all are gone. */
  async drain(limits: DrainLimits, graceMs: number): Promise<void> {
    this.#closing = true;
    for (const worker of this.#processes) this.#leave(worker, limits);
    const timer = this.#deps.clock.after(Math.max(limits.requestsMs, limits.streamsMs) + graceMs, () => this.kill());
    await Promise.all([...this.#processes].map((worker) => worker.left));
    timer.cancel();
  }

  kill(): void {
    this.#closing = true;
    for (const worker of this.#processes) worker.kill();
  }

  #fork(slot: Slot): WorkerHandle {
    const deps = this.#deps;
    const worker = new WorkerHandle(
      {
        slot: slot.number,
        workers: deps.slots,
        logLevel: deps.logLevel(),
        process: deps.spare?.take() ?? forkWorker(deps.program),
      },
      deps.onNotice,
    );
    slot.worker = worker;
    this.#processes.add(worker);
    worker.left.then(() => {
      this.#processes.delete(worker);
      deps.onLeft(worker);
    });
    return worker;
  }

  /** Kills a worker that does not answer, from its first commit to its end. */
  #watch(worker: WorkerHandle): void {
    const { clock, log } = this.#deps;
    let missed = 0;
    const timer = clock.every(pingMs, () => {
      if (missed === 0) {
        worker.ask('ping', null).then(() => {
          missed = 0;
        });
      }
      if (missed++ < missedPings) return;
      log.error('worker-silent', { slot: worker.slot, pid: worker.pid });
      worker.kill();
    });
    worker.left.then(() => timer.cancel());
  }

  async #booted(worker: WorkerHandle): Promise<void> {
    const timer = this.#deps.clock.after(bootMs, () => worker.kill());
    const up = await Promise.race([worker.booted.then(() => true), worker.left.then(() => false)]);
    timer.cancel();
    if (!up) throw new Fault('internal', `worker ${worker.id} ended while starting (${worker.ending})`);
  }

  async #bring(worker: WorkerHandle): Promise<PublicationFault | null> {
    try {
      await this.#booted(worker);
    } catch (error) {
      return { code: 'internal', detail: (error as Fault).message };
    }
    const fault = await this.#deps.join(worker);
    if (fault === null) worker.state = 'ready';
    return fault;
  }

  /** Restarts the slot when this process dies without having been asked to leave. */
  #guard(slot: Slot, worker: WorkerHandle): void {
    this.#watch(worker);
    worker.left.then(() => {
      if (slot.worker !== worker || worker.state === 'leaving' || this.#closing) return;
      this.#deps.log.error('worker-died', { slot: slot.number, pid: worker.pid, ending: worker.ending });
      this.#restart(slot, worker);
    });
  }

  #restart(slot: Slot, dead: WorkerHandle): void {
    slot.worker = null;
    slot.restarts++;
    const settled = Date.now() - dead.startedAt > settledMs;
    const delayMs = settled ? 0 : slot.backoffMs;
    slot.backoffMs = settled
      ? firstBackoffMs
      : Math.min(Math.max(slot.backoffMs * 2, firstBackoffMs), longestBackoffMs);
    this.#deps.clock.after(delayMs, () => this.#revive(slot));
  }

  async #revive(slot: Slot): Promise<void> {
    if (this.#closing || slot.worker !== null) return;
    const worker = this.#fork(slot);
    const fault = await this.#bring(worker);
    if (fault === null) {
      this.#deps.log.info('worker-replaced', { slot: slot.number, pid: worker.pid });
      this.#guard(slot, worker);
      return;
    }
    worker.kill();
    await worker.left;
    if (this.#closing) return;
    this.#deps.log.error('worker-start-failed', { slot: slot.number, code: fault.code, detail: fault.detail });
    this.#restart(slot, worker);
  }

  #leave(worker: WorkerHandle, limits: DrainLimits): void {
    worker.state = 'leaving';
    worker.tell({ kind: 'drain', limits });
  }
}
