// Publications, one at a time: runs the machine of model/publication over the live workers and the state store.
// Invariant: the committed snapshot is what the state store holds and what every worker serves or will be given before it
// serves anything; it changes at the decision point and nowhere else.
import type { Clock, Timer } from '../base/clock.ts';
import { Fault, type FaultCode } from '../base/fault.ts';
import { digestOf } from '../model/digest.ts';
import { movingServices } from '../model/moves.ts';
import {
  type Move,
  moveDeadlines,
  newPublication,
  type PublicationEffect,
  type PublicationEvent,
  type PublicationFault,
  step,
} from '../model/publication.ts';
import { type PartName, partNames, type Snapshot, type SnapshotDelta, type SnapshotParts } from '../model/snapshot.ts';
import type { Flip, Questions } from './protocol.ts';
import type { Answer, WorkerChannel } from './worker-handle.ts';

/** What to publish, made when its turn has come, from what is committed then. */
export interface Proposal {
  readonly parts: Partial<SnapshotParts>;
  /** Makes it durable. Called once, at the decision point; throws to abort. */
  persist(revision: number): void;
  /** Prepares what workers will need (lends new listeners), right before they are asked. */
  lend?(worker: WorkerChannel): void;
  /** Drain limits of this publication only, by service; others are the services' own. */
  readonly drainMs?: Readonly<Record<string, number>>;
  /** The publication did not happen: undo what making the proposal did. */
  abandoned?(): void;
  /** Every worker serves it; the next publication has not begun. */
  acknowledged?(): void;
}

export interface Published {
  readonly revision: number;
  /** False when everything was as proposed already: nothing was sent or written. */
  readonly changed: boolean;
  readonly flips: readonly Flip[];
  /** From the first hold to the last commit; 0 when nothing was held. */
  readonly holdMs: number;
}

export type StepName = 'prepare' | 'hold' | 'persist' | 'commit' | 'acknowledge' | 'abort';

/** Told before every step; a test ends a process here. Nothing is told to the outside before it returns. */
export interface StepObserver {
  before(step: StepName, workers: readonly WorkerChannel[]): void;
}

export interface PublisherDeps {
  readonly clock: Clock;
  /** Workers that serve, or that are being given their first snapshot. */
  workers(): readonly WorkerChannel[];
  /** Between decision and commit: what the workers are about to retire can be written down. */
  deciding(from: Snapshot | null, to: Snapshot, workers: readonly WorkerChannel[]): void;
  readonly observer: StepObserver | null;
}

export class Publisher {
  #committed: Snapshot | null = null;
  #revision: number;
  #tail: Promise<unknown> = Promise.resolve();
  readonly #deps: PublisherDeps;

  /** `revision`: of the last publication ever, from the state store. */
  constructor(deps: PublisherDeps, revision: number) {
    this.#deps = deps;
    this.#revision = revision;
  }

  get committed(): Snapshot | null {
    return this.#committed;
  }

  /** Of the last publication ever, earlier processes included. */
  get revision(): number {
    return this.#revision;
  }

