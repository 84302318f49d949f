// Every key of a TOML app manifest, once: form, default, sentence, example. Validation, hints, the JSON Schema and the tables
// of docs/manifests.md come from here.
// Invariant: a key that is not here is refused; secret values have no key at all.
import {
  choice,
  defaulted,
  defaultsOf,
  described,
  either,
  type Form,
  flag,
  type Keys,
  list,
  mapped,
  misplaced,
  named,
  needed,
  optional,
  type Read,
  required,
  table,
  tables,
  type Value,
} from '../config/form.ts';
import { count, port } from '../config/values.ts';
import type { SecretReference, Variable } from './app.ts';
import type { ImageReference } from './image.ts';
import { implies, is, lacks, needs, not } from './json-rules.ts';
import {
  appName,
  judgePlainName,
  judgeVariable,
  plainName,
  plainNames,
  policyName,
  secretName,
  variableNames,
} from './names.ts';
import { unrepeated } from './unrepeated.ts';
import {
  commandLine,
  image,
  listener,
  mountTarget,
  probePath,
  publicHost,
  readinessTimeout,
  someText,
  stopGrace,
  variableValue,
} from './values.ts';

// ---- environment and secrets -----------------------------------------------------------------------------------

/** By name, in the written order. */
const environment: Form<readonly Variable[]> = mapped(
  described(named('a table of variables: NAME = "value"', variableValue, judgeVariable), {
    propertyNames: variableNames,
  }),
  (values) => [...values].map(([name, value]) => ({ name, value })),
);

type Delivered = Omit<SecretReference, 'env'>;

const secret: Form<Delivered> = unrepeated(
  either<Delivered>('the name of a secret, or { name = "…", as = "env" or "file" }', {
    string: mapped(secretName, (name) => ({ secret: name, delivery: 'env' })),
    table: mapped(
      table('a secret', {
        name: required(secretName, 'Name of the secret; its value is set by command.', '"api-key"'),
        as: defaulted(
          choice('a way to deliver a secret', ['env', 'file']),
          'env sets the variable. file mounts /run/secrets/ENV (mode 0444) and sets ENV_FILE instead.',
          '"env"',
          'env' as const,
        ),
      }),
      ({ name, as }) => ({ secret: name, delivery: as }),
    ),
  }),
  ['string', 'table'],
  'is not the name of a secret',
);

const secrets: Form<readonly SecretReference[]> = mapped(
  described(named('a table of variables: NAME = "secret-name"', secret, judgeVariable), {
    propertyNames: variableNames,
  }),
  (values) => [...values].map(([env, delivered]) => ({ env, ...delivered })),
);

// ---- a service -------------------------------------------------------------------------------------------------

const readinessKeys = {
  type: required(
    choice('a kind of readiness', ['http', 'tcp', 'log', 'none']),
    'http: GET on the port answers 200–399. tcp: a connection is accepted and then gets data or stays open for 300 ms. ' +
      'log: the output since the start contains a text. none: as if there were no [readiness].',
    '"http"',
  ),
  path: optional(probePath, 'http only, and needed there: what is asked for.', '"/healthz"'),
  port: optional(
    port,
    'http and tcp: a declared port. Left out: the only public HTTP port, else the only port that takes TCP connections.',
    '3000',
  ),
  contains: optional(someText('text'), 'log only, and needed there: the text to wait for.', '"listening"'),
  timeout: defaulted(readinessTimeout, 'The service has failed when it is not ready by then.', '"30s"', 30_000),
  consecutive: defaulted(count(1, 10), 'http and tcp: successes in a row that are needed.', '1', 1),
} as const satisfies Keys;

const httpKeys = {
  visibility: defaulted(
    choice('a visibility', ['public', 'internal', '']),
    'public is routed by its host; internal is reachable from the networks of the service only. Empty is public.',
    '"public"',
    'public' as const,
  ),
  host: optional(publicHost, 'public only, and needed there: the host name.', '"blog.example.com"'),
  port: required(port, 'Port in the container.', '3000'),
  tls: optional(
    choice('a TLS policy', ['auto', 'always', 'never']),
    'public only. auto redirects to https where there is an https entrypoint, always never answers in the clear, never is ' +
      'plaintext without a certificate. Left out: auto.',
    '"auto"',
  ),
} as const satisfies Keys;

