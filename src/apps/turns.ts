// Whose turn it is: one operation of an app at a time, at most one waits.
// Invariant: whoever loses is told by whom; a removal is never superseded, and nothing begins behind it.
import { Fault } from '../base/fault.ts';
import type { DeployKind } from './state.ts';

/** Something that has its turn. */
export interface Operation {
  readonly kind: DeployKind;
  /** Gives up, if nothing of it is decided. */
  cancel(fault: Fault): void;
}

interface Waiting {
  readonly kind: DeployKind;
  readonly go: () => void;
  readonly lose: (fault: Fault) => void;
}

/** These do not wait for something that may be thrown away anyway. */
const urgent: ReadonlySet<DeployKind> = new Set(['rollback', 'remove']);

export class Turns {
  readonly #app: string;
  #running: Operation | null = null;
  #busy = false;
  #waiting: Waiting | null = null;

  constructor(app: string) {
    this.#app = app;
  }

  get idle(): boolean {
    return !this.#busy && this.#waiting === null;
  }

  /** What has its turn, or waits for it. */
  get kinds(): readonly DeployKind[] {
    return [this.#running?.kind ?? null, this.#waiting?.kind ?? null].filter((kind) => kind !== null);
  }

  /** The operation runs when its turn has come. Rejects with `deploy-superseded` when a later one took its place. */
  async take<T>(kind: DeployKind, onWait: () => void, run: (started: (operation: Operation) => void) => Promise<T>) {
    if (this.#running?.kind === 'remove' || this.#waiting?.kind === 'remove') {
      throw new Fault('deploy-refused', `${this.#app} is being removed`);
    }
    if (this.#busy) await this.#wait(kind, onWait);
    this.#busy = true;
    try {
      return await run((operation) => {
        this.#running = operation;
        // Who came while it was still being looked at could not tell it.
        const next = this.#waiting;
        if (next !== null && urgent.has(next.kind)) operation.cancel(this.#lost(next.kind));
      });
    } finally {
      this.#running = null;
      this.#busy = false;
      const next = this.#waiting;
      this.#waiting = null;
      if (next !== null) {
        // Nobody slips in between.
        this.#busy = true;
        next.go();
      }
    }
  }

  #wait(kind: DeployKind, onWait: () => void): Promise<void> {
    const lost = this.#lost(kind);
    this.#waiting?.lose(lost);
    if (urgent.has(kind)) this.#running?.cancel(lost);
    onWait();
    return new Promise((go, lose) => {
      this.#waiting = { kind, go, lose };
    });
  }

  #lost(kind: DeployKind): Fault {
    return new Fault('deploy-superseded', `superseded by a later ${kind} of ${this.#app}`);
  }
}
