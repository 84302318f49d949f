// The ports that the gate takes from this machine's addresses, over time: what is wanted, what could be had, what stands
// in the way.
// Invariant: a port that cannot be taken keeps nothing else from being served, is tried again, and is said in the status.
import type { AppsBook } from '../apps/book.ts';
import type { AppsChange } from '../apps/state.ts';
import type { Clock } from '../base/clock.ts';
import type { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import type { Settings } from '../model/snapshot.ts';
import type { GatePortStatus } from './gate-operations.ts';
import {
  type GatePort,
  gatePorts,
  isLoopback,
  noPorts,
  onionHost,
  type PortContribution,
  type PortGround,
  type Surroundings,
} from './gate-ports.ts';
import { AddressWatch, holdersOf, listenersOf, surroundings } from './machine-addresses.ts';
import type { OnionServices } from './onion-services.ts';
import { portedApps } from './ported-apps.ts';

export interface PortTakeoverOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly book: AppsBook;
  readonly onions: OnionServices;
  /** Another look is due. */
  readonly onChange: () => void;
}

export class PortTakeover {
  readonly #options: PortTakeoverOptions;
  #watch: AddressWatch | null = null;
  #ground: PortGround = noPorts;
  #ports: readonly GatePort[] = [];
  #faults: ReadonlyMap<string, Fault> = new Map();

  constructor(options: PortTakeoverOptions) {
    this.#options = options;
  }

  /** From now on interfaces are followed. */
  follow(): void {
    const { clock, onChange } = this.#options;
    const retry = (): boolean => this.#faults.size > 0;
    this.#watch = new AddressWatch(clock, () => this.#look(this.#ground), retry, onChange);
  }

  close(): void {
    this.#watch?.close();
    this.#options.onions.close();
  }

  contribution(ground: PortGround, change: AppsChange | null, settings: Settings): PortContribution {
    return gatePorts(portedApps(this.#options.book, change), ground, this.#look(ground), settings);
  }

  /** This is served from now on. @param faults  by entrypoint, those that could not be had */
  settled(ground: PortGround, ports: readonly GatePort[], faults: ReadonlyMap<string, Fault>): void {
    for (const [entrypoint, { message }] of faults) {
      if (this.#faults.get(entrypoint)?.message === message) continue;
      this.#options.log.warn('gate-port-not-taken', { entrypoint, why: message, held: holdersOfBind(entrypoint) });
    }
    this.#ground = ground;
    this.#ports = ports;
    this.#faults = faults;
    this.#options.onions.follow(
      ground.tor,
      ports.flatMap(({ app, port, onion }) =>
        onion === null || faults.has(onion) ? [] : [{ app, port, target: `${onionHost}:${port}` }],
      ),
    );
  }

  status(): readonly GatePortStatus[] {
    return this.#ports.map((port) => ({
      app: port.app,
      port: port.port,
      protocol: port.protocol,
      policy: port.policy ?? 'absent',
      rationale: port.rationale,
      addresses: port.entrypoints.filter((name) => !this.#faults.has(name)).map(addressOf),
      faults: port.policy === 'local' ? exposed(port) : [...this.#missing(port), ...this.#onionFaults(port)],
      onion: this.#options.onions.statusOf(port.app, port.port).address,
      origin: port.origin,
    }));
  }

  #onionFaults({ app, port, onion }: GatePort): readonly string[] {
    if (onion === null) return [];
    const why = this.#faults.get(onion)?.message ?? this.#options.onions.statusOf(app, port).fault;
    return why === null ? [] : [`no onion service: ${why}`];
  }

  #missing({ entrypoints }: GatePort): readonly string[] {
    return entrypoints.flatMap((name) => {
      const fault = this.#faults.get(name);
      if (fault === undefined) return [];
      const holders = holdersOfBind(name);
      const who = holders.length === 0 ? '' : `; ${holders.join(', ')} listens there: bind it to 127.0.0.1`;
      return [`${addressOf(name)}: ${fault.message}${who}`];
    });
  }

  #look(ground: PortGround): Surroundings {
    return surroundings(ground.skipInterfaces);
  }
}

const portOf = (entrypoint: string): number => Number(entrypoint.slice(0, entrypoint.indexOf('@')));
const addressOf = (entrypoint: string): string => entrypoint.slice(entrypoint.indexOf('@') + 1);

/** Who keeps us from listening there. */
function holdersOfBind(entrypoint: string): readonly string[] {
  const wanted = addressOf(entrypoint);
  const inTheWay = listenersOf(portOf(entrypoint)).filter(({ address }) => address === '' || address === wanted);
  return holdersOf(new Set(inTheWay.map(({ inode }) => inode)));
}

/** What is for this machine alone must not be reachable from others. */
function exposed({ port, protocol }: GatePort): readonly string[] {
  if (protocol === 'udp') return [];
  const listeners = listenersOf(port).filter(({ address }) => !isLoopback(address));
  if (listeners.length === 0) return [];
  const addresses = [...new Set(listeners.map(({ address }) => address || 'every address'))].join(', ');
  const holders = holdersOf(new Set(listeners.map(({ inode }) => inode)));
  const who = holders.length === 0 ? 'something' : holders.join(', ');
  return [`is for this machine alone, and ${who} listens on ${addresses}: bind it to 127.0.0.1`];
}
