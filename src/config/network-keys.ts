// The keys of `[network_services.NAME]` and of `[[routers.*]]`, once: form, default, sentence, example.
// Invariant: nothing in here is about HTTP.
import type { Backend, Balance } from '../model/snapshot.ts';
import { upstreamTls } from './backend-keys.ts';
import {
  choice,
  defaulted,
  defaultsOf,
  either,
  type Form,
  flag,
  type Keys,
  list,
  mapped,
  optional,
  quote,
  type Read,
  Refusal,
  required,
  table,
  tables,
  text,
  type Value,
} from './form.ts';
import { checkKeys, passiveHealth } from './health-keys.ts';
import { misplacedLimits, overridable } from './limit-keys.ts';
import { name, parsePattern, rawBackend } from './values.ts';

const backends: Form<readonly Backend[]> = either(rawBackend.accepts, {
  string: mapped(rawBackend, (one): readonly Backend[] => [one]),
  array: list('a list of addresses', rawBackend, { least: 1, identity: (each) => each.address }),
});

const balances: Readonly<Record<'least_connections' | 'round_robin' | 'hash_client', Balance>> = {
  least_connections: 'least_requests',
  round_robin: 'round_robin',
  hash_client: 'hash_client',
};

const balance: Form<Balance> = mapped(
  choice('a way to balance', ['least_connections', 'round_robin', 'hash_client']),
  (written) => balances[written],
);

/** `true` takes what `{}` would. */
const health = either<Read<typeof checkKeys> | false>('true, false or a table', {
  boolean: mapped(flag, (on) => on && defaultsOf(checkKeys)),
  table: table('a health check', checkKeys),
});

const tls = either<Value<typeof upstreamTls> | boolean>('true, false or a table', {
  boolean: flag,
  table: upstreamTls,
});

const sendProxyProtocol = either<1 | 2 | false>('"v1", "v2" or false', {
  string: text('"v1" or "v2"', (value) =>
    value === 'v1' ? 1 : value === 'v2' ? 2 : new Refusal(`${quote(value)} is not a version of the PROXY protocol`),
  ),
  boolean: mapped(flag, (on) => on && 2),
});

const serviceKeys = {
  tcp: optional(backends, 'TCP backends: one address, or a list.', '"127.0.0.1:22"'),
  udp: optional(
    backends,
    'UDP backends. With tcp beside it they are the same addresses: one program that takes both.',
    '["127.0.0.1:3979"]',
  ),
  tls: defaulted(tls, 'TLS to the TCP backends; a table says what to expect of them.', 'false', false, 'true'),
  send_proxy_protocol: defaulted(
    sendProxyProtocol,
    'Tell TCP backends the address of the client by a PROXY protocol header of this version.',
    'false',
    false,
    '"v2"',
  ),
  balance: defaulted(
    balance,
    'How a backend is chosen: the one with the fewest connections, in turn, or the same one for a client address.',
    '"least_connections"',
    'least_requests' as const,
  ),
  health: defaulted(
    health,
    'Active checks: a backend is up when it accepts TCP connections. Without them it counts as up.',
    'false',
    false,
    '{ interval = "5s" }',
  ),
  passive_health: defaulted(
    passiveHealth,
    'What failed connections say about a backend.',
    '{ failures = 5, eject = "10s" }',
    { failures: 5, eject: 10_000 },
  ),
  ...overridable('network', 'services'),
  ...misplacedLimits('network', 'services'),
} as const satisfies Keys;

export const networkService = table('a network service', serviceKeys);

/** Hosts that TLS clients name: an address is no server name (RFC 6066 §3), and "*" would leave nothing to tell apart. */
const serverName: Form<string> = text('a host like "db.example.com", or "*.example.com" for one label', (value) => {
  const pattern = parsePattern(value);
  if (pattern instanceof Refusal) return pattern;
  if (pattern === '*') return new Refusal('"*" names no host', 'the names; for everything, a tcp entrypoint');
  return /^\[|^[\d.]+$/.test(pattern)
    ? new Refusal(`${quote(value)} is an address, which clients do not name`)
    : pattern;
});

const serverNames: Form<readonly string[]> = either(serverName.accepts, {
  string: mapped(serverName, (one): readonly string[] => [one]),
  array: list('a list of hosts', serverName, { least: 1, identity: (each) => each }),
});

const entrypoint = required(name, 'Name of the entrypoint.', '"edge"');
const service = required(name, 'Name of the network service.', '"git"');

const tcpRouter = table('a TCP router', {
  entrypoint,
  service,
  tls: defaulted(flag, 'End TLS here: the service gets what was inside.', 'false', false, 'true'),
  sni: optional(
    serverNames,
    'With tls = true: the names that clients may ask for. Left out: all that a certificate covers.',
    '["db.example.com"]',
  ),
});

const udpRouter = table('a UDP router', { entrypoint, service });

const tlsRouter = table('a TLS router', {
  entrypoint,
  service,
  sni: required(
    serverNames,
    'Connections to these names are passed on unopened: the service has the certificate.',
    '["db.example.com", "*.mail.example.com"]',
  ),
});

export const routerKeys = {
  tcp: defaulted(tables('[[routers.tcp]] tables', tcpRouter), 'One for each tcp entrypoint.', '[]', []),
  udp: defaulted(tables('[[routers.udp]] tables', udpRouter), 'One for each udp entrypoint.', '[]', []),
  tls: defaulted(
    tables('[[routers.tls]] tables', tlsRouter),
    'Names that smart_tcp and tls_mux entrypoints pass on unopened.',
    '[]',
    [],
  ),
} as const satisfies Keys;

export type NetworkServiceWritten = Value<typeof networkService>;
export type TcpRouterWritten = Value<typeof tcpRouter>;
export type UdpRouterWritten = Value<typeof udpRouter>;
export type TlsRouterWritten = Value<typeof tlsRouter>;
