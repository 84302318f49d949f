// Every limit once: its key, the member of `Limits` it becomes, its form, its default, and where it may be overridden.
// Invariant: each member of `Limits` has exactly one key, and every key appears in `[limits]`.
import { unlimited } from '../base/units.ts';
import type { Limits } from '../model/snapshot.ts';
import { defaulted, type Form, type Key, misplaced, optional, type RefusedKey } from './form.ts';
import { cap, count, duration, size } from './values.ts';

/**
 * Who may override a limit: an `entrypoint` (judged before a route is known), a `route`, the `backends` of a route,
 * a `network` service, both of the latter (`services`), or nobody (`global`).
 */
export type LimitScope = 'entrypoint' | 'route' | 'backends' | 'network' | 'services' | 'global';

interface LimitKey {
  readonly member: keyof Limits;
  readonly scope: LimitScope;
  readonly form: Form<number>;
  /** As TOML, and what it means. */
  readonly fallback: string;
  readonly absent: number;
  readonly doc: string;
}

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const kiB = 1024;
const miB = 1024 * kiB;
const giB = 1024 * miB;

const wait = duration({ least: 1, most: day });
const patience = duration({ least: 1, most: 365 * day, unlimited: true });
const grace = duration({ least: 0, most: 30 * day });

export const limitKeys: Readonly<Record<string, LimitKey>> = {
  header_timeout: {
    member: 'headerTimeoutMs',
    scope: 'entrypoint',
    form: wait,
    fallback: '"10s"',
    absent: 10 * second,
    doc: 'A request head must be complete within this time, however its bytes drip in.',
  },
  tls_handshake_timeout: {
    member: 'tlsHandshakeTimeoutMs',
    scope: 'entrypoint',
    form: wait,
    fallback: '"10s"',
    absent: 10 * second,
    doc: 'A TLS handshake must be complete within this time.',
  },
  keep_alive_timeout: {
    member: 'keepAliveTimeoutMs',
    scope: 'entrypoint',
    form: patience,
    fallback: '"60s"',
    absent: minute,
    doc: 'A client connection without a request in work is closed after this time.',
  },
  header_size: {
    member: 'headerSize',
    scope: 'entrypoint',
    form: size({ least: kiB, most: miB }),
    fallback: '"32KiB"',
    absent: 32 * kiB,
    doc: 'A larger request head is answered 431.',
  },
  header_count: {
    member: 'headerCount',
    scope: 'entrypoint',
    form: count(8, 10_000),
    fallback: '200',
    absent: 200,
    doc: 'A request with more header fields is answered 431.',
  },
  target_size: {
    member: 'targetSize',
    scope: 'entrypoint',
    form: size({ least: 64, most: miB }),
    fallback: '"8KiB"',
    absent: 8 * kiB,
    doc: 'A longer request target (path and query) is answered 414.',
  },
  connections: {
    member: 'connections',
    scope: 'global',
    form: cap(1, 1_000_000),
    fallback: '10000',
    absent: 10_000,
    doc: 'Client connections per entrypoint, shared out over the workers; an entrypoint overrides it as max_connections.',
  },
  tcp_connections: {
    member: 'tcpConnections',
    scope: 'global',
    form: cap(1, 1_000_000),
    fallback: '1024',
    absent: 1024,
    doc: 'The same for entrypoints with protocol = "tcp".',
  },
  connections_per_peer: {
    member: 'connectionsPerPeer',
    scope: 'entrypoint',
    form: cap(1, 1_000_000),
    fallback: '"unlimited"',
    absent: unlimited,
    doc: 'Client connections per entrypoint from one address.',
  },
  h2_streams: {
    member: 'h2Streams',
    scope: 'entrypoint',
    form: count(1, 1000),
    fallback: '128',
    absent: 128,
    doc: 'Requests at once on one HTTP/2 connection of a client.',
  },
  body_size: {
    member: 'bodySize',
    scope: 'route',
    form: size({ least: 0, most: 1024 * 1024 * giB, unlimited: true }),
    fallback: '"unlimited"',
    absent: unlimited,
    doc: 'A larger request body, declared or counted, is answered 413.',
  },
  body_idle_timeout: {
    member: 'bodyIdleTimeoutMs',
    scope: 'route',
    form: patience,
    fallback: '"60s"',
    absent: minute,
    doc: 'A body that does not move for this time is given up. There is no limit on a body that keeps moving.',
  },
  stream_idle_timeout: {
    member: 'streamIdleTimeoutMs',
    scope: 'route',
    form: patience,
    fallback: '"1h"',
    absent: hour,
    doc: 'The same for event streams and WebSockets.',
  },
  backend_connections: {
    member: 'backendConnections',
    scope: 'backends',
    form: cap(1, 1_000_000),
    fallback: '1000',
    absent: 1000,
    doc: 'Connections to one backend from one worker; when all are busy the answer is 503.',
  },
  backend_connect_timeout: {
    member: 'backendConnectTimeoutMs',
    scope: 'backends',
    form: wait,
    fallback: '"5s"',
    absent: 5 * second,
    doc: 'A backend must accept a connection (and finish the TLS handshake) within this time, else 504.',
  },
  backend_head_timeout: {
    member: 'backendHeadTimeoutMs',
    scope: 'route',
    form: patience,
    fallback: '"60s"',
    absent: minute,
    doc: 'A backend must begin to answer within this time after it has the whole request, else 504.',
  },
  backend_keep_alive_timeout: {
    member: 'backendKeepAliveTimeoutMs',
    scope: 'backends',
    form: patience,
    fallback: '"60s"',
    absent: minute,
    doc: 'An idle connection to a backend is closed after this time.',
  },
  drain: {
    member: 'drainMs',
    scope: 'backends',
    form: grace,
    fallback: '"30s"',
    absent: 30 * second,
    doc: 'After a switch, requests on the old backends may take this long to finish. Also the patience at shutdown.',
  },
  stream_drain: {
    member: 'streamDrainMs',
    scope: 'services',
    form: duration({ least: 0, most: 365 * day, unlimited: true }),
    fallback: '"10m"',
    absent: 10 * minute,
    doc: 'The same for event streams, WebSockets (then closed with code 1012), TCP tunnels and UDP flows.',
  },
  max_hold: {
    member: 'maxHoldMs',
    scope: 'services',
    form: duration({ least: 0, most: hour }),
    fallback: '"30s"',
    absent: 30 * second,
    doc: 'A request or connection for a paused service waits this long, then it is answered 503 or closed.',
  },
  hold_requests: {
    member: 'holdRequests',
    scope: 'global',
    form: count(0, 1_000_000),
    fallback: '1000',
    absent: 1000,
    doc: 'Requests that may wait for one service in one worker; the next one is answered 503.',
  },
  hold_size: {
    member: 'holdSize',
    scope: 'global',
    form: size({ least: 0, most: 16 * giB }),
    fallback: '"64MiB"',
    absent: 64 * miB,
    doc: 'Memory that waiting requests of one service may take in one worker.',
  },
  dial_timeout: {
    member: 'dialTimeoutMs',
    scope: 'network',
    form: wait,
    fallback: '"10s"',
    absent: 10 * second,
    doc: 'A backend of a network service must accept a connection within this time, else its client is closed.',
  },
  tcp_idle_timeout: {
    member: 'tcpIdleTimeoutMs',
    scope: 'network',
    form: patience,
    fallback: '"5m"',
    absent: 5 * minute,
    doc: 'A TCP tunnel that moves nothing in either direction for this time is ended.',
  },
  udp_idle_timeout: {
    member: 'udpIdleTimeoutMs',
    scope: 'network',
    form: patience,
    fallback: '"2m"',
    absent: 2 * minute,
    doc: 'The same for a UDP flow: a client address and port with its own socket towards the backend.',
  },
  udp_sessions: {
    member: 'udpSessions',
    scope: 'entrypoint',
    form: count(1, 1_000_000),
    fallback: '4096',
    absent: 4096,
    doc: 'Flows of one UDP entrypoint at a time; one more ends the flow that was idle for the longest time.',
  },
  overload_delay: {
    member: 'overloadDelayMs',
    scope: 'global',
    form: duration({ least: 50, most: minute, unlimited: true }),
    fallback: '"400ms"',
    absent: 400,
    doc: 'A worker that comes so late to what is due refuses new work: idle connections go at half of it, accepting stops at four times.',
  },
};

