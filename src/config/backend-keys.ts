// The keys about the backends of a route: where they are, how one is chosen, how it is talked to.
// Invariant: what is in here is never inherited by a route with backends of its own.
import {
  choice,
  defaulted,
  either,
  type Form,
  flag,
  type Keys,
  list,
  mapped,
  optional,
  table,
  type Value,
} from './form.ts';
import { passiveHealth, routeHealth } from './health-keys.ts';
import { overridable } from './limit-keys.ts';
import { backend, filePath, hostField, hostName, token, type WrittenBackend } from './values.ts';

export const upstreamTls = table('TLS to the backends', {
  sni: optional(hostName, 'Name to ask for and to verify. Left out: the host name in the address.', '"app.internal"'),
  ca_file: optional(filePath, "PEM bundle of issuers to trust. Left out: the system's.", '"certs/internal-ca.pem"'),
  verify: defaulted(flag, 'False takes any certificate: no protection against an attacker in between.', 'true', true),
  cert_file: optional(filePath, 'Client certificate to show, PEM.', '"certs/client.pem"'),
  key_file: optional(filePath, 'Its private key, PEM.', '"certs/client.key"'),
});

export type UpstreamTlsWritten = Value<typeof upstreamTls>;

export const backends: Form<readonly WrittenBackend[]> = either(backend.accepts, {
  string: mapped(backend, (one): readonly WrittenBackend[] => [one]),
  array: list('a list of addresses', backend, { least: 1, identity: (each) => each.address }),
});

const balances = ['least_requests', 'round_robin', 'hash_client', 'hash_header', 'hash_cookie'] as const;

/** `true` takes a cookie name of our own. */
const sticky = either<string | boolean>('true, false or the name of a cookie', {
  boolean: flag,
  string: token,
});

/** What belongs to the backends in `to`. */
export const backendKeys = {
  balance: defaulted(
    choice('a way to balance', balances),
    'How a backend is chosen. hash_* sends equal clients, headers or cookies to the same one.',
    '"least_requests"',
    'least_requests' as const,
  ),
  balance_key: optional(token, 'Name of the header or cookie for hash_header and hash_cookie.', '"X-Tenant"'),
  sticky: defaulted(
    sticky,
    'Keep a client on its backend by a signed cookie; a text is the name of the cookie.',
    'false',
    false,
    'true',
  ),
  protocol: optional(
    choice('a protocol of backends', ['http1', 'h2c', 'h2', 'https']),
    'http1 and h2c are plaintext, https (HTTP/1.1) and h2 are TLS. Left out: what the scheme in to says, else http1.',
    '"http1"',
  ),
  upstream_tls: optional(upstreamTls, 'TLS to the backends, with protocol https or h2.', '{ sni = "app.internal" }'),
  host_header: optional(
    hostField,
    'Host sent to the backends. Left out: the host that the client asked for.',
    '"app.internal"',
  ),
  health: optional(routeHealth, 'Active checks. Without them a backend counts as up.', '{ path = "/healthz" }'),
  passive_health: defaulted(
    passiveHealth,
    'What failing requests say about a backend.',
    '{ failures = 5, eject = "10s" }',
    { failures: 5, eject: 10_000 },
  ),
  ...overridable('backends', 'services'),
} as const satisfies Keys;
