// What may be published next, made from the configuration file, apps, the operators' wishes and the stored state.
// Invariant: what this holds in memory is what the state store holds: both change at the decision point, together.
import { randomBytes } from 'node:crypto';
import type { AppsBook } from '../apps/book.ts';
import { Reservations } from '../apps/reservations.ts';
import { type AppGround, compose, noGround } from '../apps/routing.ts';
import type { AppsChange } from '../apps/state.ts';
import { Fault } from '../base/fault.ts';
import { type FrontedPort, frontedPorts, inheritGates } from '../model/gate-inheritance.ts';
import type {
  CertificatesPart,
  ChallengesPart,
  Entrypoint,
  GatePart,
  HealthPart,
  KeysPart,
  RoutingPart,
  SnapshotParts,
} from '../model/snapshot.ts';
import { noPorts, type PortContribution, type PortGround, withPorts } from './gate-ports.ts';
import type { HeldListener, Listeners, Taken } from './listeners.ts';
import type { PortTakeover } from './port-takeover.ts';
import type { Proposal } from './publication-run.ts';
import { type Intent, resolveServices, type StoredService } from './service-state.ts';
import type { StateStore } from './state-store.ts';
import type { WorkerChannel } from './worker-handle.ts';

/** What the configuration file says, ready to be served. */
export interface Wanted {
  /** Generations hold the file's addresses. */
  readonly routing: RoutingPart;
  readonly certificates: CertificatesPart;
  /** Asked when its turn comes: what was set at run time may change until then. */
  readonly gate: () => GatePart;
  /** What the file says about apps in general. */
  readonly apps: AppGround;
  /** What it says about ports of apps that the gate takes. */
  readonly ports: PortGround;
}

/** What a new routing means beyond the snapshot. */
export interface RoutingEffects {
  healthOf(routing: RoutingPart): HealthPart;
  /** UDP sockets that workers have to bind, or to keep, from now on. */
  own(...entrypoints: readonly (readonly Entrypoint[])[]): void;
  /** These listeners were lent and will not be used. */
  withdraw(keys: readonly string[]): void;
  /** Every worker serves it. `proven`: addresses that just passed a probe, by service. */
  adopted(routing: RoutingPart, proven: ReadonlyMap<string, readonly string[]>): void;
}

/** What an operator wants of one service. */
export interface Wish {
  readonly service: string;
  readonly intent: Intent;
  /** Overrides the drain limits of the generation that is replaced; null: as configured. */
  readonly drainMs: number | null;
  /** Addresses that just passed a probe. */
  readonly proven: readonly string[];
}

/** What a routing is made from. */
interface RoutingWish {
  readonly declared: RoutingPart;
  readonly ground: AppGround;
  readonly ports: PortGround;
  readonly apps: AppsChange | null;
  readonly wish: Wish | null;
}

export class Proposals {
  readonly #store: StateStore;
  readonly #listeners: Listeners;
  readonly #apps: AppsBook;
  readonly #takeover: PortTakeover;
  readonly #reservations: Reservations;
  readonly #effects: RoutingEffects;
  #revision: number;
  #stored: ReadonlyMap<string, StoredService>;
  #keys: KeysPart;
  /** In memory only: an order that a restart interrupts begins anew. */
  #challenges: ChallengesPart = { http: [], alpn: [] };
  #declared: RoutingPart | null = null;
  #ground: AppGround = noGround;
  #portGround: PortGround = noPorts;
  #served: readonly Entrypoint[] = [];

  constructor(
    store: StateStore,
    listeners: Listeners,
    apps: AppsBook,
    takeover: PortTakeover,
    effects: RoutingEffects,
  ) {
    this.#store = store;
    this.#listeners = listeners;
    this.#apps = apps;
    this.#takeover = takeover;
    this.#reservations = new Reservations(apps);
    this.#effects = effects;
    this.#revision = store.revision;
    this.#stored = store.services();
    this.#keys = store.keys ?? { ticketKey: newKey(48), cookieKey: newKey(32) };
  }