/** Keys whose values are read by `writtenLimits`, so that no table type need spell them out. */
type LimitKeys<K> = Readonly<Record<never, K>>;

/** `[limits]`: all of them, with defaults. */
export const globalLimits: LimitKeys<Key<number>> = Object.fromEntries(
  Object.entries(limitKeys).map(([name, { form, doc, fallback, absent }]) => [
    name,
    defaulted(form, doc, fallback, absent),
  ]),
);

/** The limits that a table may override. */
export function overridable(...scopes: readonly LimitScope[]): LimitKeys<Key<number>> {
  const keys = Object.entries(limitKeys).filter(([, limit]) => scopes.includes(limit.scope));
  return Object.fromEntries(
    keys.map(([name, { form, fallback }]) => [name, optional(form, `Overrides limits.${name}.`, fallback)]),
  );
}

const elsewhere: Readonly<Record<LimitScope, string>> = {
  entrypoint: 'is judged before a route is known',
  global: 'holds for all routes alike',
  route: 'belongs to a route',
  backends: 'belongs to the backends of a route',
  network: 'belongs to a network service',
  services: 'belongs to the backends of a route or to a network service',
};

/** The other limits, refused with the place where they belong. */
export function misplacedLimits(...scopes: readonly LimitScope[]): LimitKeys<RefusedKey> {
  const keys = Object.entries(limitKeys).filter(([, limit]) => !scopes.includes(limit.scope));
  return Object.fromEntries(
    keys.map(([name, { scope }]) => [name, misplaced(`${name} ${elsewhere[scope]}`, placesOf(name, scope))]),
  );
}

