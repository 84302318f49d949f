// Every key of a YAML app manifest below `app:`, once: form, default, sentence, example.
// Invariant: a key inside a typed block that is not here is refused; at the top level it becomes an extension, which is kept
// and shown and never acted on.
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
  named,
  needed,
  optional,
  quote,
  type Read,
  Refusal,
  required,
  table,
  tables,
  text,
  type Value,
} from '../config/form.ts';
import { type AuthPolicy, authPolicies, type Dependency } from './app.ts';
import { implies, is, lacks, needs, not } from './json-rules.ts';
import { appName, judgePlainName } from './names.ts';
import { anyText, oneLine } from './values.ts';
import {
  container,
  devices,
  environment,
  fileKeys,
  healthKeys,
  hookKeys,
  resourceKeys,
  securityDefaults,
  securityKeys,
  volumeKeys,
} from './yaml-container-keys.ts';
import { bindAddress, hostPort, memory } from './yaml-values.ts';

// ---- ports -----------------------------------------------------------------------------------------------------

/** Written and empty is `session`; a missing key is no instruction. */
const auth: Form<AuthPolicy> = either<AuthPolicy>(`${authPolicies.join(', ')}; empty is session`, {
  string: {
    ...choice('a policy', authPolicies),
    read: (node, path, findings) =>
      node.kind === 'string' && node.value === ''
        ? 'session'
        : choice('a policy', authPolicies).read(node, path, findings),
    json: { enum: ['', ...authPolicies] },
  },
  null: { accepts: 'nothing', keys: null, members: null, json: { type: 'null' }, read: () => 'session' },
});

const portKeys = {
  host: required(hostPort, 'Port of this machine.', '8090'),
  container: required(hostPort, 'Port in the container.', '8080'),
  protocol: defaulted(choice('a protocol', ['tcp', 'udp']), 'Transport.', 'tcp', 'tcp' as const),
  bind: defaulted(bindAddress, 'Address of this machine; empty: every address.', '""', '', '127.0.0.1'),
  auth: optional(auth, 'Policy of the gate. Left out: no instruction.', 'gated'),
  auth_rationale: optional(
    oneLine,
    'Why none or open is safe; needed there, refused elsewhere.',
    '"has its own login"',
  ),
  session_passthrough: defaulted(flag, 'gated only: the app gets the session cookie.', 'false', false, 'true'),
} as const satisfies Keys;

const explained = is('auth', 'none', 'open');

const portTable = described(table('a port', portKeys), {
  allOf: [implies(explained, needs('auth_rationale')), implies(not(explained), lacks('auth_rationale'))],
});

/** The short form of Compose is refused with the long one. */
const portOrHint: Form<Value<typeof portTable>> = {
  ...either<Value<typeof portTable>>('a table like { host: 8090, container: 8080 }', {
    table: portTable,
    string: text<never>('a table like { host: 8090, container: 8080 }', (value) => {
      const short = /^(\d+):(\d+)$/.exec(value);
      const accepted = short === null ? null : `{ host: ${short[1]}, container: ${short[2]} }`;
      return new Refusal(`${quote(value)} is a string, not a table`, accepted);
    }),
  }),
  json: portTable.json,
};

const ports = tables('a list like { host: 8090, container: 8080 }', portOrHint);

// ---- what is shown ---------------------------------------------------------------------------------------------

const interfaceKeys = {
  name: optional(oneLine, 'Shown.', 'Web UI'),
  description: optional(anyText, 'Shown.', 'The main page'),
  type: optional(oneLine, 'Shown.', 'ui'),
  port: optional(hostPort, 'Port of this machine.', '8090'),
  protocol: optional(oneLine, 'Shown.', 'http'),
  path: optional(oneLine, 'Shown.', '/'),
} as const satisfies Keys;

const upstreamKeys = {
  kind: required(
    choice('a kind of upstream', ['github', 'dockerhub', 'internal', 'manual']),
    'Where new versions appear.',
    'github',
  ),
  repo: optional(
    text('owner/name', (value) =>
      /^[A-Za-z0-9_.-]{1,100}\/[A-Za-z0-9_.-]{1,100}$/.test(value)
        ? value
        : new Refusal(`${quote(value)} is not owner/name`),
    ),
    'github and dockerhub, and needed there.',
    'fedimint/fedimint',
  ),
  url: optional(
    text('an http or https URL', (value) =>
      /^https?:\/\//.test(value) && URL.canParse(value) ? value : new Refusal(`${quote(value)} is not a URL`),
    ),
    'manual, and needed there.',
    'https://example.com/releases',
  ),
} as const satisfies Keys;

