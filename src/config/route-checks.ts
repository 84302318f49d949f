// Checks inside one route: which keys exclude each other, which need another, which would have no effect.
// Invariant: a route is looked at with the names of the file, so that every complaint has its line.

import { transportOf } from '../model/entrypoint-protocol.ts';
import type { UpstreamTlsWritten } from './backend-keys.ts';
import type { HeaderRulesWritten } from './header-keys.ts';
import { limitKeys } from './limit-keys.ts';
import type { Findings } from './problem.ts';
import { backendKeyNames, type HostWritten, type PathWritten } from './route-keys.ts';
import type { Config } from './schema.ts';
import type { Path } from './syntax.ts';

/** @param host  the host that a path belongs to; null when the route is the host itself */
export function checkRoute(
  route: HostWritten | PathWritten,
  host: HostWritten | null,
  path: Path,
  config: Config,
  findings: Findings,
): void {
  const forwards = checkAction(route, host, path, findings);
  if (findings.document.has([...path, 'to'])) {
    checkProtocol(route, path, findings);
    checkLoops(route, path, config, findings);
  } else refuseBackendKeys(host === null && 'routes' in route && route.routes.length > 0, path, findings);
  if (!forwards) refuseRewrites(path, findings);
  checkBalance(route, path, findings);
  checkRespond(route, path, findings);
  checkPair(route.upstream_tls, [...path, 'upstream_tls'], findings);
  if (route.health?.type === 'tcp' && route.health.path !== null) {
    findings.error([...path, 'health', 'path'], 'a tcp check asks for no path', 'type = "http", or no path');
  }
  if ('strip_prefix' in route && route.strip_prefix && route.replace_prefix !== null) {
    findings.error([...path, 'strip_prefix'], 'replace_prefix says what to put instead', 'one of the two', 'key');
  }
  checkRules(route.request_headers, [...path, 'request_headers'], findings);
  checkRules(route.response_headers, [...path, 'response_headers'], findings);
}

const actions = ['to', 'redirect', 'respond'] as const;

/** True when requests of this route are forwarded. */
function checkAction(
  route: HostWritten | PathWritten,
  host: HostWritten | null,
  path: Path,
  findings: Findings,
): boolean {
  const { document } = findings;
  const written = actions.filter((action) => document.has([...path, action]) || route[action] !== null);
  const [first, second] = written;
  if (second !== undefined) {
    findings.error(
      [...path, second],
      `a route has one answer, and ${first} is there too`,
      alternativesOf(written),
      'key',
    );
  }
  if (first !== undefined) return first === 'to';
  const inherited = host === null ? undefined : actions.find((action) => host[action] !== null);
  // A host may leave the answers to its paths.
  if ('routes' in route && (route.routes.length > 0 || findings.failed([...path, 'routes']))) return false;
  if (inherited === undefined && !(host !== null && findings.failed(path.slice(0, 2)))) {
    findings.error(path, 'has no answer', 'one of to, redirect, respond', 'key');
  }
  return inherited === undefined || inherited === 'to';
}

const alternativesOf = (written: readonly string[]): string => `one of ${written.join(', ')}`;

/** @param forPaths  the limits of a host hold for its paths, which may have backends where the host has none */
function refuseBackendKeys(forPaths: boolean, path: Path, findings: Findings): void {
  for (const key of backendKeyNames) {
    if (!findings.document.has([...path, key]) || (forPaths && Object.hasOwn(limitKeys, key))) continue;
    findings.error([...path, key], `${key} is about backends, and there is no to here`, 'to beside it', 'key');
  }
}

function refuseRewrites(path: Path, findings: Findings): void {
  for (const key of ['strip_prefix', 'replace_prefix']) {
    if (!findings.document.has([...path, key])) continue;
    findings.error([...path, key], 'nothing is forwarded here', 'a route with to', 'key');
  }
}

function checkProtocol(route: HostWritten | PathWritten, path: Path, findings: Findings): void {
  if (route.to === null) return;
  const schemes = new Set(route.to.map((backend) => backend.scheme));
  if (schemes.size > 1) {
    findings.error([...path, 'to'], 'the backends of a route speak one protocol', 'the same scheme before each');
    return;
  }
  const [scheme = null] = schemes;
  if (scheme !== null && route.protocol !== null && scheme !== route.protocol) {
    findings.error([...path, 'protocol'], `the scheme in to means "${scheme}"`, 'one of the two');
  }
  const protocol = route.protocol ?? scheme ?? 'http1';
  if (route.upstream_tls !== null && protocol !== 'https' && protocol !== 'h2') {
    findings.error(
      [...path, 'upstream_tls'],
      `there is no TLS with the protocol ${protocol}`,
      'protocol = "https" or "h2"',
      'key',
    );
  }
}

/** A backend that is an entrypoint of ours asks us again, and again. */
function checkLoops(route: HostWritten | PathWritten, path: Path, config: Config, findings: Findings): void {
  for (const backend of route.to ?? []) {
    for (const [name, { address, protocol }] of config.entrypoints) {
      if (transportOf(protocol) === 'udp') continue;
      const loopback = backend.host === 'localhost' || backend.host === '::1' || backend.host.startsWith('127.');
      const same = address.host === '' ? loopback : address.host === backend.host;
      if (address.port !== backend.port || !same) continue;
      findings.warn(
        [...path, 'to'],
        `${backend.address} is the entrypoint ${name}: requests would go in circles`,
        'an app',
      );
    }
  }
}

function checkBalance(route: HostWritten | PathWritten, path: Path, findings: Findings): void {
  const keyed = route.balance === 'hash_header' || route.balance === 'hash_cookie';
  if (keyed && route.balance_key === null && !findings.failed([...path, 'balance_key'])) {
    findings.error([...path, 'balance_key'], `is missing with balance = "${route.balance}"`, 'a name', 'key');
  }
  if (!keyed && route.balance_key !== null) {
    findings.error([...path, 'balance_key'], 'has no effect', 'balance = "hash_header" or "hash_cookie"', 'key');
  }
}

function checkRespond(route: HostWritten | PathWritten, path: Path, findings: Findings): void {
  const { respond } = route;
  if (respond === null) return;
  const at = [...path, 'respond'];
  const bodies = (['body', 'body_file'] as const).filter((key) => respond[key] !== null);
  if (bodies.length > 1) findings.error([...at, 'body_file'], 'body is there too', 'body or body_file', 'key');
  if (bodies.length > 0 && [204, 205, 304].includes(respond.status)) {
    findings.error([...at, bodies[0]!], `an answer ${respond.status} has no body`, 'another status, or no body', 'key');
  }
}

export function checkPair(tls: UpstreamTlsWritten | null, path: Path, findings: Findings): void {
  if (tls === null || (tls.cert_file === null) === (tls.key_file === null)) return;
  const missing = tls.cert_file === null ? 'cert_file' : 'key_file';
  const at = [...path, missing];
  if (!findings.failed(at)) findings.error(at, 'is missing', 'cert_file and key_file together', 'key');
}

/** Header names are one name in any case. */
function checkRules(rules: HeaderRulesWritten | null, path: Path, findings: Findings): void {
  for (const kind of ['set', 'add'] as const) {
    const seen = new Map<string, string>();
    for (const name of rules?.[kind]?.keys() ?? []) {
      const twin = seen.get(name.toLowerCase());
      if (twin === undefined) seen.set(name.toLowerCase(), name);
      else findings.error([...path, kind, name], `is the same header as ${twin}`, 'each name once', 'key');
    }
  }
}
