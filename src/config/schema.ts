// Every key of config.toml, once: form, default, sentence, example. Validation, the hints for unknown keys, the check of
// config.example.toml and the tables of docs/configuration.md all come from here.
// Invariant: a key that is not here is refused; a key that is here does something.
import { acme, acmeDefaults } from './acme-keys.ts';
import {
  appDevices,
  appMounts,
  apps,
  appsDefaults,
  backupsKeys,
  imagesKeys,
  secretsKeys,
  telemetry,
} from './app-keys.ts';
import {
  choice,
  defaulted,
  defaultsOf,
  either,
  type Form,
  flag,
  type Keys,
  named,
  optional,
  type Read,
  type Refusal,
  required,
  table,
  tables,
  text,
  type Value,
} from './form.ts';
import { gate, gateDefaults, judgeGated } from './gate-keys.ts';
import { globalLimits, misplacedLimits, overridable, strayLimits } from './limit-keys.ts';
import { networkService, routerKeys } from './network-keys.ts';
import { secretFile } from './outside-values.ts';
import { externalRoute } from './route-keys.ts';
import {
  cap,
  cidrs,
  count,
  filePath,
  hostName,
  judgeName,
  listenAddress,
  name,
  parsePattern,
  port,
  tlsVersion,
} from './values.ts';

// ---- entrypoints -----------------------------------------------------------------------------------------------

const protocols = ['http', 'https', 'smart_tcp', 'tls_mux', 'tcp', 'udp'] as const;

const entrypointKeys = {
  address: required(listenAddress, 'Where to listen. Without a host: every address, IPv4 and IPv6.', '":8080"'),
  protocol: required(
    choice('a protocol', protocols),
    'http takes HTTP/1.1 and HTTP/2 with prior knowledge; https takes TLS with HTTP/1.1 and HTTP/2; tcp and udp pass ' +
      'everything to one service; tls_mux is https and passes the names of [[routers.tls]] on unopened; smart_tcp takes ' +
      'all of it on one port.',
    '"http"',
  ),
  public_port: optional(
    port,
    'The port clients reach when a port mapping lies in front. Redirects to https use it.',
    '443',
  ),
  trusted_cidrs: defaulted(
    cidrs,
    'Networks that may connect, by the address of the connection; empty: everyone.',
    '[]',
    [],
    '["10.0.0.0/8"]',
  ),
  trusted_proxies: optional(
    cidrs,
    'Networks whose X-Forwarded-* are believed on this entrypoint. Left out: the top-level trusted_proxies.',
    '["10.0.0.0/8"]',
  ),
  proxy_protocol_from: defaulted(
    cidrs,
    'Networks whose connections must begin with a PROXY protocol header, version 1 or 2. From all others the header is ' +
      'not understood.',
    '[]',
    [],
    '["10.0.0.7/32"]',
  ),
  raw_fallback: optional(
    name,
    'smart_tcp only: the network service that gets what is neither HTTP nor TLS. The client must speak first.',
    '"ssh"',
  ),
  raw_fallback_trusted_cidrs: optional(
    cidrs,
    'Networks that may reach raw_fallback. Either this or allow_public_raw_fallback is needed.',
    '["10.0.0.0/8"]',
  ),
  allow_public_raw_fallback: defaulted(
    flag,
    'Everyone who may connect may reach raw_fallback.',
    'false',
    false,
    'true',
  ),
  max_connections: optional(
    cap(1, 1_000_000),
    'Overrides limits.connections (limits.tcp_connections for tcp). Client connections, shared out over the workers.',
    '10000',
  ),
  ...overridable('entrypoint'),
  ...misplacedLimits('entrypoint'),
  requires_session: optional(
    text('the name of an app, or the host of an external route', (value) => judgeGated(value) ?? value),
    'tcp and udp only: take connections and datagrams from addresses alone where a user of this app is logged in.',
    '"minecraft"',
  ),
} as const satisfies Keys;

const entrypoint = table('an entrypoint', entrypointKeys);

// ---- TLS -------------------------------------------------------------------------------------------------------

