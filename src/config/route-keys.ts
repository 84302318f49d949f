// The keys of `[external_routes."HOST"]` and of its `[[routes]]`, once: form, default, sentence, example.
// Invariant: what belongs to the backends of a route (`backendKeys`) is never inherited by a route with backends of its own.
import {
  choice,
  defaulted,
  defaultsOf,
  either,
  type Form,
  flag,
  integerChoice,
  type Keys,
  list,
  mapped,
  misplaced,
  named,
  optional,
  quote,
  Refusal,
  required,
  table,
  tables,
  text,
  type Value,
} from './form.ts';
import { hostPolicy, rationale } from './gate-keys.ts';
import { misplacedLimits, overridable } from './limit-keys.ts';
import {
  backend,
  count,
  duration,
  fieldValue,
  filePath,
  hostField,
  hostName,
  hostPattern,
  isToken,
  pathPrefix,
  probePath,
  redirectTarget,
  routePath,
  size,
  tlsVersion,
  token,
  type WrittenBackend,
} from './values.ts';

const day = 86_400_000;

// ---- routes ----------------------------------------------------------------------------------------------------

/** Fields that frame a message or belong to one connection: they are the proxy's own. */
const ownFields = new Set(
  'connection content-length http2-settings keep-alive proxy-connection te trailer transfer-encoding upgrade'.split(
    ' ',
  ),
);

function judgeField(name: string): Refusal | null {
  if (!isToken(name)) return new Refusal(`${quote(name)} is not a header name`, 'letters, digits and hyphens');
  const lower = name.toLowerCase();
  if (lower === 'host') return new Refusal('Host is not set by header rules', 'host_header');
  return ownFields.has(lower) ? new Refusal(`${name} is written by the proxy itself`, 'any other header') : null;
}

const fieldName: Form<string> = text('the name of a header', (value) => judgeField(value) ?? value);

const addedValue: Form<readonly string[]> = either('text, or a list of texts', {
  string: mapped(fieldValue, (value): readonly string[] => [value]),
  array: list('a list of texts', fieldValue, { least: 1 }),
});

const headerRules = table('header rules', {
  set: optional(
    named('a table of header names and values', fieldValue, judgeField),
    'Headers that replace whatever was sent.',
    '{ "X-Robots-Tag" = "none" }',
  ),
  add: optional(
    named('a table of header names and values', addedValue, judgeField),
    'Headers that are added as further lines.',
    '{ "X-Note" = ["one", "two"] }',
  ),
  remove: optional(
    list('a list of header names', fieldName, { identity: (name) => name.toLowerCase() }),
    'Headers that are taken away.',
    '["Server"]',
  ),
});

const health = table('a health check', {
  type: defaulted(
    choice('a kind of check', ['http', 'tcp']),
    'http wants a 2xx or 3xx answer to GET; tcp wants the connection accepted.',
    '"http"',
    'http' as const,
  ),
  path: optional(probePath, 'What the http check asks for; "/" when left out.', '"/healthz"'),
  host: optional(hostField, "Host of the http check. Left out: the route's host.", '"app.example.com"'),
  interval: defaulted(duration({ least: 100, most: day }), 'Time between two checks.', '"5s"', 5000),
  timeout: defaulted(
    duration({ least: 10, most: 600_000 }),
    'A check without an answer fails after this.',
    '"2s"',
    2000,
  ),
  healthy_after: defaulted(count(1, 100), 'Good results in a row that bring a backend back.', '2', 2),
  unhealthy_after: defaulted(count(1, 100), 'Bad results in a row that take a backend out.', '3', 3),
});

export const passiveHealth = table('passive health', {
  failures: defaulted(
    count(0, 1000),
    'Failed requests in a row that take a backend out for a while; 0: never.',
    '5',
    5,
  ),
  eject: defaulted(duration({ least: 100, most: day }), 'How long it stays out.', '"10s"', 10_000),
});

export const upstreamTls = table('TLS to the backends', {
  sni: optional(hostName, 'Name to ask for and to verify. Left out: the host name in the address.', '"app.internal"'),
  ca_file: optional(filePath, "PEM bundle of issuers to trust. Left out: the system's.", '"certs/internal-ca.pem"'),
  verify: defaulted(flag, 'False takes any certificate: no protection against an attacker in between.', 'true', true),
  cert_file: optional(filePath, 'Client certificate to show, PEM.', '"certs/client.pem"'),
  key_file: optional(filePath, 'Its private key, PEM.', '"certs/client.key"'),
});

