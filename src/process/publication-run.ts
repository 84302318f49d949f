// One publication under way: carries out what the machine of model/publication decides, on live workers and the state store.
// Invariant: settles once; when it rejects nothing has changed, when it resolves every worker serves the new snapshot or is
// gone.
import type { Clock, Timer } from '../base/clock.ts';
import { Fault, type FaultCode } from '../base/fault.ts';
import { digestOf } from '../model/digest.ts';
import { movingServices } from '../model/moves.ts';
import { type SealedPart, sealPart } from '../model/part-code.ts';
import {
  type Move,
  newPublication,
  type PublicationEffect,
  type PublicationEvent,
  step,
} from '../model/publication.ts';
import { type PartName, partNames, type SealedDelta, type Snapshot, type SnapshotParts } from '../model/snapshot.ts';
import type { Flip } from './protocol.ts';
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

export interface PublicationGround {
  readonly clock: Clock;
  /** Workers that serve, or that are being given their first snapshot. */
  workers(): readonly WorkerChannel[];
  /** Between decision and commit: what the workers are about to retire can be written down. */
  deciding(from: Snapshot | null, to: Snapshot, workers: readonly WorkerChannel[]): void;
  readonly observer: StepObserver | null;
}

export class PublicationRun {
  readonly done: Promise<Published>;
  readonly #ground: PublicationGround;
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
  readonly #unwatch: readonly (() => void)[];
  #heldAt: number | null = null;
  #settle: (published: Published) => void = () => {};
  #fail: (fault: Fault) => void = () => {};

  constructor(
    ground: PublicationGround,
    from: Snapshot | null,
    to: Snapshot,
    proposal: Proposal,
    onMove: (move: Move) => void,
    onDecided: () => void,
  ) {
    this.#ground = ground;
    this.#from = from;
    this.#to = to;
    this.#proposal = proposal;
    this.#onMove = onMove;
    this.#onDecided = onDecided;
    this.#workers = new Map(ground.workers().map((worker) => [worker.id, worker]));
    this.#moving = from === null ? [] : movingServices(from.parts.routing, to.parts.routing);
    this.#state = newPublication([...this.#workers.keys()], this.#moving.length > 0);
    this.done = new Promise((resolve, reject) => {
      this.#settle = resolve;
      this.#fail = reject;
    });
    this.#unwatch = [...this.#workers.values()].map((worker) =>
      worker.onLeft(() => this.#event({ kind: 'left', worker: worker.id })),
    );
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
        this.#ground.observer?.before('abort', this.#named(effect.workers));
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
    this.#timer = this.#ground.clock.after(deadlineMs, () => this.#event({ kind: 'deadline', move }));
    this.#ground.observer?.before(move, workers);
    if (move === 'hold') this.#heldAt = this.#ground.clock.monotonic();
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
    this.#ground.observer?.before('persist', workers);
    try {
      this.#proposal.persist(this.#to.revision);
    } catch (error) {
      const fault = error instanceof Fault ? error : new Fault('state-unusable', String(error), { cause: error });
      this.#event({ kind: 'not-persisted', fault: { code: fault.code, detail: fault.message } });
      return;
    }
    this.#onDecided();
    this.#ground.deciding(this.#from, this.#to, this.#named(this.#state.workers));
    this.#event({ kind: 'persisted' });
  }

  #finish(): void {
    this.#timer?.cancel();
    for (const unwatch of this.#unwatch) unwatch();
    const { fault } = this.#state;
    if (fault !== null) {
      this.#fail(new Fault(fault.code as FaultCode, fault.detail));
      return;
    }
    this.#proposal.acknowledged?.();
    this.#ground.observer?.before('acknowledge', this.#named(this.#state.workers));
    const holdMs = this.#heldAt === null ? 0 : this.#ground.clock.monotonic() - this.#heldAt;
    this.#settle({ revision: this.#to.revision, changed: true, flips: this.#flips, holdMs });
  }

  #named(ids: readonly string[]): WorkerChannel[] {
    return ids.map((id) => this.#workers.get(id)!);
  }
}

/** Only the parts that the worker does not have. */
export function deltaFor(worker: WorkerChannel, snapshot: Snapshot): SealedDelta {
  const parts: Partial<Record<PartName, SealedPart>> = {};
  for (const name of partNames) {
    if (worker.digests?.[name] !== snapshot.digests[name]) parts[name] = sealPart(snapshot.parts[name]);
  }
  return { revision: snapshot.revision, parts, digests: snapshot.digests };
}
