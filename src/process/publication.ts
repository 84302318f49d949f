// Publications, one at a time: runs the machine of model/publication over the live workers and the state store.
// Invariant: the committed snapshot is what the state store holds and what every worker serves or will be given before it
// serves anything; it changes at the decision point and nowhere else.
import type { Clock, Timer } from '../base/clock.ts';
import { Fault, type FaultCode } from '../base/fault.ts';
import { digestOfPart } from '../model/digest.ts';
import { type Move, moveDeadlines, type PublicationFault } from '../model/publication.ts';
import { type PartName, partNames, type Snapshot, type SnapshotParts } from '../model/snapshot.ts';
import type { Questions } from './protocol.ts';
import { deltaFor, type Proposal, type PublicationGround, PublicationRun, type Published } from './publication-run.ts';
import type { Answer, WorkerChannel } from './worker-handle.ts';

export class Publisher {
  #committed: Snapshot | null = null;
  #revision: number;
  #tail: Promise<unknown> = Promise.resolve();
  #closed = false;
  readonly #ground: PublicationGround;

  /** `revision`: of the last publication ever, from the state store. */
  constructor(ground: PublicationGround, revision: number) {
    this.#ground = ground;
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
      if (this.#closed) throw new Fault('not-running', 'Turnpike is ending; nothing is changed any more');
      const proposal = await propose(this.#committed);
      if (proposal === null) return unchanged(this.#revision);
      const next = this.#next(proposal.parts);
      if (next === null) {
        // The routing may say the same while the stored rows differ (a switch to where it is already).
        proposal.persist(this.#revision);
        return unchanged(this.#revision);
      }
      return await new PublicationRun(this.#ground, this.#committed, next, proposal, onMove, () => {
        this.#committed = next;
        this.#revision = next.revision;
      }).done;
    });
  }

  /** Gives a worker that has nothing yet the committed snapshot, between publications. False: it left or refused. */
  join(worker: WorkerChannel, lend: (worker: WorkerChannel) => void): Promise<PublicationFault | null> {
    return this.#enqueue(async () => {
      const snapshot = this.#committed;
      if (snapshot === null || this.#closed) return { code: 'not-running', detail: 'nothing is served' };
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

  /** What is under way is finished; nothing new begins. */
  close(): void {
    this.#closed = true;
  }

  /** Silence is a refusal, as death is. */
  async #answer<M extends Move>(worker: WorkerChannel, move: M, ask: Questions[M]['ask']): Promise<Answer<M>> {
    const late = after(this.#ground.clock, moveDeadlines[move]);
    const silent = late.over.then(() => refusal('publish-timeout', `no answer to ${move} in time`));
    const answer = await Promise.race([worker.ask(move, ask), silent]);
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
      digests[name] = changes[name] === undefined ? committed!.digests[name] : digestOfPart(parts[name]);
    }
    if (committed !== null && partNames.every((name) => digests[name] === committed.digests[name])) return null;
    return { revision: this.#revision + 1, parts, digests };
  }
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
