// What differs between two revisions of an app, as names: `env/KEY`, `service/web/env/KEY`, `service/web/devices`.
// Invariant: never a value, so a diff may be printed and logged; the order in which things were written is no difference.
import { canonicalJson, digestOf } from '../model/digest.ts';
import { type App, type AppService, defaultStopGraceMs, environmentOf, exportsLogs, sharedNetworksOf } from './app.ts';

/**
 * One entry for each thing added, removed or changed, sorted. `null` stands for "no such revision": everything of the
 * other one is listed.
 */
export function diffApps(from: App | null, to: App | null): readonly string[] {
  const before = from === null ? new Map<string, string>() : partsOf(from);
  const after = to === null ? new Map<string, string>() : partsOf(to);
  const entries = new Set<string>();
  for (const [name, part] of before) if (after.get(name) !== part) entries.add(name);
  for (const name of after.keys()) if (!before.has(name)) entries.add(name);
  return [...entries].sort();
}

/** True when two revisions differ in an app-wide variable: then no service can be deployed alone. */
export function changesAppEnv(from: App, to: App): boolean {
  return diffApps(from, to).some((entry) => entry.startsWith('env/'));
}

/**
 * Equal digests: the service need not be recreated as far as the manifest goes; the digest of its image and the versions of
 * its secrets count besides. Schedules and backups follow the declaration without a new container.
 */
export function serviceDigest(app: App, service: AppService): string {
  const { databases: _databases, backup: _backup, telemetryLogs: _logs, ...rest } = service;
  const env = environmentOf(app, service);
  return digestOf({ ...rest, env, logs: exportsLogs(app, service), networks: sharedNetworksOf(app, service) });
}

/** The whole manifest: equal digests mean that applying it again changes nothing. */
export function appDigest(app: App): string {
  return digestOf(app);
}

/** Every named part of an app with its content as text. */
function partsOf(app: App): ReadonlyMap<string, string> {
  const parts = new Map<string, string>();
  const add = (name: string, part: unknown): void => {
    // Two parts of one name (a port that an entrypoint has twice) are one entry.
    parts.set(name, `${parts.get(name) ?? ''}${canonicalJson(part)}\n`);
  };
  const addPresent = (name: string, part: unknown): void => {
    if (part !== null && canonicalJson(part) !== '[]') add(name, part);
  };
  const { title, version, description, upstream, launch, extensions } = app.display;
  addPresent('display/name', title === app.name ? null : title);
  addPresent('display/version', version);
  addPresent('display/description', description);
  addPresent('display/upstream', upstream);
  for (const { key, ...surface } of launch) add(`interface/${key}`, surface);
  for (const [key, value] of Object.entries(extensions)) add(`extension/${key}`, value);
  for (const { name, value } of app.env) add(`env/${name}`, value);
  for (const { network, services } of app.sharedNetworks) add(`network/${network}`, services);
  if (!app.telemetryLogs) add('telemetry/logs', false);
  for (const { host, protocol, ...port } of app.ports) add(`port/${host}/${protocol}`, port);
  if (app.external) add('container', null);
  addPresent('dependencies', app.dependencies);
  for (const service of app.services) addService(`service/${service.name}`, service, add, addPresent);
  return parts;
}

type Add = (name: string, part: unknown) => void;

function addService(at: string, service: AppService, add: Add, addPresent: Add): void {
  const { source, shape } = service;
  // The service itself is an entry when it comes or goes.
  add(at, service.name);
  if (source.kind === 'image') add(`${at}/image`, source);
  else add(`${at}/build`, source);
  addPresent(`${at}/entrypoint`, service.entrypoint);
  addPresent(`${at}/command`, service.command);
  addPresent(`${at}/stop_grace`, service.stopGraceMs === defaultStopGraceMs ? null : service.stopGraceMs);
  for (const { name, value } of service.env) add(`${at}/env/${name}`, value);
  for (const { env, ...reference } of service.secrets) add(`${at}/secret/${env}`, reference);
  addPresent(`${at}/devices`, service.devices);
  for (const { name, ...mount } of service.volumes) add(`${at}/volume/${name}`, mount);
  for (const { name, ...mount } of service.binds) add(`${at}/bind/${name}`, mount);
  for (const { name, ...database } of service.databases) add(`${at}/database/${name}`, database);
  addPresent(`${at}/backup/postgres`, service.backup.postgres);
  addPresent(`${at}/backup/volume`, service.backup.volume);
  addPresent(`${at}/readiness`, service.readiness);
  for (const each of service.http) {
    add(`${at}/http/${each.visibility === 'public' ? each.host : `internal:${each.port}`}`, each);
  }
  for (const each of service.tcp) add(`${at}/tcp/${each.entrypoint}`, each);
  for (const each of service.udp) add(`${at}/udp/${each.entrypoint}`, each);
  addPresent(`${at}/telemetry/logs`, service.telemetryLogs);
  for (const [name, part] of Object.entries(shape ?? {})) addPresent(`${at}/${snakeCase(name)}`, part);
}

/** As the manifest spells it. */
function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
