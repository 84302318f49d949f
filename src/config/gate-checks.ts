// Checks of `[gate]`, and of what hosts and entrypoints ask of it.
// Invariant: a policy that keeps nobody out has its reason written beside it, and nothing is said twice.
import { endsTls } from '../model/entrypoint-protocol.ts';
import { judgeApp } from './app-keys.ts';
import { quote } from './form.ts';
import type { AppGateWritten } from './gate-keys.ts';
import type { Findings } from './problem.ts';
import type { HostWritten } from './route-keys.ts';
import type { Config } from './schema.ts';
import { nearest } from './suggest.ts';
import { formatPath, type Path } from './syntax.ts';
import { parsePattern } from './values.ts';

export function checkGate(config: Config, findings: Findings): void {
  const hosts = hostsOf(config);
  checkLogin(config, hosts, findings);
  const tables = new Map<string, GateTable>();
  for (const [name, gate] of config.gate.apps) {
    const path: Path = ['gate', 'apps', name];
    const pattern = parsePattern(name);
    const route = typeof pattern === 'string' ? hosts.get(pattern) : undefined;
    if (route !== undefined && typeof pattern === 'string') {
      const twin = tables.get(pattern);
      if (twin === undefined) tables.set(pattern, { path, gate });
      else findings.error(path, `is the same host as ${formatPath(twin.path)}`, 'each host once', 'key');
      refuseAlias(pattern, route, path, findings);
    } else if (judgeApp(name) !== null) refuseUnknownHost(name, hosts, path, config, findings);
    checkDetails(gate, route?.host.gate ?? gate.policy, path, findings);
    if (route === undefined) checkRationale(gate.policy, gate.rationale, [...path, 'rationale'], path, findings);
  }
  for (const [key, host] of config.external_routes) {
    const pattern = parsePattern(key);
    const table = typeof pattern === 'string' ? tables.get(pattern) : undefined;
    checkHostGate(host, ['external_routes', key], table ?? null, findings);
  }
  checkSessions(config, findings);
  checkHelpers(config, findings);
  checkEntrypoints(config, findings);
}

/** A `[gate.apps."HOST"]`. */
interface GateTable {
  readonly path: Path;
  readonly gate: AppGateWritten;
}

interface HostRoute {
  readonly key: string;
  readonly host: HostWritten;
}

/** By canonical host, aliases too. */
function hostsOf(config: Config): ReadonlyMap<string, HostRoute> {
  const hosts = new Map<string, HostRoute>();
  for (const [key, host] of config.external_routes) {
    const pattern = parsePattern(key);
    for (const each of [pattern, ...host.aliases]) if (typeof each === 'string') hosts.set(each, { key, host });
  }
  return hosts;
}

function refuseAlias(pattern: string, { key }: HostRoute, path: Path, findings: Findings): void {
  if (parsePattern(key) === pattern) return;
  findings.error(
    path,
    `is an alias of ${key}, which has one gate for all its names`,
    formatPath(['gate', 'apps', key]),
    'key',
  );
}

function refuseUnknownHost(
  name: string,
  hosts: ReadonlyMap<string, HostRoute>,
  path: Path,
  config: Config,
  findings: Findings,
): void {
  if (findings.failed(['external_routes'])) return;
  const near = nearest(name, hosts.keys());
  const hint = near === null ? '' : `; did you mean "${near}"?`;
  const known = [...config.external_routes.keys()].map((each) => JSON.stringify(each)).join(', ');
  findings.error(path, `there is no external route ${quote(name)}${hint}`, known || 'the name of an app', 'key');
}

/** @param policy  the one that holds; null: the manifest knows */
function checkDetails(gate: AppGateWritten, policy: string | null, path: Path, findings: Findings): void {
  if (gate.session_passthrough && policy !== null && policy !== 'gated') {
    findings.error([...path, 'session_passthrough'], `has no effect with "${policy}"`, 'policy = "gated"', 'key');
  }
  if (policy !== 'none' && policy !== 'local') return;
  for (const key of ['open_paths', 'upgrade_open_paths', 'allowed_origins'] as const) {
    if (gate[key].length === 0) continue;
    findings.error([...path, key], `has no effect: the gate does not touch "${policy}"`, 'leave it out', 'key');
  }
}

/** @param at  where the reason would stand; `policyAt`, where the policy does */
function checkRationale(
  policy: string | null,
  rationale: string | null,
  at: Path,
  policyAt: Path,
  findings: Findings,
): void {
  const needed = policy === 'none' || policy === 'open';
  if (needed && rationale === null && !findings.failed(at)) {
    const key = String(at[at.length - 1]);
    findings.error(
      policyAt,
      `"${policy}" lets everybody in and does not say why that is safe`,
      `${key} beside it`,
      'key',
    );
  }
  if (!needed && rationale !== null) {
    findings.error(at, 'nothing needs a reason here', 'a rationale with "none" and "open" only', 'key');
  }
}