  /**
   * Queues a publication. `propose` runs when all earlier ones are over; null means there is nothing to do after all.
   * Rejects with a Fault when it was refused, timed out or could not be persisted; then nothing has changed.
   * `onMove` is told when workers are being asked to hold or to commit.
   */
  publish(
    propose: (committed: Snapshot | null) => Proposal | null | Promise<Proposal | null>,
    onMove: (move: Move) => void = () => {},
  ): Promise<Published> {
    return this.#enqueue(async () => {
      const proposal = await propose(this.#committed);
      if (proposal === null) return unchanged(this.#revision);
      const next = this.#next(proposal.parts);
      if (next === null) {
        // The routing may say the same while the stored rows differ (a switch to where it is already).
        proposal.persist(this.#revision);
        return unchanged(this.#revision);
      }
      return await new Run(this.#deps, this.#committed, next, proposal, onMove, () => {
        this.#committed = next;
        this.#revision = next.revision;
      }).done;
    });
  }

  /** Gives a worker that has nothing yet the committed snapshot, between publications. False: it left or refused. */
  join(worker: WorkerChannel, lend: (worker: WorkerChannel) => void): Promise<PublicationFault | null> {
    return this.#enqueue(async () => {
      const snapshot = this.#committed;
      if (snapshot === null) return null;
      lend(worker);
      const prepared = await this.#answer(worker, 'prepare', { delta: deltaFor(worker, snapshot) });
      if (!prepared.ok) return prepared.fault;
      const committed = await this.#answer(worker, 'commit', { drainMs: {} });
      if (!committed.ok) {
        // It may have begun to serve: nothing else is published before it is gone.
        worker.kill();
        await worker.left;
        return committed.fault;
      }
      worker.digests = snapshot.digests;
      return null;
    });
  }

  /** Resolves when nothing is being published. */
  idle(): Promise<unknown> {
    return this.#tail;
  }

  /** Death and silence are refusals. */
  async #answer<M extends Move>(worker: WorkerChannel, move: M, ask: Questions[M]['ask']): Promise<Answer<M>> {
    const died = worker.left.then(() => refusal('publish-refused', `it died during ${move}`));
    const late = after(this.#deps.clock, moveDeadlines[move]);
    const silent = late.over.then(() => refusal('publish-timeout', `no answer to ${move} in time`));
    const answer = await Promise.race([worker.ask(move, ask), died, silent]);
    late.timer.cancel();
    return answer;
  }

  #enqueue<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(task);
    this.#tail = result.catch(() => {});
    return result;
  }

  #next(changes: Partial<SnapshotParts>): Snapshot | null {
    const committed = this.#committed;
    const parts = { ...committed?.parts, ...changes } as SnapshotParts;
    const digests = {} as Record<PartName, string>;
    for (const name of partNames) {
      digests[name] = changes[name] === undefined ? committed!.digests[name] : digestOf(parts[name]);
    }
    if (committed !== null && partNames.every((name) => digests[name] === committed.digests[name])) return null;
    return { revision: this.#revision + 1, parts, digests };
  }
}

/** One publication under way. */
class Run {
  readonly done: Promise<Published>;
  readonly #deps: PublisherDeps;
  readonly #from: Snapshot | null;
  readonly #to: Snapshot;
  readonly #proposal: Proposal;
  readonly #onMove: (move: Move) => void;
  readonly #onDecided: () => void;
  readonly #workers: ReadonlyMap<string, WorkerChannel>;
  readonly #moving: readonly string[];
  readonly #flips: Flip[] = [];
  #state;
  #timer: Timer | null = null;
  #heldAt: number | null = null;
  #settle: (published: Published) => void = () => {};
  #fail: (fault: Fault) => void = () => {};

