// `[gate]` → who must log in where, and the gate of each external route.
// Invariant: pure; a host that names a policy the gate never touches has no gate at all.
import type { Host, RouteGate } from '../model/snapshot.ts';
import type { DeclaredAppGate, DeclaredGate, GatePolicy } from './declared-gate.ts';
import type { AppGateWritten } from './gate-keys.ts';
import type { Config } from './schema.ts';
import { fileAt, optionalFileAt, originOf, type Surroundings } from './surroundings.ts';
import type { Path } from './syntax.ts';
import { parsePattern } from './values.ts';

export function resolveGate(config: Config, surroundings: Surroundings): DeclaredGate {
  const { gate } = config;
  const { tor, forward_auth: forward, oidc } = gate;
  return {
    written: surroundings.document.has(['gate']),
    host: gate.host,
    port: gate.port,
    sessionIdleMs: gate.session_idle,
    sessionAbsoluteMs: gate.session_absolute,
    dashboardOrigins: gate.dashboard_origins,
    skipInterfaces: gate.skip_interfaces,
    https: gate.https,
    apps: resolveApps(config, surroundings),
    tor:
      tor === null
        ? null
        : {
            control: tor.control,
            passwordFile: optionalFileAt(surroundings, tor.password_file),
            cookieFile: optionalFileAt(surroundings, tor.cookie_file),
          },
    forwardAuth:
      forward === null ? null : { url: forward.url, copyHeaders: forward.copy_headers, timeoutMs: forward.timeout },
    oidc:
      oidc === null
        ? null
        : {
            name: oidc.name,
            issuer: oidc.issuer,
            clientId: oidc.client_id,
            clientSecretFile: fileAt(surroundings, oidc.client_secret_file),
            scopes: oidc.scopes,
            usernameClaim: oidc.username_claim,
            groupsClaim: oidc.groups_claim,
            allowedUsers: oidc.allowed_users,
            allowedGroups: oidc.allowed_groups,
            allowedDomains: oidc.allowed_domains,
            ownerGroups: oidc.owner_groups,
          },
  };
}

/** Apps as `[gate.apps]` has them, and the external routes for which something is said here or there. */
function resolveApps(config: Config, surroundings: Surroundings): ReadonlyMap<string, DeclaredAppGate> {
  const apps = new Map<string, DeclaredAppGate>();
  const hosts = gatedHosts(config);
  const tables = new Set([...hosts.values()].map(({ table }) => table));
  for (const [name, { policy, rationale, ...details }] of config.gate.apps) {
    if (tables.has(name)) continue;
    const origin = originOf(surroundings, ['gate', 'apps', name]);
    apps.set(name, { policy, rationale, ...resolveDetails(details), origin });
  }
  for (const [host, { path, policy, rationale, details }] of hosts) {
    apps.set(host, { policy, rationale, ...resolveDetails(details), origin: originOf(surroundings, path) });
  }
  return apps;
}

/** The host of login and dashboard, which the gate itself answers; none when it has no host. */
export function gateHosts({ gate }: Config, surroundings: Surroundings): readonly Host[] {
  const { settings, httpEntrypoints } = surroundings;
  if (gate.host === null) return [];
  const origin = originOf(surroundings, ['gate', 'host']);
  const unchanged = { remove: [], set: [], add: [] };
  return [
    {
      pattern: gate.host,
      origin,
      tls: 'auto',
      entrypoints: httpEntrypoints,
      minVersion: settings.minVersion,
      clientAuth: null,
      hsts: null,
      routes: [
        {
          id: gate.host,
          origin,
          path: '/',
          action: { kind: 'gate' },
          hostHeader: null,
          requestHeaders: unchanged,
          responseHeaders: unchanged,
          compression: null,
          retry: false,
          rateLimit: null,
          gate: null,
          limits: settings.limits,
        },
      ],
    },
  ];
}

/** The gate of each external route that has one, by canonical host. */
export function hostGates(config: Config): ReadonlyMap<string, RouteGate> {
  const gates = new Map<string, RouteGate>();
  for (const [app, { policy, details }] of gatedHosts(config)) {
    if (policy === null || policy === 'none' || policy === 'local') continue;
    gates.set(app, { app, policy, ...resolveDetails(details) });
  }
  return gates;
}

type Details = Pick<RouteGate, 'sessionPassthrough' | 'openPaths' | 'upgradeOpenPaths' | 'allowedOrigins'>;

function resolveDetails(written: Omit<AppGateWritten, 'policy' | 'rationale'> | null): Details {
  return {
    sessionPassthrough: written?.session_passthrough ?? false,
    openPaths: written?.open_paths ?? [],
    upgradeOpenPaths: written?.upgrade_open_paths ?? [],
    allowedOrigins: written?.allowed_origins ?? [],
  };
}

interface GatedHost {
  /** Where its policy stands. */
  readonly path: Path;
  readonly policy: GatePolicy | null;
  readonly rationale: string | null;
  /** The key of its `[gate.apps."HOST"]`, and what is in there; null: there is none. */
  readonly table: string | null;
  readonly details: AppGateWritten | null;
}

/** By canonical host: `gate` of the route, or `policy` of `[gate.apps."HOST"]`, in whatever spelling that is. */
function gatedHosts(config: Config): ReadonlyMap<string, GatedHost> {
  const tables = new Map([...config.gate.apps.keys()].map((name) => [parsePattern(name), name]));
  const hosts = new Map<string, GatedHost>();
  for (const [key, host] of config.external_routes) {
    const pattern = parsePattern(key);
    if (typeof pattern !== 'string') continue;
    const table = tables.get(pattern) ?? null;
    const details = table === null ? null : (config.gate.apps.get(table) ?? null);
    if (host.gate === null && table === null) continue;
    hosts.set(pattern, {
      path: host.gate !== null || table === null ? ['external_routes', key, 'gate'] : ['gate', 'apps', table],
      policy: host.gate ?? details?.policy ?? null,
      rationale: host.gate_rationale ?? details?.rationale ?? null,
      table,
      details,
    });
  }
  return hosts;
}
