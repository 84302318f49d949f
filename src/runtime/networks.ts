// Networks: a private one for each app, shared ones that services of several apps join.
// Invariant: only networks with our label are made use of, joined, left or removed; members of others are never touched.
import { Fault } from '../base/fault.ts';
import { type EngineClient, EngineError } from './engine-client.ts';
import { isOurs, type Labels, labelFilter, type Owner, ownerLabels } from './ownership.ts';

export interface Network {
  readonly id: string;
  readonly name: string;
  readonly labels: Labels;
  /** Container ids. */
  readonly members: readonly string[];
}

interface NetworkAnswer {
  readonly Id: string;
  readonly Name: string;
  readonly Labels: Labels | null;
  readonly Containers?: Readonly<Record<string, unknown>> | null;
}

export class Networks {
  readonly #client: EngineClient;
  readonly #owner: Owner;

  constructor(client: EngineClient, owner: Owner) {
    this.#client = client;
    this.#owner = owner;
  }

  async find(name: string): Promise<Network | null> {
    try {
      return networkOf(await this.#client.json<NetworkAnswer>({ method: 'GET', path: `/networks/${name}` }));
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return null;
      throw error;
    }
  }

  /** There, and ours. `internal`: without a way out. */
  async ensure(name: string, labels: Labels, internal = false): Promise<void> {
    const found = await this.find(name);
    if (found === null) {
      // Two deploys at once may both find nothing: the second one's name is taken then, by the first.
      const json = { Name: name, Driver: 'bridge', CheckDuplicate: true, Internal: internal, Labels: labels };
      try {
        await this.#client.json({ method: 'POST', path: '/networks/create', json });
        return;
      } catch (error) {
        if (!(error instanceof EngineError) || error.status !== 409) throw error;
        await this.#verified(name);
        return;
      }
    }
    this.#verify(name, found);
  }

  async join(name: string, container: string, aliases: readonly string[]): Promise<void> {
    const network = await this.#verified(name);
    if (network.members.includes(container)) return;
    const json = { Container: container, EndpointConfig: { Aliases: aliases } };
    await this.#client.done({ method: 'POST', path: `/networks/${name}/connect`, json });
  }

  async leave(name: string, container: string): Promise<void> {
    const network = await this.find(name);
    if (network === null || !network.members.includes(container)) return;
    this.#verify(name, network);
    await this.#client.done({
      method: 'POST',
      path: `/networks/${name}/disconnect`,
      json: { Container: container, Force: false },
    });
  }

  /** Ours, by name. */
  async list(): Promise<readonly Network[]> {
    const query = { filters: labelFilter(ownerLabels(this.#owner)) };
    const found = await this.#client.json<readonly NetworkAnswer[]>({ method: 'GET', path: '/networks', query });
    return found.map(networkOf).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Not an error when somebody is still in it, or when it is gone. */
  async removeUnused(name: string): Promise<boolean> {
    const network = await this.find(name);
    if (network === null) return true;
    this.#verify(name, network);
    if (network.members.length > 0) return false;
    try {
      await this.#client.done({ method: 'DELETE', path: `/networks/${name}` });
      return true;
    } catch (error) {
      if (error instanceof EngineError && (error.status === 403 || error.status === 409)) return false;
      if (error instanceof EngineError && error.status === 404) return true;
      throw error;
    }
  }

  async #verified(name: string): Promise<Network> {
    const network = await this.find(name);
    if (network === null) throw new EngineError(404, `network ${name} is gone`);
    this.#verify(name, network);
    return network;
  }

  #verify(name: string, { labels }: Network): void {
    if (isOurs(labels, this.#owner)) return;
    throw new Fault('runtime-refused', `network ${name} was not made by this installation; it is left alone`);
  }
}

function networkOf({ Id, Name, Labels, Containers }: NetworkAnswer): Network {
  return { id: Id, name: Name, labels: Labels ?? {}, members: Object.keys(Containers ?? {}) };
}
