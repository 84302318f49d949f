// Named volumes of apps: made when first needed, kept when their app goes.
// Invariant: a volume of that name without our label is refused, never adopted; nothing here removes one unasked.
import { Fault } from '../base/fault.ts';
import { type EngineClient, EngineError } from './engine-client.ts';
import { type AppMark, appLabels, isOurs, type Labels, labelFilter, type Owner, ownerLabels } from './ownership.ts';

export interface Volume {
  readonly name: string;
  readonly labels: Labels;
}

interface VolumeAnswer {
  readonly Name: string;
  readonly Labels: Labels | null;
}

export class Volumes {
  readonly #client: EngineClient;
  readonly #owner: Owner;

  constructor(client: EngineClient, owner: Owner) {
    this.#client = client;
    this.#owner = owner;
  }

  async find(name: string): Promise<Volume | null> {
    try {
      const { Labels } = await this.#client.json<VolumeAnswer>({ method: 'GET', path: `/volumes/${name}` });
      return { name, labels: Labels ?? {} };
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return null;
      throw error;
    }
  }

  /** There, and ours. Throws a Fault `runtime-refused` when the name is somebody else's. */
  async ensure(name: string, mark: AppMark): Promise<void> {
    const found = await this.find(name);
    if (found === null) {
      const json = { Name: name, Driver: 'local', Labels: appLabels(mark) };
      await this.#client.done({ method: 'POST', path: '/volumes/create', json });
      return;
    }
    if (isOurs(found.labels, this.#owner)) return;
    throw new Fault('runtime-refused', `volume ${name} was not made by this installation; it is left alone`);
  }

  /** Ours, by name. */
  async list(): Promise<readonly Volume[]> {
    const { Volumes: found } = await this.#client.json<{ Volumes: readonly VolumeAnswer[] | null }>({
      method: 'GET',
      path: '/volumes',
      query: { filters: labelFilter(ownerLabels(this.#owner)) },
    });
    return (found ?? [])
      .map(({ Name, Labels }) => ({ name: Name, labels: Labels ?? {} }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** For `leftovers prune` only. */
  async remove(name: string): Promise<void> {
    const found = await this.find(name);
    if (found === null) return;
    if (!isOurs(found.labels, this.#owner)) {
      throw new Fault('runtime-refused', `volume ${name} was not made by this installation; it is left alone`);
    }
    await this.#client.done({ method: 'DELETE', path: `/volumes/${name}` });
  }
}
