// The keys of what operators grant to apps and how they run them: `[apps]`, `[images]`, `[app_mounts]`, `[app_devices]`,
// `[secrets]`, `[backups]`, `[telemetry]`. Once: form, default, sentence, example.
// Invariant: an allow-list is written out; nothing stands for "everyone".
import { canonicalHost } from '../model/host.ts';
import type { Backend } from '../model/snapshot.ts';
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
  named,
  openTable,
  optional,
  quote,
  Refusal,
  required,
  table,
  text,
  type Value,
} from './form.ts';
import { command, httpUrl, secretFile } from './outside-values.ts';
import { count, filePath, parseBackend } from './values.ts';

// ---- names -----------------------------------------------------------------------------------------------------

export function judgeApp(value: string): Refusal | null {
  return /^[a-z0-9]+(-[a-z0-9]+)*$/.test(value) && value.length <= 63
    ? null
    : new Refusal(`${quote(value)} is not the name of an app`, 'lower-case letters, digits and single hyphens');
}

/** Services, mounts and devices. */
export function judgeAppPart(value: string): Refusal | null {
  return /^[a-z0-9_.-]{1,63}$/.test(value)
    ? null
    : new Refusal(`${quote(value)} is not a name`, 'lower-case letters, digits, ".", "_" and "-", at most 63');
}

function judgePolicy(value: string): Refusal | null {
  return value.includes('--') ? new Refusal(`${quote(value)} has two hyphens in a row`) : judgeAppPart(value);
}

export const appName: Form<string> = text('the name of an app', (value) => judgeApp(value) ?? value);

const grantKeys = {
  allowed_apps: required(
    list('a list of names of apps, like ["blog"]', appName, { least: 1, identity: (each) => each }),
    'Apps that may use it, by name: exactly these.',
    '["blog"]',
  ),
  allowed_services: required(
    list(
      'a list of names of services, like ["web"]',
      text('the name of a service', (value) => judgeAppPart(value) ?? value),
      { least: 1, identity: (each) => each },
    ),
    'Services of those apps that may use it: exactly these.',
    '["web"]',
  ),
} as const satisfies Keys;

// ---- apps ------------------------------------------------------------------------------------------------------

/** Port 0 asks for a free one. */
const processAddress: Form<Backend> = text('"127.0.0.1:3001", or "127.0.0.1:0" for a free port', (value) => {
  const free = /:0$/.test(value);
  const parsed = parseBackend(free ? value.replace(/0$/, '1') : value);
  if (parsed instanceof Refusal) return parsed;
  const { address, host, port, scheme } = parsed;
  if (scheme !== null) return new Refusal(`${quote(value)} has a scheme`, `"${address}"`);
  return free ? { address: address.replace(/1$/, '0'), host, port: 0 } : { address, host, port };
});

const processTable = table('the process of a service', {
  start: optional(
    command,
    'Program and arguments that run the service, not through a shell. {address}, {host} and {port} stand for its address; ' +
      'the port is in PORT, too.',
    '["/usr/bin/node", "server.js", "--port", "{port}"]',
  ),
  stop: optional(
    command,
    'Program and arguments that end it. Left out: SIGTERM to what start left running.',
    '["/usr/bin/systemctl", "stop", "blog"]',
  ),
  address: optional(
    processAddress,
    'Where it listens. Left out or with port 0, what start runs gets a free port each time, so that old and new run side ' +
      'by side.',
    '"127.0.0.1:0"',
  ),
});

const appsKeys = {
  directory: optional(filePath, 'Where manifests lie: NAME.toml, and ID/manifest.yml.', '"apps"'),
  watch: defaulted(flag, 'Apply a manifest in directory when it changes.', 'false', false, 'true'),
  deploy: defaulted(
    choice('a way to deploy', ['manual', 'auto']),
    'With watch: auto deploys what was applied, manual waits for `turnpike apps deploy`.',
    '"manual"',
    'manual' as const,
  ),
  data_root: optional(
    filePath,
    'Directory under which YAML apps may bind host directories. Left out: data in state_dir.',
    '"/srv/apps"',
  ),
  auto_rollback: defaulted(
    flag,
    'Go back to the generation before when a new one fails its passive health in the first minute.',
    'false',
    false,
    'true',
  ),
  history: defaulted(count(2, 1000), 'Revisions that are kept of each app.', '20', 20),
} as const satisfies Keys;

const appProcesses = named('a table [apps.APP.SERVICE]', processTable, judgeAppPart);

