// What no single value of a YAML manifest shows: clashes, references, keys that need or exclude each other.
// Invariant: everything is found in one pass; what a field promises and we do not do is told.
import type { Findings } from '../config/problem.ts';
import type { Path } from '../config/syntax.ts';
import { refuseImage } from './image.ts';
import type { OperatorFacts } from './operator-facts.ts';
import { isAtOrUnder } from './values.ts';
import { checkHealth } from './yaml-health.ts';
import type { YamlApp, YamlContainer } from './yaml-keys.ts';
import { checkMounts, checkPlaces } from './yaml-mount-checks.ts';
import { checkPorts } from './yaml-port-checks.ts';

/** @param facts  null: there is no configuration to check against */
export function checkYamlApp(app: YamlApp, facts: OperatorFacts | null, findings: Findings): void {
  checkPorts(app, findings);
  checkSurfaces(app, findings);
  checkUpstream(app, findings);
  checkDependencies(app, findings);
  if (app.container === null) {
    if (!findings.failed(['app', 'container'])) warnWithoutContainer(findings);
    return;
  }
  checkContainer(app.container, facts, findings);
  checkVariables(app, app.container, findings);
  checkMounts(app, facts, findings);
  checkPlaces(app, app.container, findings);
  checkHooks(app, findings);
  checkHealth(app, findings);
  warnNetwork(app, app.container, findings);
  if (app.resources.disk_limit !== null) {
    findings.warn(['app', 'resources', 'disk_limit'], 'is shown, not enforced', 'a quota of the file system', 'key');
  }
}

// ---- the container ---------------------------------------------------------------------------------------------

const ofContainers = ['resources', 'security', 'volumes', 'files', 'environment', 'health_check', 'devices', 'hooks'];

function warnWithoutContainer(findings: Findings): void {
  for (const key of ofContainers) {
    if (!findings.document.has(['app', key])) continue;
    findings.warn(['app', key], 'has no effect: an app without container runs outside', 'a container', 'key');
  }
}

function checkContainer(container: YamlContainer, facts: OperatorFacts | null, findings: Findings): void {
  const path = ['app', 'container'];
  const written = (key: string): boolean => findings.document.has([...path, key]);
  if (written('image') && written('build')) {
    findings.error([...path, 'build'], 'image and build exclude each other', 'one of the two', 'key');
  } else if (!written('image') && !written('build')) {
    findings.error(path, 'says neither image nor build', 'one of the two', 'key');
  }
  if (container.build !== null && written('pull_policy')) {
    findings.warn([...path, 'pull_policy'], 'has no effect on an image that is built', 'leave it out', 'key');
  }
  if (facts === null) return;
  if (container.image !== null) {
    const refusal = refuseImage(container.image, facts.images);
    if (refusal !== null) findings.error([...path, 'image'], refusal.why, refusal.accepted);
  }
  const context = container.build?.context;
  if (context === undefined) return;
  const at = [...path, 'build', 'context'];
  if (context.split('/').includes('..')) {
    findings.error(at, `${JSON.stringify(context)} leads upwards`, 'a directory beside the manifest');
  } else if (context.startsWith('/') && !isAtOrUnder(context, facts.dataRoot)) {
    findings.error(at, `${JSON.stringify(context)} is not under the data root`, `a path under ${facts.dataRoot}`);
  }
}

/** One variable, one source. */
function checkVariables(app: YamlApp, container: YamlContainer, findings: Findings): void {
  const owners = new Map<string, Path>();
  const claim = (name: string, at: Path): void => {
    const owner = owners.get(name);
    if (owner === undefined) owners.set(name, at);
    else findings.error(at, `${name} is set already (line ${lineOf(owner, findings)})`, 'each variable once');
  };
  for (const [i, { name }] of app.environment.entries()) claim(name, ['app', 'environment', i]);
  const path = ['app', 'container'];
  for (const { index, value } of container.derived_env) claim(value.key, [...path, 'derived_env', index, 'key']);
  for (const { index, value } of container.secret_env) claim(value.key, [...path, 'secret_env', index, 'key']);
  const made = new Map<string, Path>();
  for (const { index, value } of container.generated_secrets) {
    const at = [...path, 'generated_secrets', index, 'name'];
    const twin = made.get(value.name);
    if (twin === undefined) made.set(value.name, at);
    else findings.error(at, `${value.name} is made already (line ${lineOf(twin, findings)})`, 'each secret once');
  }
}

