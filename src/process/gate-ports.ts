// Ports of apps that the gate takes: which addresses are bound for them, and where what comes in is led.
// Invariant: pure; an app's own port and address are never among those that are taken, and a port without a policy of the
// gate gives nothing.
import type { Incarnation } from '../apps/state.ts';
import type { DeclaredTor } from '../config/declared-gate.ts';
import type { App, AppPort, AuthPolicy } from '../manifest/app.ts';
import { parseBackend } from '../model/backend.ts';
import type { FrontedPort } from '../model/gate-inheritance.ts';
import type { Backend, Entrypoint, Host, RouteGate, RoutingPart, Service, Settings } from '../model/snapshot.ts';

/** An app that is installed and active. */
export interface PortedApp {
  readonly app: App;
  /** Distinguishes this app from a later one of the same name, and its revisions. */
  readonly instance: Pick<Incarnation, 'id'>['id'];
  readonly revision: number;
  /** Place of each port in the manifest. */
  readonly originOf: (port: number) => string;
  /** Null: it runs outside, and listens where its manifest says. */
  readonly run: RunningApp | null;
}

export interface RunningApp {
  readonly instance: string | null;
  readonly down: boolean;
  /** Container port → address on this machine. */
  readonly backends: readonly { readonly port: number; readonly address: string }[];
}

/** What the configuration file says about the gate of an app. */
export type PortRule = Omit<RouteGate, 'app' | 'policy'> & { readonly policy: AuthPolicy | null };

export interface PortGround {
  readonly rules: ReadonlyMap<string, PortRule>;
  /** Null: there is no dashboard. */
  readonly dashboardPort: number | null;
  readonly skipInterfaces: readonly string[];
  /** Null: there are no onion services. */
  readonly tor: DeclaredTor | null;
}

export const noPorts: PortGround = { rules: new Map(), dashboardPort: null, skipInterfaces: [], tor: null };

/** This machine, as others reach it. */
export interface Surroundings {
  /** Non-loopback addresses. */
  readonly addresses: readonly string[];
  /** Canonical names for which a certificate of the internal CA may be wanted. */
  readonly names: readonly string[];
}

export interface GatePort {
  readonly app: string;
  readonly port: number;
  readonly protocol: 'tcp' | 'udp';
  readonly policy: AuthPolicy | null;
  readonly rationale: string | null;
  readonly origin: string;
  /** Names of the entrypoints that are wanted for it. */
  readonly entrypoints: readonly string[];
  /** Name of the one that its onion service leads to; null: it has none. */
  readonly onion: string | null;
}

export interface PortContribution {
  readonly ports: readonly GatePort[];
  readonly entrypoints: readonly Entrypoint[];
  readonly hosts: readonly Host[];
  readonly services: readonly Service[];
  readonly instances: ReadonlyMap<string, string>;
  /** Ports that nothing may lead to from outside. */
  readonly local: readonly FrontedPort[];
}

const noRules = { remove: [], set: [], add: [] } as const;
const passive = { failures: 0, ejectMs: 10_000 };
const longestStreamDrainMs = 30_000;

export function gatePorts(
  apps: readonly PortedApp[],
  { rules, dashboardPort, tor }: PortGround,
  around: Surroundings,
  settings: Settings,
): PortContribution {
  const ports: GatePort[] = [];
  const entrypoints: Entrypoint[] = [];
  const hosts: Host[] = [];
  const services: Service[] = [];
  const instances = new Map<string, string>();
  const local: FrontedPort[] = [];
  const hostsAt = (origin: string, at: readonly Entrypoint[], route: Host['routes'][number]): readonly Host[] =>
    ['*', ...around.addresses.map(literal), ...around.names].map((pattern) =>
      hostOf(pattern, origin, at, route, settings),
    );
  for (const ported of apps) {
    const { app } = ported;
    const rule = rules.get(app.name) ?? null;
    for (const port of app.ports) {
      const policy = port.protocol === 'udp' ? port.auth : (rule?.policy ?? port.auth);
      const origin = ported.originOf(port.host);
      const told = { app: app.name, port: port.host, protocol: port.protocol, policy, origin };
      if (policy === 'local') {
        local.push({ host: '127.0.0.1', port: port.host, gate: null, origin: `app ${app.name} (local)` });
      }
      if (policy !== 'session' && policy !== 'gated' && policy !== 'open') {
        ports.push({ ...told, rationale: port.rationale, entrypoints: [], onion: null });
        continue;
      }
      const taken = bindsOf(port, policy, ported.run !== null, around).map((address) =>
        entrypointOf(port.host, address, origin, settings),
      );
      const service = serviceOf(ported, port, policy, settings);
      const gate: RouteGate = {
        app: app.name,
        policy,
        sessionPassthrough: (port.sessionPassthrough || rule?.sessionPassthrough) ?? false,
        openPaths: rule?.openPaths ?? [],
        upgradeOpenPaths: rule?.upgradeOpenPaths ?? [],
        allowedOrigins: rule?.allowedOrigins ?? [],
      };
      const action = { kind: 'forward', service: service.name, rewrite: null } as const;
      const onion = tor === null || policy === 'session' ? null : onionOf(port.host, origin, settings);
      const all = onion === null ? taken : [...taken, onion];
      ports.push({
        ...told,
        rationale: port.rationale,
        entrypoints: taken.map(({ name }) => name),
        onion: onion?.name ?? null,
      });
      entrypoints.push(...all);
      services.push(service);
      instances.set(service.name, ported.run?.instance ?? ported.instance);
      hosts.push(
        ...hostsAt(origin, all, routeOf(`app-${app.name}--port-${port.host}`, origin, action, gate, settings)),
      );
    }
  }
  if (dashboardPort !== null) {
    const origin = 'gate.port';
    const at = entrypointOf(dashboardPort, '', origin, settings);
    entrypoints.push(at);
    hosts.push(...hostsAt(origin, [at], routeOf('dashboard', origin, { kind: 'gate' }, null, settings)));
  }
  return { ports, entrypoints, hosts, services, instances, local };
}

