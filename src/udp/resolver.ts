// Numeric addresses of backends that are configured by name, without asking the system once a flow.
// Invariant: one question at a time for each name; an answer is used for `keepMs` and never longer.
import { lookup } from 'node:dns';
import { isIP } from 'node:net';
import type { Clock } from '../base/clock.ts';

const keepMs = 5000;

type Listener = (address: string | null) => void;

export class Resolver {
  readonly #clock: Clock;
  readonly #known = new Map<string, { readonly address: string; readonly until: number }>();
  readonly #asked = new Map<string, Listener[]>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The address, when it is known; null: `listener` is told later, null for a name that has none. */
  resolve(host: string, listener: Listener): string | null {
    if (isIP(host) !== 0) return host;
    const known = this.#known.get(host);
    if (known !== undefined && known.until > this.#clock.monotonic()) return known.address;
    const asking = this.#asked.get(host);
    if (asking !== undefined) {
      asking.push(listener);
      return null;
    }
    this.#asked.set(host, [listener]);
    // Nothing tells that a datagram did not arrive, so no other address would be tried: what is asked for first is what
    // names of both families mean on most machines and networks.
    lookup(host, { order: 'ipv4first' }, (error, address) => this.#answered(host, error === null ? address : null));
    return null;
  }

  #answered(host: string, address: string | null): void {
    const listeners = this.#asked.get(host) ?? [];
    this.#asked.delete(host);
    if (address === null) this.#known.delete(host);
    else this.#known.set(host, { address, until: this.#clock.monotonic() + keepMs });
    for (const listener of listeners) listener(address);
  }
}