function checkHooks(app: YamlApp, findings: Findings): void {
  for (const hook of ['post_install', 'pre_start'] as const) {
    for (const { index, value } of app.hooks[hook]) {
      const at = ['app', 'hooks', hook, index];
      if (findings.failed(at) || (value.exec === null) !== (value.copy_from_host === null)) continue;
      findings.error(at, 'is not one step', 'exec: […] or copy_from_host: { src: …, dest: … }', 'key');
    }
  }
  if (app.hooks.pre_start.length > 0) {
    findings.warn(['app', 'hooks', 'pre_start'], 'is kept and shown, and nothing runs it', 'post_install', 'key');
  }
}

function warnNetwork(app: YamlApp, container: YamlContainer, findings: Findings): void {
  const host = container.network === 'host';
  if (host && app.security.network_policy !== 'host') {
    const why = `shares the network of the machine, and network_policy says ${app.security.network_policy}`;
    findings.warn(['app', 'container', 'network'], why, 'security.network_policy: host, or another network');
  }
  if (!host && container.network !== null && app.security.network_policy === 'host') {
    const why = `is host, and the container joins the network ${container.network}`;
    findings.warn(['app', 'security', 'network_policy'], why, 'one of the two');
  }
}

// ---- what is shown ---------------------------------------------------------------------------------------------

function checkSurfaces(app: YamlApp, findings: Findings): void {
  const declared = app.ports.map(({ value }) => value.host);
  for (const [key, { port }] of app.interfaces) {
    if (port === null || declared.includes(port) || findings.failed(['app', 'ports'])) continue;
    const accepted = declared.length === 0 ? 'a port under ports' : declared.join(', ');
    findings.warn(['app', 'interfaces', key, 'port'], `${port} is not a host port of this app`, accepted);
  }
}

function checkUpstream({ upstream }: YamlApp, findings: Findings): void {
  if (upstream === null) return;
  const path = ['app', 'upstream'];
  const { kind, repo, url } = upstream;
  const wanted = kind === 'manual' ? 'url' : kind === 'internal' ? null : 'repo';
  if (wanted !== null && (wanted === 'url' ? url : repo) === null && !findings.failed([...path, wanted])) {
    findings.error([...path, wanted], `is missing: ${kind} needs it`, wanted === 'url' ? 'a URL' : 'owner/name', 'key');
  }
  for (const key of ['repo', 'url'] as const) {
    if (key === wanted || !findings.document.has([...path, key])) continue;
    findings.error([...path, key], `says nothing to an upstream of kind ${kind}`, 'leave it out', 'key');
  }
}

function checkDependencies(app: YamlApp, findings: Findings): void {
  const seen = new Set<string>();
  for (const [i, dependency] of app.dependencies.entries()) {
    const at = ['app', 'dependencies', i];
    if (findings.failed(['app', 'dependencies'])) return;
    if (dependency === null) {
      findings.error(at, 'is not one dependency', '{ app_id: …, version: … } or { storage: "10GB" }');
      continue;
    }
    const identity = dependency.kind === 'app' ? dependency.app : '';
    if (seen.has(identity)) findings.error(at, 'is declared twice', 'each dependency once');
    seen.add(identity);
    if (identity === app.id && app.id !== '') findings.error(at, 'an app cannot wait for itself', 'another app');
  }
}

function lineOf(path: Path, findings: Findings): number {
  return findings.document.locate(path).key.line;
}
