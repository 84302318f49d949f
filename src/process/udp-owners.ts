// Which worker owns the socket of which UDP entrypoint, and telling the workers.
// Invariant: an address has one owner at a time, as long as there is a worker that serves; an owner keeps what it has until
// it leaves, also over a configuration that names the address no more: it may still be letting its flows end.
import type { Entrypoint } from '../model/snapshot.ts';
import { assignOwners } from '../model/udp-owner.ts';
import { listenerKey } from './listener-key.ts';
import type { WorkerChannel } from './worker-handle.ts';

export class UdpOwners {
  readonly #candidates: () => readonly WorkerChannel[];
  #keys: readonly string[] = [];
  #owners: ReadonlyMap<string, string> = new Map();
  /** What each worker was told last, as one text. */
  readonly #told = new Map<string, string>();
  #closed = false;

  /** `candidates`: workers that serve and are to stay, in order of preference. */
  constructor(candidates: () => readonly WorkerChannel[]) {
    this.#candidates = candidates;
  }

  /**
   * The UDP addresses of these entrypoints have owners from now on. Before a publication: those served now and those to be
   * published, so that a worker knows in `prepare` what it has to bind.
   */
  follow(...routings: readonly (readonly Entrypoint[])[]): void {
    const udp = routings.flat().filter(({ protocol }) => protocol === 'udp');
    this.#keys = [...new Set(udp.map(listenerKey))];
    this.settle();
  }

  /** Gives what has no owner (any more) to a worker that is there. */
  settle(): void {
    if (this.#closed) return;
    const workers = this.#candidates();
    const ids = workers.map(({ id }) => id);
    const kept = [...this.#owners].filter(([, id]) => ids.includes(id));
    this.#owners = new Map([...kept, ...assignOwners(this.#keys, ids, this.#owners)]);
    for (const worker of workers)
      this.#tell(
        worker,
        this.#keys.filter((key) => this.#owners.get(key) === worker.id),
      );
    for (const id of this.#told.keys()) if (!ids.includes(id)) this.#told.delete(id);
  }

  /** This worker is being replaced: it closes what it owns, and the next owner binds. */
  leaving(worker: WorkerChannel): void {
    if (this.#closed) return;
    this.#tell(worker, []);
    this.settle();
  }

  /** Everything ends: nobody takes over from anybody. */
  close(): void {
    this.#closed = true;
  }

  #tell(worker: WorkerChannel, keys: readonly string[]): void {
    const text = keys.join('\n');
    if ((this.#told.get(worker.id) ?? '') === text) return;
    this.#told.set(worker.id, text);
    worker.tell({ kind: 'own', keys });
  }
}