// ---- dependencies ----------------------------------------------------------------------------------------------

const dependencyKeys = {
  storage: optional(memory, 'Free space that is needed.', '"10GB"'),
  app_id: optional(appName, 'Another app.', 'bitcoin'),
  version: optional(oneLine, 'Of the other app; shown.', '">=27"'),
} as const satisfies Keys;

const dependencyTable = table('a dependency', dependencyKeys);

export type WrittenDependency = Dependency | null;

const dependency: Form<WrittenDependency> = either<WrittenDependency>(
  'the id of an app, { app_id: …, version: … } or { storage: "10GB" }',
  {
    string: mapped(appName, (app): WrittenDependency => ({ kind: 'app', app, version: null })),
    table: mapped(dependencyTable, ({ storage, app_id, version }): WrittenDependency => {
      if (app_id !== null && storage === null) return { kind: 'app', app: app_id, version };
      return storage !== null && app_id === null && version === null ? { kind: 'storage', bytes: storage } : null;
    }),
  },
);

// ---- the app ---------------------------------------------------------------------------------------------------

const resources = table('resources', resourceKeys);
const hooks = table('hooks', hookKeys);
const dependencies: Form<readonly WrittenDependency[]> = list('a list of dependencies', dependency);

const appKeys = {
  id: needed(appName, 'Id of the app; the folder of the manifest is called so too.', 'myapp', ''),
  name: needed(oneLine, 'Name that is shown.', 'My App', ''),
  version: needed(oneLine, 'Version that is shown.', '"1.0.0"', ''),
  description: optional(anyText, 'Shown.', 'Does something useful'),
  container: optional(container, 'Left out: the app runs outside; only ports and interfaces apply.', '{ image: … }'),
  dependencies: defaulted(dependencies, 'Other apps, and space.', '[]', []),
  resources: defaulted(resources, 'Limits of the container.', '{}', defaultsOf(resourceKeys)),
  security: defaulted(table('security', securityKeys), 'What the container may do.', '{}', securityDefaults),
  ports: defaulted(ports, 'Ports of this machine, and who may use them.', '[]', []),
  volumes: defaulted(tables('a list of volumes', table('a volume', volumeKeys)), 'Mounts.', '[]', []),
  files: defaulted(
    tables('a list of files', table('a file', fileKeys)),
    'Written before the container is made.',
    '[]',
    [],
  ),
  environment: defaulted(environment, 'Variables: "KEY=value".', '[]', [], '["LOG_LEVEL=info"]'),
  health_check: optional(
    table('health_check', healthKeys),
    'When the app counts as ready.',
    '{ type: http, path: /health }',
  ),
  devices: defaulted(devices, 'Devices of this machine.', '[]', [], '[/dev/ttyUSB0]'),
  interfaces: defaulted(
    named('a table of launch surfaces', table('an interface', interfaceKeys), judgePlainName),
    'Launch surfaces, by key.',
    '{}',
    new Map(),
    '{ main: { type: ui, port: 8090 } }',
  ),
  hooks: defaulted(hooks, 'Steps in the container.', '{}', defaultsOf(hookKeys)),
  upstream: optional(
    table('upstream', upstreamKeys),
    'Where the app comes from.',
    '{ kind: github, repo: owner/name }',
  ),
} as const satisfies Keys;

/** What is not a key of the schema was taken out before it is read. */
export const yamlApp: Form<YamlApp> = described(table('app', appKeys), { additionalProperties: true });
export const appKeyNames: readonly string[] = Object.keys(appKeys);

/** Where a key belongs that is easily written one block too high. */
export const blockOf: ReadonlyMap<string, string> = new Map([
  ...Object.keys(container.keys ?? {}).map((name) => [name, `container.${name}`] as const),
  ...Object.keys(securityKeys).map((name) => [name, `security.${name}`] as const),
  ...Object.keys(portKeys).map((name) => [name, `${name} of a port`] as const),
]);

export type YamlApp = Read<typeof appKeys>;
export type YamlContainer = Value<typeof container>;
export type YamlPort = Value<typeof portTable>;
export type YamlHealth = NonNullable<YamlApp['health_check']>;
export type YamlVolume = YamlApp['volumes'][number]['value'];
