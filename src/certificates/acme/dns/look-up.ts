// Looks at the DNS as a CA will: where a name is delegated to, who is in charge of it, what they say.
// Invariant: nothing is cached between two looks, and every look ends within its time.
import { lookup, Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { addressAndPort } from './server-address.ts';

export interface LookUpOptions {
  /** `host:port`; empty: the system's. */
  readonly resolvers: readonly string[];
  readonly timeoutMs: number;
  /** Where the servers in charge of a zone listen. */
  readonly authorityPort: number;
}

export type Sight = 'shown' | 'missing' | 'unreachable';

const maxHops = 8;

export class LookUp {
  readonly #options: LookUpOptions;
  #servers: Promise<readonly string[]> | null = null;

  constructor(options: LookUpOptions) {
    this.#options = options;
  }

  /** Follows CNAMEs, so that a name can be proved through a zone that was made for it (RFC 8555 §8.4). */
  async delegated(name: string): Promise<string> {
    let at = name;
    for (let hop = 0; hop < maxHops; hop++) {
      const next = await this.#ask((resolver) => resolver.resolveCname(at));
      if (next === null || next[0] === undefined) return at;
      at = next[0].toLowerCase().replace(/\.$/, '');
    }
    throw new Error(`${name} is a CNAME that leads on for more than ${maxHops} steps`);
  }

  /** Addresses, with ports, of the servers in charge of a name; empty: they cannot be found out. */
  async authorities(name: string): Promise<readonly string[]> {
    const labels = name.split('.');
    for (let i = 0; i < labels.length - 1; i++) {
      const hosts = await this.#ask((resolver) => resolver.resolveNs(labels.slice(i).join('.')));
      if (hosts === null || hosts.length === 0) continue;
      const addresses = await Promise.all(hosts.map((host) => this.#addressesOf(host)));
      return [...new Set(addresses.flat())].map((address) => withPort(address, this.#options.authorityPort));
    }
    return [];
  }

  /** Does this server, or do the usual ones, show the value among others? @param server  null: the usual ones */
  async sees(name: string, value: string, server: string | null): Promise<Sight> {
    try {
      const resolver = await this.#resolver(server);
      const records = await resolver.resolveTxt(name);
      return records.some((strings) => strings.join('') === value) ? 'shown' : 'missing';
    } catch (error) {
      return isAbsent(error) ? 'missing' : 'unreachable';
    }
  }

  async #addressesOf(host: string): Promise<readonly string[]> {
    const [four, six] = await Promise.all([
      this.#ask((resolver) => resolver.resolve4(host)),
      this.#ask((resolver) => resolver.resolve6(host)),
    ]);
    return [...(four ?? []), ...(six ?? [])];
  }

  /** Null: there is no such record, or nobody could tell. */
  async #ask<T>(question: (resolver: Resolver) => Promise<T>): Promise<T | null> {
    try {
      return await question(await this.#resolver(null));
    } catch {
      return null;
    }
  }

  /** A new one each time: the library below keeps answers. */
  async #resolver(server: string | null): Promise<Resolver> {
    const resolver = new Resolver({ timeout: this.#options.timeoutMs, tries: 2 });
    const servers = server === null ? await this.#configured() : [server];
    if (servers.length > 0) resolver.setServers(servers);
    return resolver;
  }

  /** Resolvers that are named by host are looked up once. */
  #configured(): Promise<readonly string[]> {
    this.#servers ??= Promise.all(this.#options.resolvers.map(withAddress)).catch((error: unknown) => {
      this.#servers = null;
      throw error;
    });
    return this.#servers;
  }
}

/** `host:port` with the host's address. */
async function withAddress(server: string): Promise<string> {
  const { host, port } = addressAndPort(server, 53);
  const address = isIP(host) === 0 ? (await lookup(host)).address : host;
  return withPort(address, port);
}

function withPort(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

function isAbsent(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return code === 'ENOTFOUND' || code === 'ENODATA';
}