const encodings = ['zstd', 'br', 'gzip'] as const;
const mediaType: Form<string> = text('a media type like "text/html" or "text/*"', (value) =>
  /^[a-z0-9][a-z0-9!#$&^_.+-]*\/(\*|[a-z0-9][a-z0-9!#$&^_.+-]*)$/i.test(value)
    ? value.toLowerCase()
    : new Refusal(`${quote(value)} is not a media type`),
);
const compressible = [
  'text/*',
  'application/javascript',
  'application/json',
  'application/ld+json',
  'application/manifest+json',
  'application/rss+xml',
  'application/atom+xml',
  'application/wasm',
  'application/xhtml+xml',
  'application/xml',
  'application/vnd.ms-fontobject',
  'font/otf',
  'font/ttf',
  'image/svg+xml',
];

const compressionTable = table('compression', {
  encodings: defaulted(
    list('a list of "zstd", "br" and "gzip"', choice('an encoding', encodings), { least: 1, identity: (each) => each }),
    'Encodings to offer, the best first.',
    '["zstd", "br", "gzip"]',
    [...encodings],
  ),
  min_size: defaulted(size({ least: 0, most: 1024 ** 3 }), 'Shorter answers are left alone.', '"1KiB"', 1024),
  types: defaulted(
    list('a list of media types', mediaType, { least: 1, identity: (each) => each }),
    'Media types to compress.',
    JSON.stringify(compressible).replaceAll(',', ', '),
    compressible,
    '["text/*", "application/json"]',
  ),
});

/** `false` is written to switch off what the host has on. */
const compression = either<Value<typeof compressionTable> | false>('true, false or a table', {
  boolean: mapped(flag, (on) => on && { encodings: [...encodings], min_size: 1024, types: compressible }),
  table: compressionTable,
});

const rateLimit = table('a rate limit', {
  requests: required(count(1, 1_000_000), 'Requests a client address may make …', '100'),
  per: defaulted(duration({ least: 1000, most: day }), '… in this time.', '"1s"', 1000),
  burst: optional(count(1, 1_000_000), 'Requests it may make at once. Left out: as many as requests.', '200'),
});

const redirectTable = table('a redirect', {
  to: required(
    redirectTarget,
    'Where to: a URL or a path. {host} stands for the host of the request, {uri} for its path and query.',
    '"https://www.example.com{uri}"',
  ),
  status: defaulted(
    integerChoice('a redirect status', [301, 302, 303, 307, 308]),
    '308 and 307 keep the method, 301 and 308 are permanent.',
    '308',
    308,
  ),
});

const redirect: Form<Value<typeof redirectTable>> = either('a target, or a table with to and status', {
  string: mapped(redirectTarget, (to) => ({ to, status: 308 })),
  table: redirectTable,
});

const respond = table('a fixed answer', {
  status: defaulted(count(200, 599), 'Status of the answer.', '200', 200),
  headers: optional(
    named('a table of header names and values', fieldValue, judgeField),
    'Headers of the answer. Content-Type is text/plain unless set.',
    '{ "Content-Type" = "application/json" }',
  ),
  body: optional(
    text('text', (value) => value),
    'Body of the answer.',
    '"ok"',
  ),
  body_file: optional(
    filePath,
    'File with the body, at most 1 MiB, read when the configuration is.',
    '"pages/closed.html"',
  ),
});

const backends: Form<readonly WrittenBackend[]> = either(backend.accepts, {
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
const backendKeys = {
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
  health: optional(health, 'Active checks. Without them a backend counts as up.', '{ path = "/healthz" }'),
  passive_health: defaulted(
    passiveHealth,
    'What failing requests say about a backend.',
    '{ failures = 5, eject = "10s" }',
    { failures: 5, eject: 10_000 },
  ),
  ...overridable('backends', 'services'),
} as const satisfies Keys;

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
export type UpstreamTlsWritten = Value<typeof upstreamTls>;
export type PathWritten = Value<typeof pathRoute>;
export type HeaderRulesWritten = Value<typeof headerRules>;

/** Keys that may stand in `[external_routes."HOST"]`, refused ones too. */
export const hostKeyNames: readonly string[] = Object.keys(hostKeys);

/** Names of what belongs to the backends, for the check that a route without `to` has none of it. */
export const backendKeyNames: readonly string[] = Object.keys(backendKeys);
