// Who has which host and which listener: apps, the configuration file and the installation itself never share one.
// Invariant: pure; what belongs to one owner never conflicts with itself, and a conflict names both owners with their place.
import type { App } from '../manifest/app.ts';
import { formatBind } from '../model/changes.ts';
import { transportOf } from '../model/entrypoint-protocol.ts';
import { patternCovers } from '../model/host.ts';
import type { Entrypoint, RoutingPart, Transport } from '../model/snapshot.ts';
import type { ActiveService, Revision } from './state.ts';

export interface Claim {
  /** `''`: the configuration file. */
  readonly owner: string;
  /** "app blog", "the configuration". */
  readonly who: string;
  /** "blog.toml:12 services.web.http[0].host" */
  readonly origin: string;
  readonly what: HostClaim | ListenerClaim | ServiceClaim;
}

interface HostClaim {
  readonly kind: 'host';
  /** Canonical host or pattern. */
  readonly host: string;
  /** Its TLS connections pass unopened: it takes every host that it covers. */
  readonly covers: boolean;
}

interface ListenerClaim {
  readonly kind: 'listener';
  readonly transport: Transport;
  /** '' is every address. */
  readonly host: string;
  readonly port: number;
}

/** Routes to `app/service` in the file and services of apps share their names. */
interface ServiceClaim {
  readonly kind: 'service';
  readonly name: string;
}

export interface Conflict {
  readonly wanted: Claim;
  readonly taken: Claim;
}

/** Everything in `wanted` that somebody else has in `taken`. */
export function conflicts(wanted: readonly Claim[], taken: Iterable<Claim>): readonly Conflict[] {
  // What is wanted is little, what is taken may be thousands: those are looked at once each.
  const index = new Map<string, Claim[]>();
  for (const claim of wanted) {
    const list = index.get(keyOf(claim));
    if (list === undefined) index.set(keyOf(claim), [claim]);
    else list.push(claim);
  }
  const found: Conflict[] = [];
  for (const rival of taken) {
    const covers = rival.what.kind === 'host' && rival.what.covers;
    for (const claim of covers ? wanted : (index.get(keyOf(rival)) ?? [])) {
      if (rival.owner !== claim.owner && collide(claim, rival)) found.push({ wanted: claim, taken: rival });
    }
  }
  return found;
}

export function formatConflict({ wanted, taken }: Conflict): string {
  return `${describe(taken.what)} belongs to ${taken.who} (${taken.origin}); ${wanted.who} wants it too (${wanted.origin})`;
}

function describe(what: Claim['what']): string {
  if (what.kind === 'listener') return `${what.transport} ${formatBind(what.host, what.port)}`;
  return what.kind === 'host' ? `host ${what.host}` : `the service name ${what.name}`;
}

const keys = new WeakMap<Claim, string>();

/** Claims that could collide have one key. */
function keyOf(claim: Claim): string {
  const known = keys.get(claim);
  if (known !== undefined) return known;
  const key = makeKey(claim);
  keys.set(claim, key);
  return key;
}

function makeKey({ what }: Claim): string {
  if (what.kind === 'listener') return `${what.transport} ${what.port}`;
  return what.kind === 'host' ? `host ${what.host}` : `service ${what.name}`;
}

function collide({ what: a }: Claim, { what: b }: Claim): boolean {
  if (a.kind === 'host' && b.kind === 'host') return a.host === b.host || (b.covers && patternCovers(b.host, a.host));
  if (a.kind === 'service' && b.kind === 'service') return a.name === b.name;
  if (a.kind !== 'listener' || b.kind !== 'listener') return false;
  return a.transport === b.transport && a.port === b.port && overlap(a.host, b.host);
}

/** "::" takes both families. */
const isWildcard = (host: string): boolean => host === '' || host === '0.0.0.0' || host === '::';
const overlap = (a: string, b: string): boolean => a === b || isWildcard(a) || isWildcard(b);

// ---- whose they are --------------------------------------------------------------------------------------------

export interface ReservedHost {
  readonly host: string;
  readonly origin: string;
}

