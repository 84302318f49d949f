// Which retired generations still have work in which workers: the truth behind "drained".
// Invariant: a generation is drained when every worker that served it has said so or is gone; nothing is expected of
// workers that never had it.
import type { Clock } from '../base/clock.ts';
import type { Snapshot } from '../model/snapshot.ts';
import type { Notice } from './protocol.ts';

export interface Drain {
  readonly service: string;
  readonly generation: number;
  /** Monotonic time of the flip. */
  readonly since: number;
  readonly done: Promise<void>;
  /** Claims ever taken, of the workers that told. */
  claimed: number;
  /** Claims that a deadline ended. */
  forced: number;
  /** Milliseconds from the flip until the last claim was gone; null while draining. */
  tookMs: number | null;
}

interface Waiting extends Drain {
  readonly workers: Set<string>;
  readonly finish: () => void;
}

export class Drains {
  readonly #clock: Clock;
  readonly #waiting = new Set<Waiting>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Called at the decision: these workers are about to retire what `to` no longer has. */
  begin(from: Snapshot, to: Snapshot, workers: readonly string[]): readonly Drain[] {
    const next = new Map(to.parts.routing.services.map((service) => [service.name, service.generation.number]));
    return from.parts.routing.services
      .filter((service) => next.get(service.name) !== service.generation.number)
      .map((service) => this.#expect(service.name, service.generation.number, workers));
  }

  running(): readonly Drain[] {
    return [...this.#waiting];
  }

  drained(worker: string, notice: Extract<Notice, { kind: 'drained' }>): void {
    for (const drain of this.#waiting) {
      if (drain.service !== notice.service || drain.generation !== notice.generation) continue;
      if (!drain.workers.has(worker)) continue;
      drain.claimed += notice.claimed;
      drain.forced += notice.forced;
      this.#gone(drain, worker);
    }
  }

  /** The worker is gone, and with it every claim it had. */
  left(worker: string): void {
    for (const drain of [...this.#waiting]) this.#gone(drain, worker);
  }

  #expect(service: string, generation: number, workers: readonly string[]): Drain {
    let finish = (): void => {};
    const done = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const drain: Waiting = {
      service,
      generation,
      since: this.#clock.monotonic(),
      done,
      claimed: 0,
      forced: 0,
      tookMs: null,
      workers: new Set(workers),
      finish,
    };
    this.#waiting.add(drain);
    if (workers.length === 0) this.#gone(drain, '');
    return drain;
  }

  #gone(drain: Waiting, worker: string): void {
    drain.workers.delete(worker);
    if (drain.workers.size > 0 || !this.#waiting.delete(drain)) return;
    drain.tookMs = this.#clock.monotonic() - drain.since;
    drain.finish();
  }
}
