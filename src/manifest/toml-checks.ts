// What no single value of a TOML manifest shows: clashes, references, keys that need or exclude each other.
// Invariant: everything is found in one pass, and nothing depends on the order of the file.

import type { Findings } from '../config/problem.ts';
import { nearest } from '../config/suggest.ts';
import { formatKey, type Path } from '../config/syntax.ts';
import { runtimeIdentifier, type Variable } from './app.ts';
import { refuseImage } from './image.ts';
import type { OperatorFacts } from './operator-facts.ts';
import { checkGrants } from './toml-grants.ts';
import { checkHosts, checkInterfaces } from './toml-interface-checks.ts';
import type { TomlManifest, TomlService } from './toml-keys.ts';
import { checkReadiness } from './toml-readiness-checks.ts';
import { isAtOrUnder } from './values.ts';

/** Where secrets delivered as files are mounted. */
const secretsDirectory = '/run/secrets';

/** @param facts  null: there is no configuration to check against */
export function checkManifest(manifest: TomlManifest, facts: OperatorFacts | null, findings: Findings): void {
  checkIdentifiers(manifest, findings);
  checkVolumeOwners(manifest, findings);
  checkHosts(manifest, facts, findings);
  for (const [name, service] of manifest.services ?? []) {
    const path = ['services', name];
    checkVariables(service, path, manifest.env, findings);
    checkMounts(service, path, findings);
    checkBackup(service, path, findings);
    checkInterfaces(service, path, facts, findings);
    checkReadiness(service, path, findings);
    if (facts === null) continue;
    checkGrants(service, path, manifest.name, name, facts, findings);
    if (findings.failed([...path, 'image'])) continue;
    const refusal = refuseImage(service.image, facts.images);
    if (refusal !== null) findings.error([...path, 'image'], refusal.why, refusal.accepted);
  }
  checkSharedNetworks(manifest, findings);
}

/** Containers, aliases and labels are named by the runtime identifier. */
function checkIdentifiers(manifest: TomlManifest, findings: Findings): void {
  const owners = new Map<string, string>();
  for (const name of manifest.services?.keys() ?? []) {
    const identifier = runtimeIdentifier(name);
    const owner = owners.get(identifier);
    if (owner === undefined) {
      owners.set(identifier, name);
      continue;
    }
    const { line } = findings.document.locate(['services', owner]).key;
    const why = `is the same as ${formatKey(owner)} (line ${line}) in names of containers: ${identifier}`;
    findings.error(['services', name], why, 'names that differ in more than "." "_" and "-"', 'key');
  }
}

// ---- environment and secrets -----------------------------------------------------------------------------------

function checkVariables(service: TomlService, path: Path, appEnv: readonly Variable[], findings: Findings): void {
  const taken = new Map<string, Path>([
    ...appEnv.map(({ name }) => [name, ['env', name]] as const),
    ...service.env.map(({ name }) => [name, [...path, 'env', name]] as const),
  ]);
  const secrets = new Map(service.secrets.map(({ env }) => [env, [...path, 'secrets', env] as Path]));
  for (const { env, delivery } of service.secrets) {
    const at = [...path, 'secrets', env];
    const rival = taken.get(env);
    if (rival !== undefined) {
      findings.error(at, `is also a public variable (line ${lineOf(rival, findings)})`, 'one of the two', 'key');
    }
    if (delivery !== 'file') continue;
    const file = `${env}_FILE`;
    const holder = taken.get(file) ?? secrets.get(file);
    if (holder === undefined) continue;
    const why = `as a file it sets ${file}, which is declared too (line ${lineOf(holder, findings)})`;
    findings.error(at, why, 'another name for one of them', 'key');
  }
}

// ---- volumes and binds -----------------------------------------------------------------------------------------