/** @param bound  of the wanted entrypoints those that could be had */
export function withPorts(
  file: RoutingPart,
  { hosts, services }: PortContribution,
  bound: readonly Entrypoint[],
): RoutingPart {
  const names = new Set(bound.map(({ name }) => name));
  return {
    ...file,
    entrypoints: [...file.entrypoints, ...bound],
    hosts: [
      ...file.hosts,
      ...hosts.map((host) => ({ ...host, entrypoints: host.entrypoints.filter((name) => names.has(name)) })),
    ],
    services: [...file.services, ...services],
  };
}

/** Where the gate listens for a port. '' is every address, those of loopback too. */
function bindsOf(
  port: AppPort,
  policy: 'session' | 'gated' | 'open',
  ours: boolean,
  { addresses }: Surroundings,
): readonly string[] {
  if (policy !== 'session') return addresses;
  const everywhere = port.binds.some(isWildcard);
  // The app that we run listens on a port of its own; any other one has the loopback address of this one.
  if (everywhere) return ours ? [''] : addresses;
  return port.binds.filter((address) => ours || !isLoopback(address));
}

const isWildcard = (address: string): boolean => address === '' || address === '0.0.0.0' || address === '::';
export const isLoopback = (address: string): boolean => address === '::1' || address.startsWith('127.');
const literal = (address: string): string => (address.includes(':') ? `[${address}]` : address);

export const entrypointName = (port: number, address: string): string => `${port}@${address === '' ? '*' : address}`;

function entrypointOf(port: number, host: string, origin: string, { limits }: Settings): Entrypoint {
  return {
    name: entrypointName(port, host),
    host,
    port,
    // Plaintext and TLS on one port; without a raw fallback anything else is refused.
    protocol: 'smart_tcp',
    publicPort: null,
    trustedCidrs: [],
    trustedProxies: null,
    proxyProtocolFrom: [],
    rawFallback: null,
    maxConnections: limits.connections,
    requiresSession: null,
    clientsAs: null,
    limits,
    origin,
  };
}

/** Where Tor leads clients of onion services: an address of loopback that no app listens on by itself. */
export const onionHost = '127.0.77.1';

/** Tor's clients all come from this machine, which is not trusted for that: each service is somebody of its own. */
function onionOf(port: number, origin: string, settings: Settings): Entrypoint {
  const { limits } = settings;
  return {
    ...entrypointOf(port, onionHost, origin, settings),
    name: `${port}@onion`,
    trustedProxies: [],
    // A network of its own in the prefix that OnionCat made known for this (not routed), so that it is throttled by itself.
    clientsAs: `fd87:d87e:eb43:${port.toString(16)}::1`,
    limits: { ...limits, connectionsPerPeer: Number.MAX_SAFE_INTEGER },
  };
}

function hostOf(
  pattern: string,
  origin: string,
  entrypoints: readonly Entrypoint[],
  route: Host['routes'][number],
  { minVersion }: Settings,
): Host {
  return {
    pattern,
    origin,
    tls: 'either',
    entrypoints: entrypoints.map(({ name }) => name),
    minVersion,
    clientAuth: null,
    hsts: null,
    routes: [route],
  };
}

function routeOf(
  id: string,
  origin: string,
  action: Host['routes'][number]['action'],
  gate: RouteGate | null,
  { limits }: Settings,
): Host['routes'][number] {
  return {
    id,
    origin,
    path: '/',
    action,
    hostHeader: null,
    requestHeaders: noRules,
    responseHeaders: noRules,
    compression: null,
    retry: true,
    rateLimit: null,
    gate,
    limits,
  };
}

function serviceOf(
  { app, run, revision, originOf }: PortedApp,
  port: AppPort,
  policy: 'session' | 'gated' | 'open',
  { limits }: Settings,
): Service {
  return {
    name: `${app.name}/${port.host}`,
    origin: originOf(port.host),
    generation: { number: 1, backends: backendsOf(run, port, policy), origin: `app ${app.name} revision ${revision}` },
    state: run !== null && run.instance === null && !run.down ? 'paused' : 'run',
    balance: 'least_requests',
    balanceKey: '',
    stickyCookie: '',
    protocol: 'http1',
    upstreamTls: null,
    network: null,
    health: null,
    // There is one backend: putting it out would only make it come back later.
    passive,
    backendLimits: limits,
    drainMs: limits.drainMs,
    streamDrainMs: run === null ? limits.streamDrainMs : Math.min(limits.streamDrainMs, longestStreamDrainMs),
    maxHoldMs: limits.maxHoldMs,
  };
}

function backendsOf(run: RunningApp | null, port: AppPort, policy: 'session' | 'gated' | 'open'): readonly Backend[] {
  const addresses = run === null ? [pinned(port)] : runningAt(run, port, policy);
  return addresses.map((address) => parseBackend(address)).filter((backend) => backend !== null);
}

/** With `session` the port of this number is ours: what runs is somewhere else, or nowhere. */
function runningAt({ instance, backends }: RunningApp, port: AppPort, policy: string): readonly string[] {
  const known = backends.filter((each) => each.port === port.container).map(({ address }) => address);
  return known.length > 0 || instance === null || policy === 'session' ? known : [pinned(port)];
}

const pinned = ({ host }: AppPort): string => `127.0.0.1:${host}`;