const places: Readonly<Record<Exclude<LimitScope, 'global'>, string>> = {
  entrypoint: '[entrypoints.NAME]',
  route: '[external_routes."HOST"]',
  backends: '[external_routes."HOST"]',
  network: '[network_services.NAME]',
  services: '[external_routes."HOST"] or [network_services.NAME]',
};

function placesOf(name: string, scope: LimitScope): string {
  if (scope !== 'global') return `limits.${name}, or ${name} in ${places[scope]}`;
  return name === 'connections' || name === 'tcp_connections' ? 'max_connections' : `limits.${name}`;
}

/** All of them, refused where a table heading was forgotten. */
export const strayLimits: LimitKeys<RefusedKey> = Object.fromEntries(
  Object.keys(limitKeys).map((name) => [name, misplaced(`${name} is a limit`, `limits.${name}`)]),
);

/** The limits written in a table, by member; those left out are left out. */
export function writtenLimits(table: object): Partial<Limits> {
  const values = table as Readonly<Record<string, unknown>>;
  const limits: { -readonly [member in keyof Limits]?: number } = {};
  for (const [name, { member }] of Object.entries(limitKeys)) {
    const value = values[name];
    if (typeof value === 'number') limits[member] = value;
  }
  return limits;
}

/** Those around a table with what it writes itself; the very same object when it writes none. */
export function limitsWithin(outer: Limits, table: object): Limits {
  const written = writtenLimits(table);
  return Object.keys(written).length === 0 ? outer : { ...outer, ...written };
}

export const defaultLimits: Limits = writtenLimits(
  Object.fromEntries(Object.entries(limitKeys).map(([name, { absent }]) => [name, absent])),
) as Limits;