  constructor(
    deps: PublisherDeps,
    from: Snapshot | null,
    to: Snapshot,
    proposal: Proposal,
    onMove: (move: Move) => void,
    onDecided: () => void,
  ) {
    this.#deps = deps;
    this.#from = from;
    this.#to = to;
    this.#proposal = proposal;
    this.#onMove = onMove;
    this.#onDecided = onDecided;
    this.#workers = new Map(deps.workers().map((worker) => [worker.id, worker]));
    this.#moving = from === null ? [] : movingServices(from.parts.routing, to.parts.routing);
    this.#state = newPublication([...this.#workers.keys()], this.#moving.length > 0);
    this.done = new Promise((resolve, reject) => {
      this.#settle = resolve;
      this.#fail = reject;
    });
    for (const worker of this.#workers.values()) {
      worker.left.then(() => this.#event({ kind: 'left', worker: worker.id }));
    }
    this.#event({ kind: 'begin' });
  }

  #event(event: PublicationEvent): void {
    const { state, effects } = step(this.#state, event);
    this.#state = state;
    for (const effect of effects) this.#run(effect);
  }

  #run(effect: PublicationEffect): void {
    switch (effect.kind) {
      case 'ask':
        this.#ask(effect.move, this.#named(effect.workers), effect.deadlineMs);
        break;
      case 'persist':
        this.#persist();
        break;
      case 'abort':
        this.#timer?.cancel();
        this.#deps.observer?.before('abort', this.#named(effect.workers));
        for (const worker of this.#named(effect.workers)) worker.tell({ kind: 'abort' });
        this.#proposal.abandoned?.();
        break;
      case 'kill':
        for (const worker of this.#named(effect.workers)) worker.kill();
        break;
      case 'finish':
        this.#finish();
    }
  }

  #ask(move: Move, workers: readonly WorkerChannel[], deadlineMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#deps.clock.after(deadlineMs, () => this.#event({ kind: 'deadline', move }));
    this.#deps.observer?.before(move, workers);
    if (move === 'hold') this.#heldAt = this.#deps.clock.monotonic();
    this.#onMove(move);
    for (const worker of workers) {
      this.#question(move, worker).then((answer) => {
        if (!answer.ok) this.#event({ kind: 'refused', move, worker: worker.id, fault: answer.fault });
        else this.#event({ kind: 'agreed', move, worker: worker.id });
      });
    }
  }

  async #question(move: Move, worker: WorkerChannel): Promise<Answer<Move>> {
    switch (move) {
      case 'prepare': {
        this.#proposal.lend?.(worker);
        const answer = await worker.ask('prepare', { delta: deltaFor(worker, this.#to) });
        if (!answer.ok || digestOf(answer.value.digests) === digestOf(this.#to.digests)) return answer;
        return { ok: false, fault: { code: 'publish-refused', detail: `worker ${worker.id} built other data` } };
      }
      case 'hold':
        return worker.ask('hold', { services: this.#moving });
      case 'commit': {
        const answer = await worker.ask('commit', { drainMs: this.#proposal.drainMs ?? {} });
        if (answer.ok) {
          worker.digests = this.#to.digests;
          this.#flips.push(...answer.value.flips);
        }
        return answer;
      }
    }
  }

  #persist(): void {
    this.#timer?.cancel();
    const workers = [...this.#workers.values()];
    this.#deps.observer?.before('persist', workers);
    try {
      this.#proposal.persist(this.#to.revision);
    } catch (error) {
      const fault = error instanceof Fault ? error : new Fault('state-unusable', String(error), { cause: error });
      this.#event({ kind: 'not-persisted', fault: { code: fault.code, detail: fault.message } });
      return;
    }
    this.#onDecided();
    this.#deps.deciding(this.#from, this.#to, this.#named(this.#state.workers));
    this.#event({ kind: 'persisted' });
  }

  #finish(): void {
    this.#timer?.cancel();
    const { fault } = this.#state;
    if (fault !== null) {
      this.#fail(new Fault(fault.code as FaultCode, fault.detail));
      return;
    }
    this.#proposal.acknowledged?.();
    this.#deps.observer?.before('acknowledge', this.#named(this.#state.workers));
    const holdMs = this.#heldAt === null ? 0 : this.#deps.clock.monotonic() - this.#heldAt;
    this.#settle({ revision: this.#to.revision, changed: true, flips: this.#flips, holdMs });
  }

  #named(ids: readonly string[]): WorkerChannel[] {
    return ids.map((id) => this.#workers.get(id)!);
  }
}

function deltaFor(worker: WorkerChannel, snapshot: Snapshot): SnapshotDelta {
  const parts: Partial<Record<PartName, unknown>> = {};
  for (const name of partNames) {
    if (worker.digests?.[name] !== snapshot.digests[name]) parts[name] = snapshot.parts[name];
  }
  return { revision: snapshot.revision, parts: parts as Partial<SnapshotParts>, digests: snapshot.digests };
}

const unchanged = (revision: number): Published => ({ revision, changed: false, flips: [], holdMs: 0 });

const refusal = (code: FaultCode, detail: string) => ({ ok: false, fault: { code, detail } }) as const;

function after(clock: Clock, ms: number): { readonly timer: Timer; readonly over: Promise<void> } {
  let resolve = (): void => {};
  const over = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { timer: clock.after(ms, () => resolve()), over };
}