/** A volume belongs to one service. */
function checkVolumeOwners(manifest: TomlManifest, findings: Findings): void {
  const owners = new Map<string, Path>();
  for (const [name, service] of manifest.services ?? []) {
    for (const { index, value } of service.volume) {
      const path = ['services', name, 'volume', index, 'name'];
      const owner = owners.get(value.name);
      if (owner === undefined) owners.set(value.name, path);
      else {
        const where = owner[1] === name ? 'is declared twice' : `belongs to the service ${owner[1]}`;
        findings.error(path, `the volume ${value.name} ${where} (line ${lineOf(owner, findings)})`, 'each volume once');
      }
    }
  }
}

function checkMounts(service: TomlService, path: Path, findings: Findings): void {
  const byPath = new Map<string, Path>();
  const byName = new Map<string, Path>();
  const asFiles = service.secrets.some(({ delivery }) => delivery === 'file');
  const mounts = [
    ...service.volume.map(({ index, value }) => ({ at: [...path, 'volume', index], value, bind: false })),
    ...service.bind.map(({ index, value }) => ({ at: [...path, 'bind', index], value, bind: true })),
  ];
  for (const { at, value, bind } of mounts) {
    const rival = byPath.get(value.path);
    if (rival === undefined) byPath.set(value.path, at);
    else {
      const why = `${value.path} is the path of another mount (line ${lineOf(rival, findings)})`;
      findings.error([...at, 'path'], why, 'a path of its own');
    }
    if (asFiles && isAtOrUnder(value.path, secretsDirectory)) {
      findings.error([...at, 'path'], `${secretsDirectory} holds the secrets of this service`, 'another path');
    }
    if (!bind) continue;
    const twin = byName.get(value.name);
    if (twin === undefined) byName.set(value.name, at);
    else
      findings.error(
        [...at, 'name'],
        `${value.name} is bound twice (line ${lineOf(twin, findings)})`,
        'each bind once',
      );
  }
}

function checkBackup(service: TomlService, path: Path, findings: Findings): void {
  const databases = new Map<string, Path>();
  for (const { index, value } of service.database) {
    const at = [...path, 'database', index, 'name'];
    const twin = databases.get(value.name);
    if (twin === undefined) databases.set(value.name, at);
    else findings.error(at, `${value.name} is declared twice (line ${lineOf(twin, findings)})`, 'each database once');
  }
  const volumes = service.volume.map(({ value }) => value.name);
  const check = (key: 'postgres' | 'volume', what: string, known: readonly string[]): void => {
    if (findings.failed([...path, what])) return;
    for (const [i, name] of service.backup[key].entries()) {
      if (known.includes(name)) continue;
      const at = [...path, 'backup', key, i];
      findings.error(at, `this service declares no ${what} ${name}${didYouMean(name, known)}`, listed(known, what));
    }
  };
  check('postgres', 'database', [...databases.keys()]);
  check('volume', 'volume', volumes);
}

// ---- shared networks -------------------------------------------------------------------------------------------

function checkSharedNetworks(manifest: TomlManifest, findings: Findings): void {
  const known = [...(manifest.services?.keys() ?? [])];
  const owners = new Map<string, Path>();
  for (const { index, value } of manifest.network.shared) {
    const path = ['network', 'shared', index];
    const twin = owners.get(value.network);
    if (twin === undefined) owners.set(value.network, path);
    else {
      const why = `${value.network} is declared twice (line ${lineOf(twin, findings)})`;
      findings.error([...path, 'network'], why, 'one table with all services');
    }
    for (const [i, name] of value.services.entries()) {
      // A service that could not be read is there all the same.
      if (known.includes(name) || findings.document.has(['services', name])) continue;
      findings.error(
        [...path, 'services', i],
        `there is no service ${name}${didYouMean(name, known)}`,
        listed(known, 'service'),
      );
    }
  }
}

function lineOf(path: Path, findings: Findings): number {
  return findings.document.locate(path).key.line;
}

function didYouMean(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  return near === null ? '' : `; did you mean "${near}"?`;
}

function listed(known: readonly string[], what: string): string {
  return known.length === 0 ? `a declared ${what}` : known.map((each) => JSON.stringify(each)).join(', ');
}