  /** The routing of the file that is served, without what operators changed. */
  get declared(): RoutingPart {
    if (this.#declared === null) throw new Fault('not-running', 'nothing is served yet');
    return this.#declared;
  }

  stored(service: string): StoredService | null {
    return this.#stored.get(service) ?? null;
  }

  /** What `file` would serve. Throws `reservation-conflict` when an app has something of it. */
  preview(declared: RoutingPart, ground: AppGround, portGround: PortGround): RoutingPart {
    this.#refuseRivals(declared, ground);
    const ports = this.#takeover.contribution(portGround, null, declared.settings);
    const composed = compose(declared, this.#apps.active(), ground);
    const instances = new Map([...composed.instances, ...ports.instances]);
    const whole = withPorts(composed.routing, ports, ports.entrypoints);
    const { routing } = resolveServices(whole, this.#stored, new Map(), instances);
    return withGates(routing, instances, ground, ports.local);
  }

  /** Another configuration. */
  file({ routing, certificates, gate, apps, ports }: Wanted): Proposal {
    this.#refuseRivals(routing, apps);
    const parts = { certificates, gate: gate(), challenges: this.#challenges, keys: this.#keys };
    return this.#routing({ declared: routing, ground: apps, ports, apps: null, wish: null }, parts);
  }

  wish(wish: Wish): Proposal {
    return this.#routing({ ...this.#now, wish }, {});
  }

  /** Apps whose active services change. */
  apps(apps: AppsChange): Proposal {
    return this.#routing({ ...this.#now, apps }, {});
  }

  /** Addresses of this machine, or apps without services, are others than before. */
  ports(): Proposal {
    return this.#routing(this.#now, {});
  }

  get #now(): RoutingWish {
    return { declared: this.declared, ground: this.#ground, ports: this.#portGround, apps: null, wish: null };
  }

  health(routing: RoutingPart): Proposal {
    return this.#parts({ health: this.#effects.healthOf(routing) }, []);
  }

  certificates(certificates: CertificatesPart): Proposal {
    return this.#parts({ certificates }, []);
  }

  challenges(challenges: ChallengesPart): Proposal {
    const proposal = this.#parts({ challenges }, []);
    return {
      ...proposal,
      persist: (revision) => {
        proposal.persist(revision);
        this.#challenges = challenges;
      },
    };
  }

  gate(gate: GatePart): Proposal {
    return this.#parts({ gate }, []);
  }

  newTicketKey(): Proposal {
    return this.#parts({ keys: { ...this.#keys, ticketKey: newKey(48) } }, []);
  }

  #refuseRivals(file: RoutingPart, ground: AppGround): void {
    const rivals = this.#reservations.conflictsWith(file, ground);
    if (rivals.length > 0) throw new Fault('reservation-conflict', rivals.join('\n'));
  }

  #routing(wish: RoutingWish, more: Partial<SnapshotParts>): Proposal {
    const ports = this.#takeover.contribution(wish.ports, wish.apps, wish.declared.settings);
    const taken = this.#listeners.take(ports.entrypoints);
    try {
      return this.#composed(wish, ports, taken, more);
    } catch (error) {
      this.#listeners.close(taken.opened.map(({ key }) => key));
      throw error;
    }
  }

  #composed(
    { declared, ground, ports: portGround, apps, wish }: RoutingWish,
    ports: PortContribution,
    taken: Taken,
    more: Partial<SnapshotParts>,
  ): Proposal {
    const intents = new Map(wish === null ? [] : [[wish.service, wish.intent]]);
    const active = apps === null ? this.#apps.active() : this.#apps.activeAfter(apps);
    const composed = compose(declared, active, ground);
    const instances = new Map([...composed.instances, ...ports.instances]);
    const whole = withPorts(composed.routing, ports, taken.bound);
    const resolved = resolveServices(whole, this.#stored, intents, instances);
    const { changed } = resolved;
    const routing = withGates(resolved.routing, instances, ground, ports.local);
    const opened = [...taken.opened, ...this.#listeners.open(routing.entrypoints)];
    const keys = opened.map(({ key }) => key);
    const proposal = this.#parts({ ...more, routing, health: this.#effects.healthOf(routing) }, changed, apps);
    const drainMs = wish?.drainMs ?? null;
    const served = this.#served;
    this.#effects.own(served, routing.entrypoints);
    return {
      ...proposal,
      drainMs: wish === null || drainMs === null ? {} : { [wish.service]: drainMs },
      persist: (revision) => {
        proposal.persist(revision);
        this.#declared = declared;
        this.#ground = ground;
        this.#portGround = portGround;
        this.#takeover.settled(portGround, ports.ports, taken.faults);
        this.#served = routing.entrypoints;
      },
      lend: (worker) => lendAll(worker, opened),
      abandoned: () => {
        this.#listeners.close(keys);
        this.#effects.withdraw(keys);
        this.#effects.own(served);
      },
      acknowledged: () => {
        this.#listeners.close(this.#listeners.unusedBy(routing.entrypoints));
        this.#effects.own(routing.entrypoints);
        this.#effects.adopted(routing, new Map(wish === null ? [] : [[wish.service, wish.proven]]));
      },
    };
  }

  #parts(parts: Partial<SnapshotParts>, changed: readonly StoredService[], apps: AppsChange | null = null): Proposal {
    const keys = parts.keys ?? this.#keys;
    return {
      parts,
      persist: (revision) => {
        if (revision === this.#revision && changed.length === 0 && apps === null) return;
        this.#store.write({ revision, services: changed, keys, ...(apps === null ? {} : { apps }) });
        if (apps !== null) this.#apps.adopt(apps);
        this.#revision = revision;
        this.#keys = keys;
        this.#stored = new Map([...this.#stored, ...changed.map((row) => [row.name, row] as const)]);
      },
    };
  }
}

/** Whoever leads to an app by another way leads through its gate. */
function withGates(
  routing: RoutingPart,
  instances: ReadonlyMap<string, unknown>,
  { named }: AppGround,
  local: readonly FrontedPort[],
): RoutingPart {
  const own = new Set(instances.keys());
  const inherited = inheritGates(routing, [...frontedPorts(routing, own), ...local], own, named);
  if (inherited.problems.length > 0) throw new Fault('gate-refused', inherited.problems.join('\n'));
  return inherited.routing;
}

export function lendAll(worker: WorkerChannel, listeners: readonly HeldListener[]): void {
  for (const { key, handle } of listeners) worker.lend(key, handle);
}

const newKey = (bytes: number): string => randomBytes(bytes).toString('base64');
