// Mounts of a YAML app, and the files that are written before its container is made.
// Invariant: nothing of this machine outside the data root is mounted or written, but for the reviewed sockets.
import type { Findings } from '../config/problem.ts';
import type { Path } from '../config/syntax.ts';
import { judgePlainName } from './names.ts';
import type { OperatorFacts } from './operator-facts.ts';
import { isAtOrUnder, mountTarget, refuseAbsolutePath } from './values.ts';
import type { YamlApp, YamlContainer, YamlVolume } from './yaml-keys.ts';
import { contradiction } from './yaml-values.ts';

/** Each of these hands out more than data: whoever mounts it can start containers, or talk to the services of the machine. */
const reviewedSockets = [
  /^\/run\/user\/\d+\/podman\/podman\.sock$/,
  /^\/run\/user\/\d+\/bus$/,
  /^\/(?:var\/)?run\/dbus\/system_bus_socket$/,
];

export function checkMounts(app: YamlApp, facts: OperatorFacts | null, findings: Findings): void {
  const targets = new Map<string, Path>();
  const names = new Map<string, Path>();
  for (const { index, value } of app.volumes) {
    const path = ['app', 'volumes', index];
    const twin = targets.get(value.target);
    if (twin === undefined) targets.set(value.target, path);
    else {
      const why = `${value.target} is a mount already (line ${lineOf(twin, findings)})`;
      findings.error([...path, 'target'], why, 'a path of its own');
    }
    checkTarget(value, path, findings);
    checkOptions(value, path, findings);
    if (value.type === 'bind') checkSource(value, path, facts, findings);
    if (value.type === 'volume') checkName(value, path, names, findings);
  }
}

/** A tmpfs may lie over /dev/shm; nothing else may lie over what the container needs for itself. */
function checkTarget({ type, target }: YamlVolume, path: Path, findings: Findings): void {
  if (type === 'tmpfs' && target.startsWith('/dev/')) return;
  mountTarget.read({ kind: 'string', value: target, raw: target }, [...path, 'target'], findings);
}

function checkOptions(volume: YamlVolume, path: Path, findings: Findings): void {
  const written = (key: string): boolean => findings.document.has([...path, key]);
  const clash = contradiction(volume.options);
  if (clash !== null) findings.error([...path, 'options'], `${clash.join(' and ')} exclude each other`, 'one of them');
  const beyond = volume.options.find((each) => each !== 'ro' && each !== 'rw');
  if (volume.type === 'volume' && beyond !== undefined) {
    findings.error([...path, 'options'], `a named volume takes no ${beyond}`, 'rw or ro');
  }
  if (volume.type === 'tmpfs') {
    for (const key of ['source', 'options']) {
      if (written(key))
        findings.error([...path, key], 'a tmpfs has none', key === 'options' ? 'tmpfs_options' : 'leave it out', 'key');
    }
  } else if (written('tmpfs_options')) {
    findings.error([...path, 'tmpfs_options'], `a ${volume.type} has none`, 'options', 'key');
  }
}

function checkSource(volume: YamlVolume, path: Path, facts: OperatorFacts | null, findings: Findings): void {
  const at = [...path, 'source'];
  const { source } = volume;
  if (findings.failed(at)) return;
  if (source === null) {
    findings.error(at, 'is missing: a bind has a source', 'an absolute path under the data root', 'key');
    return;
  }
  const refusal = refuseAbsolutePath(source);
  if (refusal !== null) {
    findings.error(at, refusal.why, refusal.accepts ?? 'an absolute, normalised path under the data root');
  } else if (reviewedSockets.some((pattern) => pattern.test(source))) {
    findings.warn(at, 'is a socket of the machine: the app can do whatever it allows', 'only what you trust so far');
  } else if (facts !== null && (!isAtOrUnder(source, facts.dataRoot) || source === facts.dataRoot)) {
    findings.error(at, `${source} is not under the data root`, `a path under ${facts.dataRoot} (apps.data_root)`);
  }
}

function checkName(volume: YamlVolume, path: Path, names: Map<string, Path>, findings: Findings): void {
  const at = [...path, 'source'];
  if (findings.failed(at)) return;
  const refusal = volume.source === null ? null : judgePlainName(volume.source);
  if (volume.source === null) findings.error(at, 'is missing: a volume has a name', 'source: myapp-data', 'key');
  else if (refusal !== null) findings.error(at, refusal.why, refusal.accepts ?? '');
  else {
    const twin = names.get(volume.source);
    if (twin === undefined) names.set(volume.source, path);
    else findings.error(at, `${volume.source} is mounted already (line ${lineOf(twin, findings)})`, 'each volume once');
  }
}

/** Files and certificates are written under a directory that the app has as a bind mount. */
export function checkPlaces(app: YamlApp, container: YamlContainer, findings: Findings): void {
  const binds = app.volumes.map(({ value }) => value).filter(({ type }) => type === 'bind');
  const sources = binds.flatMap(({ source }) => (source === null ? [] : [source]));
  const owners = new Map<string, Path>();
  const check = (file: string, at: Path): void => {
    const twin = owners.get(file);
    if (twin === undefined) owners.set(file, at);
    else findings.error(at, `${file} is written twice (line ${lineOf(twin, findings)})`, 'each file once');
    if (findings.failed(['app', 'volumes']) || sources.some((each) => isAtOrUnder(file, each) && file !== each)) return;
    const accepted = sources.length === 0 ? 'a path under a volume of type bind' : `a path under ${sources.join(', ')}`;
    findings.error(at, `${file} is not under a bind mount of this app`, accepted);
  };
  for (const { index, value } of app.files) check(value.path, ['app', 'files', index, 'path']);
  for (const { index, value } of container.generated_certs) {
    const path = ['app', 'container', 'generated_certs', index];
    check(value.crt, [...path, 'crt']);
    check(value.key, [...path, 'key']);
  }
}

function lineOf(path: Path, findings: Findings): number {
  return findings.document.locate(path).key.line;
}
