// What each service serves: the declared addresses, unless an operator switched it since the file last changed its mind.
// Invariant: pure; a generation number only ever rises, and rises exactly when the backends' addresses change, or what is
// behind the same addresses is known to be another process.
import { parseBackend } from '../model/backend.ts';
import { canonicalJson } from '../model/digest.ts';
import type { Backend, RoutingPart, Service } from '../model/snapshot.ts';

export type ServiceRunState = Service['state'];

/** A service in the state store. */
export interface StoredService {
  readonly name: string;
  readonly state: ServiceRunState;
  /** The live generation's number; kept when the service leaves the configuration. */
  readonly number: number;
  readonly addresses: readonly string[];
  readonly origin: string;
  readonly override: StoredOverride | null;
  /** What runs behind the addresses, where that is known; left out: it is not. */
  readonly instance?: string;
}

export interface StoredOverride {
  readonly addresses: readonly string[];
  /** What the file said when the operator switched: the override ends when the file says something else. */
  readonly declared: readonly string[];
  readonly since: number;
}

/** What an operator asks of one service, on top of the file. */
export type Intent =
  | { readonly kind: 'switch'; readonly backends: readonly Backend[]; readonly at: number }
  | { readonly kind: 'to-config' }
  | { readonly kind: 'state'; readonly state: ServiceRunState };

export interface Resolved {
  /** The routing to serve: generations and states filled in. */
  readonly routing: RoutingPart;
  /** Rows that differ from what is stored. */
  readonly changed: readonly StoredService[];
}

/**
 * @param declared  the routing of the file and of apps, its generations holding their addresses
 * @param instances  what runs behind the addresses, by service, where that is known
 */
export function resolveServices(
  declared: RoutingPart,
  stored: ReadonlyMap<string, StoredService>,
  intents: ReadonlyMap<string, Intent> = new Map(),
  instances: ReadonlyMap<string, string> = new Map(),
): Resolved {
  const changed: StoredService[] = [];
  const services = declared.services.map((service) => {
    const row = stored.get(service.name);
    const resolved = resolveService(service, row, intents.get(service.name), instances.get(service.name));
    if (row === undefined || canonicalJson(row) !== canonicalJson(resolved.row)) changed.push(resolved.row);
    return resolved.service;
  });
  const present = new Set(declared.services.map((service) => service.name));
  for (const row of stored.values()) {
    // A service that left starts afresh when it comes back, except for its number.
    if (present.has(row.name) || (row.override === null && row.state === 'run')) continue;
    changed.push({ ...row, override: null, state: 'run' });
  }
  return { routing: { ...declared, services }, changed };
}

function resolveService(
  service: Service,
  row: StoredService | undefined,
  intent: Intent | undefined,
  instance: string | undefined,
): { readonly service: Service; readonly row: StoredService } {
  const declared = addressesOf(service.generation.backends);
  let override = row?.override ?? null;
  if (override !== null && !sameAddresses(override.declared, declared)) override = null;
  if (intent?.kind === 'to-config') override = null;
  if (intent?.kind === 'switch') {
    override = { addresses: addressesOf(intent.backends), declared, since: intent.at };
  }
  const addresses = override?.addresses ?? declared;
  const origin =
    override === null ? service.generation.origin : `service switch ${new Date(override.since).toISOString()}`;
  const same = row !== undefined && row.instance === instance && sameAddresses(row.addresses, addresses);
  const number = same ? row.number : (row?.number ?? 0) + 1;
  const state = intent?.kind === 'state' ? intent.state : (row?.state ?? 'run');
  const backends = override === null ? service.generation.backends : addresses.map((address) => parseBackend(address)!);
  const known = instance === undefined ? {} : { instance };
  return {
    // What an app asks for (a hold while it is replaced) lasts beside what the operator asks for.
    service: { ...service, state: state === 'run' ? service.state : state, generation: { number, backends, origin } },
    row: { name: service.name, state, number, addresses, origin, override, ...known },
  };
}

export const addressesOf = (backends: readonly Backend[]): readonly string[] => backends.map(({ address }) => address);

/** Order does not matter: the same backends in another order are the same generation. */
function sameAddresses(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && [...a].sort().join() === [...b].sort().join();
}
