// The supervisor's end of one worker: the process, its questions and answers, and its end.
// Invariant: every question settles, by an answer or by the end of the process; `left` resolves exactly once, after the
// kernel says that the process is gone.
import type { ChildProcess, SendHandle } from 'node:child_process';
import type { LogLevel } from '../base/log.ts';
import type { PartName } from '../model/snapshot.ts';
import type { FaultMessage, FromWorker, Notice, ProcessMetrics, Question, Questions, ToWorker } from './protocol.ts';

export type Answer<Q extends Question> =
  | { readonly ok: true; readonly value: Questions[Q]['answer'] }
  | { readonly ok: false; readonly fault: FaultMessage };

/** What a publication needs of a worker; tests put a scripted one in its place. */
export interface WorkerChannel {
  readonly id: string;
  /** Digests of the parts that the worker serves; null before its first commit. */
  digests: Readonly<Record<PartName, string>> | null;
  readonly left: Promise<void>;
  /** For those who care for a while only: a promise would keep every one of them. Returns what ends the interest. */
  onLeft(listener: () => void): () => void;
  /** A worker that leaves first has refused. */
  ask<Q extends Question>(question: Q, ask: Questions[Q]['ask']): Promise<Answer<Q>>;
  tell(message: ToWorker): void;
  lend(key: string, handle: SendHandle): void;
  kill(): void;
}

export interface WorkerStart {
  readonly slot: number;
  readonly workers: number;
  readonly logLevel: LogLevel;
  readonly process: ChildProcess;
}

export class WorkerHandle implements WorkerChannel {
  readonly id: string;
  readonly pid: number;
  readonly slot: number;
  readonly startedAt: number;
  digests: Readonly<Record<PartName, string>> | null = null;
  revision = 0;
  state: 'starting' | 'ready' | 'leaving' = 'starting';
  /** Its counters when it said good-bye, or when last asked. */
  lastMetrics: ProcessMetrics = [];
  readonly booted: Promise<void>;
  readonly left: Promise<void>;
  readonly #child: ChildProcess;
  readonly #onNotice: (worker: WorkerHandle, notice: Notice) => void;
  readonly #pending = new Map<number, (answer: Answer<Question>) => void>();
  readonly #leftListeners = new Set<() => void>();
  #gone = false;
  #lastId = 0;

  constructor(start: WorkerStart, onNotice: (worker: WorkerHandle, notice: Notice) => void) {
    this.slot = start.slot;
    this.startedAt = Date.now();
    this.#onNotice = onNotice;
    this.#child = start.process;
    this.pid = this.#child.pid ?? 0;
    this.id = `${start.slot}/${this.pid}`;
    let booted = (): void => {};
    this.booted = new Promise((resolve) => {
      booted = resolve;
    });
    this.#child.on('message', (message) => this.#take(message as FromWorker, booted));
    // Sending to a process that just died reports here; its end is what counts.
    this.#child.on('error', () => {});
    this.left = new Promise((resolve) => {
      const leave = (): void => {
        this.#leave();
        resolve();
      };
      this.#child.once('exit', leave);
      if (this.#child.pid === undefined) this.#child.once('error', leave);
    });
    this.tell({ kind: 'start', slot: start.slot, workers: start.workers, logLevel: start.logLevel });
  }

  /** How the process ended; null while it lives. */
  get ending(): string | null {
    const { exitCode, signalCode } = this.#child;
    if (signalCode !== null) return `signal ${signalCode}`;
    return exitCode === null ? null : `exit code ${exitCode}`;
  }

  onLeft(listener: () => void): () => void {
    this.#leftListeners.add(listener);
    return () => this.#leftListeners.delete(listener);
  }

  ask<Q extends Question>(question: Q, ask: Questions[Q]['ask']): Promise<Answer<Q>> {
    if (this.#gone) return Promise.resolve(goneAnswer);
    const id = ++this.#lastId;
    return new Promise((resolve) => {
      this.#pending.set(id, resolve as (answer: Answer<Question>) => void);
      this.tell({ kind: question, id, ask } as ToWorker);
    });
  }

  tell(message: ToWorker): void {
    if (this.#child.connected) this.#child.send(message, ignoreSendError);
  }

  lend(key: string, handle: SendHandle): void {
    const message: ToWorker = { kind: 'listener', key };
    if (this.#child.connected) this.#child.send(message, handle, ignoreSendError);
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }

  #leave(): void {
    this.#gone = true;
    // Those who watch hear of the end before their questions are answered by it.
    for (const listener of this.#leftListeners) listener();
    this.#leftListeners.clear();
    for (const resolve of this.#pending.values()) resolve(goneAnswer);
    this.#pending.clear();
  }

  #take(message: FromWorker, booted: () => void): void {
    if (message.kind === 'booted') booted();
    else if (message.kind === 'answer') {
      const resolve = this.#pending.get(message.id);
      this.#pending.delete(message.id);
      const { fault } = message;
      resolve?.(
        fault === null ? { ok: true, value: message.answer as Questions[Question]['answer'] } : { ok: false, fault },
      );
    } else this.#onNotice(this, message);
  }
}

const goneAnswer = { ok: false, fault: { code: 'publish-refused', detail: 'the worker is gone' } } as const;

/** A send that fails means a worker that ends, and `left` tells that. */
function ignoreSendError(): void {}
