// `[gate]` → who must log in where, and the gate of each external route.
// Invariant: pure; a host that names a policy the gate never touches has no gate at all.
import type { RouteGate } from '../model/snapshot.ts';
import type { DeclaredAppGate, DeclaredGate } from './declared-gate.ts';
import type { AppGateWritten } from './gate-keys.ts';
import type { Config } from './schema.ts';
import { fileAt, optionalFileAt, originOf, type Surroundings } from './surroundings.ts';
import { parsePattern } from './values.ts';

export function resolveGate({ gate }: Config, surroundings: Surroundings): DeclaredGate {
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
    apps: new Map([...gate.apps].map(([name, each]) => [name, resolveAppGate(name, each, surroundings)])),
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

function resolveAppGate(name: string, written: AppGateWritten, surroundings: Surroundings): DeclaredAppGate {
  return {
    policy: written.policy,
    rationale: written.rationale,
    sessionPassthrough: written.session_passthrough,
    openPaths: written.open_paths,
    upgradeOpenPaths: written.upgrade_open_paths,
    allowedOrigins: written.allowed_origins,
    origin: originOf(surroundings, ['gate', 'apps', name]),
  };
}

/** By canonical host: `gate` of the route, or `policy` in `[gate.apps."HOST"]`, with the details from there. */
export function hostGates(config: Config): ReadonlyMap<string, RouteGate> {
  const gates = new Map<string, RouteGate>();
  for (const [key, host] of config.external_routes) {
    const pattern = parsePattern(key);
    if (typeof pattern !== 'string') continue;
    const details = gateOfHost(pattern, config);
    const policy = host.gate ?? details?.policy ?? null;
    if (policy === null || policy === 'none' || policy === 'local') continue;
    gates.set(pattern, {
      app: pattern,
      policy,
      sessionPassthrough: details?.session_passthrough ?? false,
      openPaths: details?.open_paths ?? [],
      upgradeOpenPaths: details?.upgrade_open_paths ?? [],
      allowedOrigins: details?.allowed_origins ?? [],
    });
  }
  return gates;
}

/** `[gate.apps."HOST"]` in whatever spelling. */
export function gateOfHost(pattern: string, config: Config): AppGateWritten | null {
  const found = [...config.gate.apps].find(([name]) => parsePattern(name) === pattern);
  return found?.[1] ?? null;
}