/** What the file has for itself. `reserved`: names of the installation's own (the gate's host). */
export function fileClaims(routing: RoutingPart, reserved: readonly ReservedHost[]): readonly Claim[] {
  const claim = (what: Claim['what'], origin: string, who = 'the configuration'): Claim => ({
    owner: '',
    who,
    origin,
    what,
  });
  const entrypoints = new Map(routing.entrypoints.map((each) => [each.name, each]));
  const router = ({ entrypoint, origin }: { readonly entrypoint: string; readonly origin: string }): Claim[] => {
    const found = entrypoints.get(entrypoint);
    return found === undefined ? [] : [claim(listenerOf(found), origin)];
  };
  return [
    ...routing.services.map(({ name, origin }) => claim({ kind: 'service', name }, origin)),
    ...routing.hosts.map((host) => claim({ kind: 'host', host: host.pattern, covers: false }, host.origin)),
    ...reserved.map(({ host, origin }) => claim({ kind: 'host', host, covers: false }, origin, 'Turnpike itself')),
    ...routing.routers.tls.flatMap(({ names, origin }) =>
      names.map((host) => claim({ kind: 'host', host, covers: true }, origin)),
    ),
    ...routing.routers.tcp.flatMap(router),
    ...routing.routers.udp.flatMap(router),
    ...routing.entrypoints.flatMap((each) =>
      each.rawFallback === null ? [] : [claim(listenerOf(each), `${each.origin}.raw_fallback`)],
    ),
  ];
}

/** What the file listens on, whoever gets what comes in: no port of an app may be one of these. */
export function entrypointClaims(entrypoints: readonly Entrypoint[]): readonly Claim[] {
  return entrypoints.map((each) => ({
    owner: '',
    who: `the entrypoint ${each.name}`,
    origin: each.origin,
    what: listenerOf(each),
  }));
}

/** An app with the places in its manifest. */
export type Claimant = Pick<Revision, 'app' | 'origins' | 'file'>;

export function revisionClaims(revision: Claimant, entrypoints: readonly Entrypoint[]): readonly Claim[] {
  return remembered(revision, entrypoints, () => {
    const { app, origins, file } = revision;
    return app.services.flatMap((service) => serviceClaims(app.name, service, origins, file, entrypoints));
  });
}

export function activeClaims(active: ActiveService, entrypoints: readonly Entrypoint[]): readonly Claim[] {
  const { app, service, origins, file } = active;
  return remembered(active, entrypoints, () => serviceClaims(app, service, origins, file, entrypoints));
}

interface Remembered {
  readonly entrypoints: readonly Entrypoint[];
  readonly claims: readonly Claim[];
}

/** Rows never change, and every apply looks at those of all apps. */
const memory = new WeakMap<object, Remembered>();

function remembered(row: object, entrypoints: readonly Entrypoint[], make: () => readonly Claim[]): readonly Claim[] {
  const known = memory.get(row);
  if (known?.entrypoints === entrypoints) return known.claims;
  const claims = make();
  memory.set(row, { entrypoints, claims });
  return claims;
}

/** Host ports of a YAML app: they must not meet an entrypoint either. */
export function portClaims({ app, origins, file }: Claimant): readonly Claim[] {
  if (app.ports.length === 0) return [];
  return app.ports.flatMap((port) =>
    port.binds.map(
      (host): Claim => ({
        owner: app.name,
        who: `app ${app.name}`,
        origin: origins[`port ${port.host}`] ?? `${file} ports`,
        what: { kind: 'listener', transport: port.protocol, host, port: port.host },
      }),
    ),
  );
}

function serviceClaims(
  app: string,
  service: App['services'][number],
  origins: Readonly<Record<string, string>>,
  file: string,
  entrypoints: readonly Entrypoint[],
): readonly Claim[] {
  const who = `app ${app}`;
  const at = (key: string, fallback: string): string =>
    origins[key] ?? `${file} services.${service.name}${fallback === '' ? '' : `.${fallback}`}`;
  const listeners = (transport: Transport): Claim[] =>
    service[transport].flatMap(({ entrypoint }) => {
      const found = entrypoints.find((each) => each.name === entrypoint);
      if (found === undefined || transportOf(found.protocol) !== transport) return [];
      const origin = at(`entrypoint ${entrypoint} ${transport}`, transport);
      return [{ owner: app, who, origin, what: listenerOf(found) }];
    });
  return [
    {
      owner: app,
      who,
      origin: at(`service ${service.name}`, ''),
      what: { kind: 'service', name: `${app}/${service.name}` },
    },
    ...service.http.flatMap((each): Claim[] => {
      if (each.visibility === 'internal') return [];
      const origin = at(`host ${each.host}`, `http "${each.host}"`);
      return [{ owner: app, who, origin, what: { kind: 'host', host: each.host, covers: false } }];
    }),
    ...listeners('tcp'),
    ...listeners('udp'),
  ];
}

function listenerOf({ protocol, host, port }: Entrypoint): ListenerClaim {
  return { kind: 'listener', transport: transportOf(protocol), host, port };
}