/** @param table  `[gate.apps."HOST"]`, when it is there */
function checkHostGate(host: HostWritten, path: Path, table: GateTable | null, findings: Findings): void {
  if (findings.failed([...path, 'gate']) || (table !== null && findings.failed([...table.path, 'policy']))) return;
  if (table !== null && refuseTwice(host, path, table, findings)) return;
  const policy = host.gate ?? table?.gate.policy ?? null;
  if (table !== null && policy === null) {
    findings.error(table.path, 'has no policy', 'policy here, or gate in the route', 'key');
    return;
  }
  const policyAt = host.gate !== null || table === null ? [...path, 'gate'] : [...table.path, 'policy'];
  if (policy === 'local') {
    findings.error(policyAt, 'what is reached by name is not "local"', '"session", "gated", "open" or "none"');
    return;
  }
  const rationale = host.gate_rationale ?? table?.gate.rationale ?? null;
  const said = table !== null && table.gate.rationale !== null;
  const inTable = table !== null && (said || (host.gate === null && host.gate_rationale === null));
  const rationaleAt = inTable ? [...table.path, 'rationale'] : [...path, 'gate_rationale'];
  checkRationale(policy, rationale, rationaleAt, policyAt, findings);
  if ((policy === 'session' || policy === 'gated') && host.tls === 'never') {
    findings.warn(policyAt, 'passwords and sessions would pass in plaintext: tls is "never"', 'tls = "always"', 'key');
  }
}

/** The route and the table say the same thing, each in its way: nobody should have to know which one wins. */
function refuseTwice(host: HostWritten, path: Path, { path: at, gate }: GateTable, findings: Findings): boolean {
  for (const [key, other] of [
    ['gate', 'policy'],
    ['gate_rationale', 'rationale'],
  ] as const) {
    if (host[key] === null || gate[other] === null) continue;
    const { line } = findings.document.locate([...at, other]).key;
    findings.error([...path, key], `${formatPath(at)} has a ${other}, too (line ${line})`, 'one of the two', 'key');
    return true;
  }
  return false;
}

function checkLogin(config: Config, hosts: ReadonlyMap<string, HostRoute>, findings: Findings): void {
  const { host } = config.gate;
  if (host === null) return;
  const rival = hosts.get(host);
  if (rival !== undefined) {
    const { line } = findings.document.locate(['external_routes', rival.key]).key;
    findings.error(['gate', 'host'], `is the host of an external route (line ${line})`, 'a host of its own');
  }
  const secure = [...config.entrypoints.values()].some(({ protocol }) => endsTls(protocol));
  if (!secure && !findings.failed(['entrypoints'])) {
    findings.warn(
      ['gate', 'host'],
      'no https entrypoint serves it: passwords would pass in plaintext',
      'an https entrypoint',
    );
  }
}

function checkSessions({ gate }: Config, findings: Findings): void {
  if (gate.session_idle <= gate.session_absolute) return;
  const key = findings.document.has(['gate', 'session_idle']) ? 'session_idle' : 'session_absolute';
  findings.error(
    ['gate', key],
    'session_idle is longer than session_absolute',
    'a session_idle within session_absolute',
  );
}

/** Tor and the issuer of logins. */
function checkHelpers({ gate: { tor, oidc } }: Config, findings: Findings): void {
  if (tor !== null && tor.password_file !== null && tor.cookie_file !== null) {
    findings.error(['gate', 'tor', 'cookie_file'], 'password_file is there, too', 'one of the two', 'key');
  }
  if (oidc === null) return;
  const path: Path = ['gate', 'oidc'];
  const { allowed_users: users, allowed_groups: groups, allowed_domains: domains, scopes } = oidc;
  if (users.length + groups.length + domains.length === 0 && !findings.failed(path)) {
    const why = 'lets everybody in who has an account at the issuer';
    findings.error(path, why, 'one of allowed_users, allowed_groups and allowed_domains', 'key');
  }
  for (const [scope, needed] of [
    ['openid', true],
    ['email', domains.length > 0],
  ] as const) {
    if (needed && !scopes.includes(scope))
      findings.error([...path, 'scopes'], `"${scope}" is missing`, `"${scope}" in it`);
  }
}

function checkEntrypoints(config: Config, findings: Findings): void {
  for (const [name, { protocol, requires_session: app }] of config.entrypoints) {
    if (app === null || protocol === 'tcp' || protocol === 'udp') continue;
    findings.error(
      ['entrypoints', name, 'requires_session'],
      `protocol = "${protocol}" asks for logins by itself`,
      'gate in the routes, or protocol = "tcp" or "udp"',
      'key',
    );
  }
}
