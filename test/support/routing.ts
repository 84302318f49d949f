// Hand-made routing parts for tests of pure functions and of the traffic pointer.
// Invariant: every default here is a valid value; a test names only what it is about.
import { digestOfPart } from '../../src/model/digest.ts';
import { defaultGateSettings } from '../../src/model/gate-policy.ts';
import type {
  Backend,
  CertificatesPart,
  ChallengesPart,
  Entrypoint,
  GatePart,
  HealthPart,
  Host,
  KeysPart,
  Limits,
  Route,
  Routers,
  RoutingPart,
  Service,
  Settings,
  Snapshot,
  SnapshotDelta,
  SnapshotParts,
} from '../../src/model/snapshot.ts';

const never = Number.MAX_SAFE_INTEGER;

export const limits: Limits = {
  headerTimeoutMs: 10_000,
  tlsHandshakeTimeoutMs: 10_000,
  keepAliveTimeoutMs: 60_000,
  bodyIdleTimeoutMs: 60_000,
  streamIdleTimeoutMs: 3_600_000,
  headerSize: 32_768,
  headerCount: 200,
  targetSize: 8192,
  bodySize: never,
  connections: 10_000,
  connectionsPerPeer: never,
  backendConnections: 1000,
  backendConnectTimeoutMs: 5000,
  backendHeadTimeoutMs: 60_000,
  backendKeepAliveTimeoutMs: 60_000,
  drainMs: 30_000,
  streamDrainMs: 600_000,
  maxHoldMs: 30_000,
  holdRequests: 1000,
  holdSize: 64 * 1024 * 1024,
  h2Streams: 128,
  tcpConnections: 1024,
  dialTimeoutMs: 10_000,
  tcpIdleTimeoutMs: 300_000,
  udpIdleTimeoutMs: 120_000,
  udpSessions: 4096,
  overloadDelayMs: 400,
};

export const settings: Settings = {
  trustedProxies: [],
  redirect: true,
  minVersion: '1.2',
  accessLog: true,
  accessLogFormat: 'json',
  forwardedField: false,
  limits,
};

export function entrypoint(name: string, over: Partial<Entrypoint> = {}): Entrypoint {
  return {
    name,
    host: '127.0.0.1',
    port: 8080,
    protocol: 'http',
    publicPort: null,
    trustedCidrs: [],
    trustedProxies: null,
    proxyProtocolFrom: [],
    requiresSession: null,
    clientsAs: null,
    rawFallback: null,
    maxConnections: 10_000,
    limits,
    origin: `test entrypoints.${name}`,
    ...over,
  };
}

export function backend(address: string): Backend {
  const colon = address.lastIndexOf(':');
  return { address, host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(address.slice(colon + 1)) };
}

export function service(
  name: string,
  number: number,
  addresses: readonly string[],
  over: Partial<Service> = {},
): Service {
  return {
    name,
    origin: `test ${name}`,
    generation: { number, backends: addresses.map(backend), origin: 'test' },
    state: 'run',
    balance: 'least_requests',
    balanceKey: '',
    stickyCookie: '',
    protocol: 'http1',
    upstreamTls: null,
    network: null,
    health: null,
    passive: { failures: 0, ejectMs: 10_000 },
    backendLimits: limits,
    drainMs: 30_000,
    streamDrainMs: 600_000,
    maxHoldMs: 30_000,
    ...over,
  };
}

export function route(id: string, serviceName: string, over: Partial<Route> = {}): Route {
  return {
    id,
    origin: `test ${id}`,
    path: '/',
    action: { kind: 'forward', service: serviceName, rewrite: null },
    hostHeader: null,
    requestHeaders: { remove: [], set: [], add: [] },
    responseHeaders: { remove: [], set: [], add: [] },
    compression: null,
    retry: true,
    gate: null,
    rateLimit: null,
    limits,
    ...over,
  };
}

export function host(pattern: string, routes: readonly Route[], over: Partial<Host> = {}): Host {
  return {
    pattern,
    origin: `test ${pattern}`,
    tls: 'auto',
    entrypoints: ['web'],
    minVersion: '1.2',
    clientAuth: null,
    hsts: null,
    routes,
    ...over,
  };
}

export const noRouters: Routers = { tcp: [], udp: [], tls: [] };

/** A network service. */
export function networkService(
  name: string,
  number: number,
  addresses: readonly string[],
  over: Partial<Service> = {},
): Service {
  return service(name, number, addresses, {
    protocol: 'tcp',
    network: {
      transports: ['tcp'],
      sendProxyProtocol: null,
      tcpIdleTimeoutMs: limits.tcpIdleTimeoutMs,
      udpIdleTimeoutMs: limits.udpIdleTimeoutMs,
    },
    backendLimits: { ...limits, backendConnectTimeoutMs: limits.dialTimeoutMs },
    ...over,
  });
}

export function routing(over: Partial<RoutingPart> = {}): RoutingPart {
  return { settings, entrypoints: [entrypoint('web')], hosts: [], services: [], routers: noRouters, ...over };
}

export const noHealth: HealthPart = { down: {} };
export const noCertificates: CertificatesPart = { certificates: [], defaultId: null, internalCa: false, pending: [] };
export const noChallenges: ChallengesPart = { http: [], alpn: [] };
export const noGate: GatePart = { overrides: {}, settings: defaultGateSettings };
export const testKeys: KeysPart = {
  ticketKey: Buffer.alloc(48, 1).toString('base64'),
  cookieKey: Buffer.alloc(32, 2).toString('base64'),
};

/** A whole snapshot around a routing part. */
export function snapshot(revision: number, part: RoutingPart, over: Partial<SnapshotParts> = {}): Snapshot {
  const parts: SnapshotParts = {
    routing: part,
    health: noHealth,
    certificates: noCertificates,
    challenges: noChallenges,
    gate: noGate,
    keys: testKeys,
    ...over,
  };
  return {
    revision,
    parts,
    digests: {
      routing: digestOfPart(parts.routing),
      health: digestOfPart(parts.health),
      certificates: digestOfPart(parts.certificates),
      challenges: digestOfPart(parts.challenges),
      gate: digestOfPart(parts.gate),
      keys: digestOfPart(parts.keys),
    },
  };
}

/** The delta that carries every part, as a fresh worker gets it. */
export function wholeDelta(whole: Snapshot): SnapshotDelta {
  return { revision: whole.revision, parts: whole.parts, digests: whole.digests };
}