const readiness = described(table('readiness', readinessKeys), {
  allOf: [
    implies(is('type', 'http'), needs('path')),
    implies(not(is('type', 'http')), lacks('path')),
    implies(is('type', 'log'), needs('contains')),
    implies(not(is('type', 'log')), lacks('contains')),
    implies(is('type', 'log', 'none'), lacks('port', 'consecutive')),
  ],
});

const internal = is('visibility', 'internal');

const http = described(table('an HTTP interface', httpKeys), {
  allOf: [implies(internal, lacks('host', 'tls')), implies(not(internal), needs('host'))],
});

const portKeys = {
  entrypoint: required(someText('the name of an entrypoint'), 'Name of an entrypoint of the installation.', '"game"'),
  port: required(port, 'Port in the container.', '25565'),
  publish: optional(
    listener,
    "The entrypoint's own host and port, written out so that nothing wider is opened than the manifest says.",
    '"0.0.0.0:25565"',
  ),
} as const satisfies Keys;

const volumeKeys = {
  name: required(plainName, 'Name of the volume. It belongs to one service.', '"web-data"'),
  path: required(mountTarget, 'Where it is mounted in the container.', '"/data"'),
  readonly: defaulted(flag, 'The service cannot write to it.', 'false', false, 'true'),
} as const satisfies Keys;

const bindKeys = {
  name: required(policyName, 'Name of an [app_mounts.NAME] policy; never a path of the host.', '"app-logs"'),
  path: required(mountTarget, 'Where it is mounted in the container.', '"/var/log/app"'),
  readonly: defaulted(flag, 'Read-only; the policy can make it so too.', 'false', false, 'true'),
  source: misplaced('a manifest never carries a path of the host', 'the name of an [app_mounts.NAME] policy'),
} as const satisfies Keys;

const databaseKeys = {
  name: required(plainName, 'Name of the database.', '"main"'),
  type: required(choice('a supported database', ['postgres']), 'Kind of database.', '"postgres"'),
  schedule: required(
    choice('a schedule', ['hourly', 'daily', 'weekly', 'monthly']),
    'How often it is backed up, if [backup] lists it.',
    '"daily"',
  ),
} as const satisfies Keys;

const references = list('a list of names', plainName, { identity: (each) => each });

const backupKeys = {
  postgres: defaulted(references, 'Declared databases to back up.', '[]', [], '["main"]'),
  volume: defaulted(references, 'Declared volumes to back up.', '[]', [], '["web-data"]'),
} as const satisfies Keys;

const telemetryKeys = {
  logs: required(flag, 'Export what the services write to stdout and stderr.', 'false'),
} as const satisfies Keys;

/** Stands for an image that was refused. */
const noImage: ImageReference = { registry: '', repository: '', tag: null, digest: null };

