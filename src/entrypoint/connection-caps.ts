// How many connections an entrypoint of this worker may have, in all and from one peer.
// Invariant: every `take` that said yes is given back exactly once; a peer without connections costs no memory.

/** Limits are shared out over the workers and rounded up: with N workers a peer may be cut off a little early. */
export function shareOf(limit: number, workers: number): number {
  return Math.ceil(limit / workers);
}

export class ConnectionCaps {
  readonly #peers = new Map<string, number>();
  #total = 0;
  #limit: number;
  #peerLimit: number;

  constructor(limit: number, peerLimit: number) {
    this.#limit = limit;
    this.#peerLimit = peerLimit;
  }

  get total(): number {
    return this.#total;
  }

  /** New limits hold for what comes; what is there stays. */
  limit(limit: number, peerLimit: number): void {
    this.#limit = limit;
    this.#peerLimit = peerLimit;
  }

  /** Null: admitted and counted. Else which limit was in the way. */
  take(peer: string): 'limit' | 'peer-limit' | null {
    if (this.#total >= this.#limit) return 'limit';
    const own = this.#peers.get(peer) ?? 0;
    if (own >= this.#peerLimit) return 'peer-limit';
    this.#peers.set(peer, own + 1);
    this.#total++;
    return null;
  }

  release(peer: string): void {
    const own = this.#peers.get(peer);
    if (own === undefined) return;
    if (own === 1) this.#peers.delete(peer);
    else this.#peers.set(peer, own - 1);
    this.#total--;
  }
}