const certificateKeys = {
  cert_file: optional(
    filePath,
    'PEM file with the certificate and its chain, leaf first. Watched.',
    '"certs/site.pem"',
  ),
  key_file: optional(filePath, 'PEM file with the private key.', '"certs/site.key"'),
  pkcs12_file: optional(filePath, 'PKCS#12 file, instead of cert_file and key_file.', '"certs/site.p12"'),
  passphrase_file: optional(
    filePath,
    'File whose first line is the passphrase of the key or of the PKCS#12 file.',
    '"certs/site.pass"',
  ),
  default: defaulted(
    flag,
    'Serve this one to clients that name no host, or one that no certificate covers.',
    'false',
    false,
    'true',
  ),
} as const satisfies Keys;

const certificate = table('a certificate', certificateKeys);

const tlsKeys = {
  redirect: defaulted(flag, 'Send plaintext requests for hosts with tls = "auto" to https (308).', 'true', true),
  profile: defaulted(
    choice('a profile', ['intermediate', 'modern']),
    "Mozilla's recommendation to follow: intermediate is TLS 1.2 and 1.3, modern is TLS 1.3 only.",
    '"intermediate"',
    'intermediate' as const,
  ),
  min_version: optional(
    tlsVersion,
    'Lowest TLS version. Left out: what the profile says. A host may ask for another.',
    '"1.2"',
  ),
  default_certificate: optional(
    hostName,
    'Host whose certificate is served to clients that name no host, or one that no certificate covers.',
    '"app.example.com"',
  ),
  certificate: defaulted(
    tables('[[tls.certificate]] tables', certificate),
    'A certificate of your own, one table for each.',
    '[]',
    [],
  ),
  internal_ca: defaulted(
    table('the internal CA', {
      enabled: defaulted(
        flag,
        'Sign certificates for configured hosts that have no other, with a CA kept in state_dir.',
        'false',
        false,
        'true',
      ),
    }),
    'A certificate authority of its own, for machines that have no public name.',
    '{ enabled = false }',
    { enabled: false },
  ),
  acme: defaulted(acme, 'Certificates from an authority, ordered and renewed without you (ACME).', '{}', acmeDefaults),
} as const satisfies Keys;

// ---- the file --------------------------------------------------------------------------------------------------

const logKeys = {
  level: defaulted(
    choice('a log level', ['error', 'warn', 'info', 'debug']),
    'Least weight of the events that are logged.',
    '"info"',
    'info' as const,
  ),
  access: defaulted(flag, 'One line for every request.', 'true', true),
  format: defaulted(
    choice('a log format', ['auto', 'json', 'pretty']),
    'auto is pretty on a terminal, else JSON lines.',
    '"auto"',
    'auto' as const,
  ),
} as const satisfies Keys;

const controlKeys = {
  address: optional(
    listenAddress,
    'Administration over TCP, beside the unix socket in state_dir. Beyond this machine with cert_file and key_file only.',
    '"127.0.0.1:8081"',
  ),
  token_file: optional(
    secretFile,
    'File whose first line is the token that every call must bring, at least 32 characters.',
    '"secrets/control"',
  ),
  cert_file: optional(filePath, 'PEM file with the certificate and its chain.', '"certs/control.pem"'),
  key_file: optional(secretFile, 'PEM file with its private key.', '"certs/control.key"'),
} as const satisfies Keys;

const workers = either<number | 'auto'>('"auto" or a whole number from 1 to 256', {
  string: choice<'auto'>('a number of workers', ['auto']),
  integer: count(1, 256),
  float: count(1, 256),
});

const judgePattern = (name: string): Refusal | null => {
  const result = parsePattern(name);
  return typeof result === 'string' ? null : result;
};

