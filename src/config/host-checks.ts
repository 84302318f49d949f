// Checks of `[external_routes]`: hosts against each other and against the entrypoints; routes are checked one by one.
// Invariant: two keys of one canonical host are told with both lines; nothing depends on the order of the file.

import { endsTls, takesHttp, takesPlainHttp } from '../model/entrypoint-protocol.ts';
import type { Findings } from './problem.ts';
import { checkRoute } from './route-checks.ts';
import type { HostWritten } from './route-keys.ts';
import type { Config } from './schema.ts';
import { nearest } from './suggest.ts';
import { formatPath, type Path } from './syntax.ts';
import { parsePattern } from './values.ts';

export function checkHosts(config: Config, findings: Findings): void {
  const owners = new Map<string, Path>();
  const claim = (pattern: string, path: Path, part: 'key' | 'value'): void => {
    const owner = owners.get(pattern);
    if (owner === undefined) {
      owners.set(pattern, path);
      return;
    }
    const { line } = findings.document.locate(owner).key;
    const first = formatPath(owner.slice(1));
    findings.error(path, `is the same host as ${first} (line ${line}): ${pattern}`, 'each host once', part);
  };
  for (const [name, host] of config.external_routes) {
    const path = ['external_routes', name];
    claim(parsePattern(name) as string, path, 'key');
    host.aliases.forEach((alias, i) => {
      claim(alias, [...path, 'aliases', i], 'value');
    });
    checkEntrypoints(host, path, config, findings);
    checkClientAuth(host, path, findings);
    checkHsts(host, path, findings);
    checkPolicy(host, path, config, findings);
    checkRoute(host, null, path, config, findings);
    checkPaths(host, path, config, findings);
  }
}

function checkEntrypoints(host: HostWritten, path: Path, config: Config, findings: Findings): void {
  if (findings.failed([...path, 'entrypoints'])) return;
  for (const [i, name] of (host.entrypoints ?? []).entries()) {
    const protocol = config.entrypoints.get(name)?.protocol;
    if (findings.failed(['entrypoints', name]) || (protocol !== undefined && takesHttp(protocol))) continue;
    const known = [...config.entrypoints].filter(([, each]) => takesHttp(each.protocol)).map(([each]) => each);
    if (protocol !== undefined) {
      findings.error(
        [...path, 'entrypoints', i],
        `${name} is a ${protocol} entrypoint: it serves no hosts`,
        known.map((each) => JSON.stringify(each)).join(', '),
      );
      continue;
    }
    const near = nearest(name, known);
    findings.error(
      [...path, 'entrypoints', i],
      `there is no entrypoint ${JSON.stringify(name)}${near === null ? '' : `; did you mean "${near}"?`}`,
      known.map((each) => JSON.stringify(each)).join(', '),
    );
  }
}

function checkClientAuth(host: HostWritten, path: Path, findings: Findings): void {
  const auth = host.client_auth;
  if (auth === null || auth.mode === 'none') return;
  const at = [...path, 'client_auth'];
  if (auth.ca_file === null && !findings.failed(at)) {
    findings.error([...at, 'ca_file'], 'is missing', 'the PEM file of the issuers to accept', 'key');
  }
  if (host.tls === 'auto') {
    findings.warn(
      at,
      'a plaintext request shows no certificate, and tls = "auto" may serve it',
      'tls = "always"',
      'key',
    );
  }
}

function checkHsts(host: HostWritten, path: Path, findings: Findings): void {
  const { hsts } = host;
  if (hsts === null || !hsts.preload) return;
  if (!hsts.include_subdomains || hsts.max_age < 365 * 86_400_000) {
    findings.error(
      [...path, 'hsts', 'preload'],
      'browsers list only what covers the subdomains for a year',
      'preload with include_subdomains = true and max_age = "365d" or more',
    );
  }
}

/** What the TLS policy and the entrypoints of a host make of each other. */
function checkPolicy(host: HostWritten, path: Path, config: Config, findings: Findings): void {
  if (findings.failed(['entrypoints']) || findings.failed([...path, 'entrypoints'])) return;
  const serving = [...config.entrypoints].filter(
    ([name, { protocol }]) => takesHttp(protocol) && (host.entrypoints?.includes(name) ?? true),
  );
  const secure = serving.some(([, { protocol }]) => endsTls(protocol));
  const plain = serving.some(([, { protocol }]) => takesPlainHttp(protocol));
  if (serving.length === 0) return;
  if (host.tls === 'always' && !secure) {
    findings.warn(
      [...path, 'tls'],
      'no https entrypoint serves this host: every request will be answered 421',
      'an https entrypoint, or tls = "auto"',
    );
  }
  if (host.tls === 'never' && !plain) {
    findings.warn(
      [...path, 'tls'],
      'no http entrypoint serves this host: no request will reach it',
      'an http entrypoint',
    );
  }
  for (const key of ['client_auth', 'min_version', 'hsts'] as const) {
    if (host[key] === null || (secure && host.tls !== 'never')) continue;
    const why = host.tls === 'never' ? 'tls is "never"' : 'no https entrypoint serves this host';
    findings.warn([...path, key], `has no effect: ${why}`, 'leave it out', 'key');
  }
}

function checkPaths(host: HostWritten, path: Path, config: Config, findings: Findings): void {
  const owners = new Map<string, Path>();
  const rootTaken = (['to', 'redirect', 'respond'] as const).find((key) => host[key] !== null);
  if (rootTaken !== undefined) owners.set('/', [...path, rootTaken]);
  for (const { index, value: route } of host.routes) {
    const at = [...path, 'routes', index];
    const owner = owners.get(route.path);
    if (owner === undefined) owners.set(route.path, at);
    else {
      const { line } = findings.document.locate(owner).key;
      findings.error([...at, 'path'], `${JSON.stringify(route.path)} is taken (line ${line})`, 'each path once');
    }
    checkRoute(route, host, at, config, findings);
  }
}
