// The keys of `[external_routes."HOST"]` and of its `[[routes]]`, once: form, default, sentence, example.
// Invariant: what holds for the whole host is no key of a path.
import { compression, rateLimit, redirect, respond } from './answer-keys.ts';
import { backendKeys, backends } from './backend-keys.ts';
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
  misplaced,
  optional,
  required,
  table,
  tables,
  text,
  type Value,
} from './form.ts';
import { hostPolicy, rationale } from './gate-keys.ts';
import { headerRules } from './header-keys.ts';
import { misplacedLimits, overridable } from './limit-keys.ts';
import { duration, filePath, hostPattern, pathPrefix, routePath, tlsVersion } from './values.ts';

const day = 86_400_000;

/** What a path may have for itself; a route takes from its host what it leaves out. */
const routeKeys = {
  request_headers: optional(
    headerRules,
    'Changes to the headers of the request.',
    '{ set = { "X-Site" = "blue" }, remove = ["X-Debug"] }',
  ),
  response_headers: optional(
    headerRules,
    'Changes to the headers of the answer.',
    '{ set = { "X-Frame-Options" = "DENY" }, remove = ["Server"] }',
  ),
  compression: optional(compression, 'Compress answers; false when left out. Never streams or encoded bodies.', 'true'),
  retry: optional(
    flag,
    'One more try, on another backend first, when nothing was answered and nothing can happen twice; true when left out.',
    'true',
  ),
  rate_limit: optional(
    rateLimit,
    'Limit per client address and route; above it 429. Shared out over the workers.',
    '{ requests = 100, per = "1s" }',
  ),
  ...overridable('route'),
} as const satisfies Keys;

const actionKeys = {
  to: optional(backends, 'Backends to forward to: one address, or a list.', '["127.0.0.1:3001", "127.0.0.1:3002"]'),
  redirect: optional(redirect, 'Answer with a redirect instead.', '"https://www.example.com{uri}"'),
  respond: optional(respond, 'Answer with this instead.', '{ status = 200, body = "ok" }'),
  replace_prefix: optional(
    pathPrefix,
    "Put this in place of the route's path before the request is forwarded.",
    '"/remote.php/dav"',
  ),
} as const satisfies Keys;

const elsewhere = misplacedLimits('route', 'backends', 'services');

const hostOnly = (name: string) => misplaced(`${name} holds for the whole host`, `${name} in [external_routes."HOST"]`);

const pathRoute = table('a route', {
  path: required(routePath, 'The path this route covers, with everything below; the longest path wins.', '"/api"'),
  strip_prefix: defaulted(flag, "Take the route's path away before the request is forwarded.", 'false', false, 'true'),
  ...actionKeys,
  ...backendKeys,
  ...routeKeys,
  ...elsewhere,
  gate: misplaced('a host has one gate for all its paths', 'open_paths in [gate.apps."HOST"]'),
  certificate: hostOnly('certificate'),
  entrypoints: hostOnly('entrypoints'),
  tls: hostOnly('tls'),
  hsts: hostOnly('hsts'),
  min_version: hostOnly('min_version'),
  client_auth: hostOnly('client_auth'),
  aliases: hostOnly('aliases'),
});

const clientAuth = table('client authentication', {
  mode: defaulted(
    choice('a mode', ['none', 'request', 'require']),
    'request lets clients without a certificate in, require does not.',
    '"require"',
    'require' as const,
  ),
  ca_file: optional(filePath, 'PEM bundle of the issuers to accept.', '"certs/clients-ca.pem"'),
});

const hstsAge = duration({ least: 0, most: 3650 * day });
const hstsTable = table('Strict-Transport-Security', {
  max_age: required(hstsAge, 'How long a browser remembers it.', '"365d"'),
  include_subdomains: defaulted(flag, 'For all names below too.', 'false', false, 'true'),
  preload: defaulted(flag, 'Ask for the list that browsers ship.', 'false', false, 'true'),
});
const hsts: Form<Value<typeof hstsTable>> = either('a duration like "365d", or a table', {
  string: mapped(hstsAge, (max_age) => ({ max_age, include_subdomains: false, preload: false })),
  table: hstsTable,
});

const hostKeys = {
  ...actionKeys,
  aliases: defaulted(
    list('a list of hosts', hostPattern, { identity: (pattern) => pattern }),
    'More hosts that are served just like this one, by the same service.',
    '[]',
    [],
    '["www.example.com"]',
  ),
  entrypoints: optional(
    list(
      'a list of entrypoint names',
      text('the name of an entrypoint', (value) => value),
      {
        least: 1,
        identity: (name) => name,
      },
    ),
    'Entrypoints that serve this host. Left out: all of them.',
    '["web", "websecure"]',
  ),
  tls: defaulted(
    choice('a TLS policy', ['auto', 'always', 'never']),
    'auto redirects plaintext to https when it can (see tls.redirect), always never serves plaintext, never has no TLS.',
    '"auto"',
    'auto' as const,
  ),
  certificate: defaulted(
    choice('a source of certificates', ['auto', 'acme', 'internal']),
    'Where its certificate comes from when none of your own covers it: auto is ACME for names that an authority could ' +
      'know, else the internal CA.',
    '"auto"',
    'auto' as const,
  ),
  min_version: optional(tlsVersion, 'Lowest TLS version for this host.', '"1.3"'),
  client_auth: optional(
    clientAuth,
    'Ask clients for a certificate.',
    '{ mode = "require", ca_file = "certs/clients-ca.pem" }',
  ),
  hsts: optional(hsts, 'Send Strict-Transport-Security over TLS: a duration, or a table.', '"365d"'),
  gate: optional(
    hostPolicy,
    'Login in front of this host; [gate.apps."HOST"] has the details. session and gated ask for one, open does not.',
    '"gated"',
  ),
  gate_rationale: rationale,
  ...backendKeys,
  ...routeKeys,
  routes: defaulted(
    tables('[[external_routes."HOST".routes]] tables', pathRoute),
    'Paths with an answer of their own, one table for each.',
    '[]',
    [],
    '[{ path = "/api", to = "127.0.0.1:3003" }]',
  ),
  strip_prefix: misplaced('strip_prefix needs a path', 'strip_prefix in [[external_routes."HOST".routes]]'),
  path: misplaced('a host covers every path', 'path in [[external_routes."HOST".routes]]'),
  ...elsewhere,
} as const satisfies Keys;

const hostTable = table('a route', hostKeys);

export type HostWritten = Value<typeof hostTable>;

/** `"app.test" = "127.0.0.1:3000"` is a host with nothing but backends. */
export const externalRoute: Form<HostWritten> = either(`${backends.accepts}, or a table`, {
  string: mapped(backends, (to) => ({ ...defaultsOf(hostKeys), to })),
  array: mapped(backends, (to) => ({ ...defaultsOf(hostKeys), to })),
  table: hostTable,
});
export type PathWritten = Value<typeof pathRoute>;

/** Keys that may stand in `[external_routes."HOST"]`, refused ones too. */
export const hostKeyNames: readonly string[] = Object.keys(hostKeys);

/** Names of what belongs to the backends, for the check that a route without `to` has none of it. */
export const backendKeyNames: readonly string[] = Object.keys(backendKeys);
