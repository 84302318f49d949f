// Checks of what operators grant to apps and how they run them.
// Invariant: what would have no effect is told, and nothing of our own state is ever granted to an app.
import { dirname, resolve, sep } from 'node:path';
import type { Findings } from './problem.ts';
import type { Config } from './schema.ts';
import type { Path } from './syntax.ts';

/** @param file  the configuration file, absolute */
export function checkApps(config: Config, file: string, findings: Findings): void {
  const { apps } = config;
  if (apps.directory === null && !findings.failed(['apps', 'directory'])) {
    for (const key of ['watch', 'deploy'] as const) {
      if (!findings.document.has(['apps', key]) || (key === 'watch' && !apps.watch)) continue;
      findings.error(['apps', key], 'has no effect without a directory', 'apps.directory = "apps"', 'key');
    }
  } else if (apps.deploy === 'auto' && !apps.watch && !findings.failed(['apps', 'watch'])) {
    findings.error(['apps', 'deploy'], 'has no effect without watch', 'apps.watch = true');
  }
  for (const [app, services] of apps.others) {
    for (const service of services.keys()) checkProcess(app, service, config, findings);
  }
  for (const [name, { source }] of config.app_mounts) {
    checkSource(source, ['app_mounts', name, 'source'], config, file, findings);
  }
}

function checkProcess(app: string, service: string, config: Config, findings: Findings): void {
  const path: Path = ['apps', app, service];
  const { start, stop, address } = config.apps.others.get(app)!.get(service)!;
  if (findings.failed(path)) return;
  if (start === null && stop === null && address === null) {
    findings.error(path, 'says nothing', 'start, stop and address, or some of them', 'key');
    return;
  }
  if (config.runtime === 'docker' || config.runtime === 'podman') {
    findings.warn(path, `has no effect: runtime = "${config.runtime}" runs containers`, 'runtime = "none"', 'key');
  }
  for (const [key, words] of [
    ['start', start],
    ['stop', stop],
  ] as const) {
    if (words?.[0] === '') findings.error([...path, key, 0], 'is empty', 'the path of a program');
  }
  if (address?.port === 0 && start === null) {
    findings.error(
      [...path, 'address'],
      'a free port is for a process that start runs',
      'start beside it, or the port',
    );
  }
}

const reserved = ['/', '/proc', '/sys', '/dev', '/boot'];

function checkSource(source: string, path: Path, config: Config, file: string, findings: Findings): void {
  const from = (name: string): string => resolve(dirname(file), name);
  const place = from(source);
  const state = from(config.state_dir);
  const data = config.apps.data_root === null ? `${state}${sep}data` : from(config.apps.data_root);
  const inside = (inner: string, outer: string): boolean =>
    inner === outer || inner.startsWith(outer.replace(/\/?$/, '/'));
  if (place === '/' || reserved.slice(1).some((each) => inside(place, each))) {
    findings.error(
      path,
      `${JSON.stringify(place)} belongs to the system`,
      `a place that is not ${reserved.join(', ')}`,
    );
  } else if (inside(state, place) || (inside(place, state) && !inside(place, data))) {
    findings.error(path, `${JSON.stringify(place)} holds keys and state of Turnpike`, 'a place beside state_dir');
  } else if (inside(file, place)) {
    findings.error(path, `${JSON.stringify(place)} holds this configuration`, 'a place beside it');
  } else if (/\/(docker|podman)\.sock$/.test(place)) {
    findings.warn(path, 'who has the socket of the engine has the machine', 'a mount that is not that socket');
  }
}