/** Apps without an engine stand between the keys, as `[apps.APP.SERVICE]`. */
export const apps = openTable('apps', appsKeys, 'a table [apps.APP.SERVICE]', appProcesses, judgeApp);
export const appsDefaults: Value<typeof apps> = { ...defaultsOf(appsKeys), others: new Map() };

// ---- images ----------------------------------------------------------------------------------------------------

const registry: Form<string> = text('a registry like "registry.example.com" or "127.0.0.1:5000"', (value) => {
  if (value.includes('*')) return new Refusal(`${quote(value)} has a wildcard`, 'each registry by its exact name');
  if (/[/?#@]/.test(value)) return new Refusal(`${quote(value)} is more than a host and a port`);
  const [, name = '', port] = /^(.*?)(?::(\d{1,5}))?$/s.exec(value) ?? [];
  const host = canonicalHost(name);
  const right = host !== null && (port === undefined || (Number(port) >= 1 && Number(port) <= 65535));
  if (!right) return new Refusal(`${quote(value)} is not a registry`);
  return port === undefined ? host : `${host}:${Number(port)}`;
});

export const imagesKeys = {
  registry: optional(registry, 'The registry of this installation.', '"registry.example.com:5000"'),
  allowed_registries: defaulted(
    list('a list of registries, like ["registry.example.com:5000"]', registry, { identity: (each) => each }),
    'Registries that images may come from besides Docker Hub, ghcr.io, quay.io and the one above. Exact host and port.',
    '[]',
    [],
    '["registry.example.com:5000"]',
  ),
  require_digest: defaulted(flag, 'Take no image without @sha256:….', 'false', false, 'true'),
} as const satisfies Keys;

// ---- what manifests may name -----------------------------------------------------------------------------------

export const mount = table('a mount', {
  source: required(filePath, 'Directory or file of the host.', '"/var/log/blog"'),
  read_only: defaulted(flag, 'Never writable, whatever a manifest says.', 'false', false, 'true'),
  ...grantKeys,
});

const cdiName: Form<string> = text('a CDI name like "nvidia.com/gpu=0"', (value) =>
  /^[A-Za-z][A-Za-z0-9_.-]*\/[A-Za-z][A-Za-z0-9_-]*=[A-Za-z0-9][A-Za-z0-9_.:-]*$/.test(value)
    ? value
    : new Refusal(`${quote(value)} is not a CDI name`),
);

const cdiNames: Form<readonly string[]> = either('a CDI name like "nvidia.com/gpu=0", or a list of them', {
  string: mapped(cdiName, (one): readonly string[] => [one]),
  array: list('a list of CDI names', cdiName, { least: 1, identity: (each) => each }),
});

export const device = table('a device', {
  cdi: required(cdiNames, 'Devices of the host by their CDI names: one, or a list.', '["nvidia.com/gpu=0"]'),
  ...grantKeys,
});

export const appMounts = named('a table [app_mounts.NAME]', mount, judgePolicy);
export const appDevices = named('a table [app_devices.NAME]', device, judgePolicy);
export type MountWritten = Value<typeof mount>;
export type DeviceWritten = Value<typeof device>;

// ---- secrets, backups, telemetry -------------------------------------------------------------------------------

export const secretsKeys = {
  backend: defaulted(
    choice('a store of secrets', ['file', 'pass']),
    'Where secrets of apps are kept: encrypted files in state_dir, or the password store `pass`.',
    '"file"',
    'file' as const,
  ),
} as const satisfies Keys;

export const backupsKeys = {
  directory: optional(filePath, 'Where backups are kept. Left out: backups in state_dir.', '"/srv/backups"'),
  keep: defaulted(
    count(1, 10_000),
    'How many are kept of each database and volume; an old one goes only after a new one succeeded.',
    '7',
    7,
  ),
} as const satisfies Keys;

export const telemetry = table('telemetry', {
  endpoint: required(
    httpUrl,
    'Base URL of an OTLP receiver over HTTP; /v1/logs and so on are put behind.',
    '"http://127.0.0.1:4318"',
  ),
  headers_file: optional(
    secretFile,
    'File with headers to send along, one "Name: value" a line.',
    '"secrets/otlp-headers"',
  ),
  logs: defaulted(flag, 'Send what the containers of apps print; a manifest may opt out.', 'false', false, 'true'),
  traces: defaulted(flag, 'Send a span for each request.', 'false', false, 'true'),
  metrics: defaulted(flag, 'Send the metrics, too.', 'false', false, 'true'),
});
