// The flows of one UDP entrypoint: found by client, and in the order of their last datagram.
// Invariant: `oldest` is always the flow that has been silent for the longest time; finding, moving, adding and removing a
// flow cost the same however many there are.

/** What a flow carries for the table, which alone writes it. */
export class TableEntry<F> {
  /** Client address and port. */
  readonly key: string;
  /** When the last datagram passed in either direction. */
  lastAt = 0;
  older: F | null = null;
  newer: F | null = null;

  constructor(key: string) {
    this.key = key;
  }
}

export class FlowTable<F extends TableEntry<F>> {
  readonly #flows = new Map<string, F>();
  #oldest: F | null = null;
  #newest: F | null = null;

  get size(): number {
    return this.#flows.size;
  }

  get oldest(): F | null {
    return this.#oldest;
  }

  get(key: string): F | undefined {
    return this.#flows.get(key);
  }

  /** The key must be free. */
  add(flow: F, now: number): void {
    this.#flows.set(flow.key, flow);
    flow.lastAt = now;
    this.#append(flow);
  }

  /** A datagram passed. */
  touch(flow: F, now: number): void {
    flow.lastAt = now;
    if (flow === this.#newest) return;
    this.#unlink(flow);
    this.#append(flow);
  }

  /** Removing what is not (or no longer) there is harmless. */
  remove(flow: F): void {
    if (this.#flows.get(flow.key) !== flow) return;
    this.#flows.delete(flow.key);
    this.#unlink(flow);
  }

  /** Oldest first, as they are now: flows may be removed meanwhile. */
  all(): readonly F[] {
    const flows: F[] = [];
    for (let flow = this.#oldest; flow !== null; flow = flow.newer) flows.push(flow);
    return flows;
  }

  #append(flow: F): void {
    flow.older = this.#newest;
    flow.newer = null;
    if (this.#newest === null) this.#oldest = flow;
    else this.#newest.newer = flow;
    this.#newest = flow;
  }

  #unlink(flow: F): void {
    const { older, newer } = flow;
    if (older === null) this.#oldest = newer;
    else older.newer = newer;
    if (newer === null) this.#newest = older;
    else newer.older = older;
    flow.older = null;
    flow.newer = null;
  }
}