const rootKeys = {
  state_dir: defaulted(
    filePath,
    'Where Turnpike keeps its state, its certificates and its control socket. A change needs a restart.',
    '"./.turnpike"',
    './.turnpike',
  ),
  workers: defaulted(workers, 'Worker processes; auto is one per core. A change needs a restart.', '"auto"', 'auto'),
  trusted_proxies: defaulted(
    cidrs,
    'Networks whose X-Forwarded-* are believed; empty: nobody.',
    '[]',
    [],
    '["10.0.0.0/8"]',
  ),
  forwarded_header: defaulted(flag, 'Send Forwarded (RFC 7239) beside X-Forwarded-*.', 'false', false, 'true'),
  entrypoints: defaulted(
    named('a table [entrypoints.NAME]', entrypoint, judgeName),
    'Addresses to listen on, by name.',
    '{}',
    new Map(),
    '{ web = { address = ":8080", protocol = "http" } }',
  ),
  tls: defaulted(table('tls', tlsKeys), 'TLS for all entrypoints.', '{}', defaultsOf(tlsKeys)),
  external_routes: defaulted(
    named('a table [external_routes."HOST"], or "HOST" = "127.0.0.1:3000"', externalRoute, judgePattern),
    'Hosts and where their requests go. Also short: "HOST" = "127.0.0.1:3000".',
    '{}',
    new Map(),
    '{ "app.example.com" = "127.0.0.1:3000" }',
  ),
  network_services: defaulted(
    named('a table [network_services.NAME]', networkService, judgeName),
    'Services that take bytes or datagrams as they come. Routers and raw_fallback lead to them.',
    '{}',
    new Map(),
    '{ git = { tcp = "127.0.0.1:22" } }',
  ),
  routers: defaulted(
    table('routers', routerKeys),
    'What leads from entrypoints to network services.',
    '{}',
    defaultsOf(routerKeys),
  ),
  limits: defaulted(
    table('limits', globalLimits),
    'Limits for all; the nearest one wins (route, host, entrypoint, here).',
    '{}',
    defaultsOf(globalLimits),
  ),
  log: defaulted(table('log', logKeys), 'What is logged, and how.', '{}', defaultsOf(logKeys)),
  metrics: defaulted(
    table('metrics', {
      address: optional(listenAddress, 'Serve Prometheus metrics at /metrics here.', '"127.0.0.1:9464"'),
    }),
    'Metrics for Prometheus. Left out: none are served.',
    '{}',
    { address: null },
  ),
  control: defaulted(table('control', controlKeys), 'Administration over TCP.', '{}', defaultsOf(controlKeys)),
  gate: defaulted(gate, 'Logins in front of apps.', '{}', gateDefaults),
  runtime: defaulted(
    choice('a container engine', ['auto', 'docker', 'podman', 'none']),
    'Engine that runs apps: auto takes the one that answers; none leaves the processes to you.',
    '"auto"',
    'auto' as const,
    '"none"',
  ),
  apps: defaulted(apps, 'Where manifests of apps lie, and how apps are run.', '{}', appsDefaults),
  images: defaulted(table('images', imagesKeys), 'Where images may come from.', '{}', defaultsOf(imagesKeys)),
  app_mounts: defaulted(
    appMounts,
    'Places of the host that manifests may ask for by these names.',
    '{}',
    new Map(),
    '{ logs = { source = "/var/log/blog", allowed_apps = ["blog"], allowed_services = ["web"] } }',
  ),
  app_devices: defaulted(
    appDevices,
    'Devices of the host that manifests may ask for by these names.',
    '{}',
    new Map(),
    '{ gpu = { cdi = "nvidia.com/gpu=0", allowed_apps = ["blog"], allowed_services = ["web"] } }',
  ),
  secrets: defaulted(table('secrets', secretsKeys), 'Where secrets of apps are kept.', '{}', defaultsOf(secretsKeys)),
  backups: defaulted(table('backups', backupsKeys), 'Where backups of apps go.', '{}', defaultsOf(backupsKeys)),
  telemetry: optional(
    telemetry,
    'Export to an OpenTelemetry receiver (OTLP over HTTP).',
    '{ endpoint = "http://127.0.0.1:4318", logs = true }',
  ),
  ...strayLimits,
} as const satisfies Keys;

export const schema: Form<Config> = table('the configuration', rootKeys);

/** The whole file as read: names as in the file, defaults filled in, null for what was left out. */
export type Config = Read<typeof rootKeys>;
export type EntrypointWritten = Value<typeof entrypoint>;
export type CertificateWritten = Value<typeof certificate>;