const serviceKeys = {
  image: needed(image, 'The image; without a tag, latest.', '"registry.example.com/blog:1.4.2"', noImage),
  command: optional(commandLine, "Instead of the image's own command.", '["node", "server.js"]'),
  stop_grace: defaulted(stopGrace, 'Time from SIGTERM to SIGKILL.', '"30s"', 30_000),
  devices: defaulted(
    list('a list of names', policyName, { identity: (each) => each }),
    'Names of [app_devices.NAME] policies.',
    '[]',
    [],
    '["transcode-gpu"]',
  ),
  readiness: optional(
    readiness,
    'When the service counts as ready. Left out: see "Readiness".',
    '{ type = "http", path = "/healthz" }',
  ),
  http: defaulted(tables('[[services.NAME.http]] tables', http), 'HTTP interfaces.', '[]', []),
  tcp: defaulted(
    tables('[[services.NAME.tcp]] tables', table('a TCP interface', portKeys)),
    'TCP interfaces.',
    '[]',
    [],
  ),
  udp: defaulted(
    tables('[[services.NAME.udp]] tables', table('a UDP interface', portKeys)),
    'UDP interfaces.',
    '[]',
    [],
  ),
  env: defaulted(
    environment,
    'Public environment of this service; wins over [env].',
    '{}',
    [],
    '{ LOG_LEVEL = "debug" }',
  ),
  secrets: defaulted(
    secrets,
    'Variables whose values are secrets: NAME = "secret-name", or { name = "…", as = "file" }.',
    '{}',
    [],
    '{ API_KEY = "api-key" }',
  ),
  volume: defaulted(
    tables('[[services.NAME.volume]] tables', table('a volume', volumeKeys)),
    'Named volumes.',
    '[]',
    [],
  ),
  bind: defaulted(
    tables('[[services.NAME.bind]] tables', table('a bind', bindKeys)),
    'Directories of the host that the operator grants.',
    '[]',
    [],
  ),
  database: defaulted(
    tables('[[services.NAME.database]] tables', table('a database', databaseKeys)),
    'Databases.',
    '[]',
    [],
  ),
  backup: defaulted(table('backup', backupKeys), 'What is backed up; nothing else is.', '{}', defaultsOf(backupKeys)),
  telemetry: optional(table('telemetry', telemetryKeys), 'Overrides the telemetry of the app.', '{ logs = true }'),
  host: misplaced('belongs to an interface', '[[services.NAME.http]]'),
  port: misplaced('belongs to an interface', '[[services.NAME.http]] or [[services.NAME.tcp]]'),
  replicas: misplaced('a service has exactly one container', 'leave it out'),
  rcon: misplaced('RCON is ordinary TCP', '[[services.NAME.tcp]]'),
  name: misplaced('the name of a service is the key of its table', '[services.NAME]'),
  ports: misplaced(
    'ports are declared as interfaces',
    '[[services.NAME.http]], [[services.NAME.tcp]], [[services.NAME.udp]]',
  ),
  build: misplaced('a service of this format runs an image', 'image'),
} as const satisfies Keys;

export const serviceKeyNames: readonly string[] = Object.keys(serviceKeys);

// ---- the file --------------------------------------------------------------------------------------------------

const sharedKeys = {
  network: required(plainName, 'Name of the network, shared with other apps that name it.', '"backend"'),
  services: required(
    list('a list of services', plainName, { least: 1, identity: (each) => each }),
    'Services of this app that join it.',
    '["web"]',
  ),
} as const satisfies Keys;

const networkKeys = {
  shared: defaulted(
    tables('[[network.shared]] tables', table('a shared network', sharedKeys)),
    'Shared networks.',
    '[]',
    [],
  ),
} as const satisfies Keys;

const service = table('a service', serviceKeys);

const ofService = misplaced('belongs to a service', '[services.NAME]');

const rootKeys = {
  name: needed(appName, 'Name of the app.', '"blog"', ''),
  env: defaulted(environment, 'Public environment of all services.', '{}', [], '{ APP_ENV = "production" }'),
  services: optional(
    described(named('a table [services.NAME]', service, judgePlainName), {
      propertyNames: plainNames,
      minProperties: 1,
    }),
    'Services by name; at least one.',
    '{ web = { image = "registry.example.com/blog:1.4.2" } }',
  ),
  network: defaulted(
    table('network', networkKeys),
    'Networks beside the private one of the app.',
    '{}',
    defaultsOf(networkKeys),
  ),
  telemetry: optional(table('telemetry', telemetryKeys), 'Telemetry of all services.', '{ logs = false }'),
  image: ofService,
  command: ofService,
  devices: ofService,
  stop_grace: ofService,
  readiness: ofService,
  http: ofService,
  tcp: ofService,
  udp: ofService,
  secrets: misplaced('belongs to a service', '[services.NAME.secrets]'),
  volume: ofService,
  bind: ofService,
  database: ofService,
  backup: ofService,
} as const satisfies Keys;

export const tomlManifest: Form<TomlManifest> = described(table('the manifest', rootKeys), {
  required: ['name', 'services'],
});

export type TomlManifest = Read<typeof rootKeys>;
export type TomlService = Value<typeof service>;
