// What active apps add to the routing of the configuration file: hosts, services, routers, one raw fallback.
// Invariant: pure; internal interfaces add nothing, a host or listener has one owner, and two generations of one service
// never look like the same one.

import { parseBackend } from '../model/backend.ts';
import { takesHttp } from '../model/entrypoint-protocol.ts';
import type {
  Backend,
  BackendProtocol,
  Entrypoint,
  HeaderRules,
  Host,
  NetworkSettings,
  RouteGate,
  RoutingPart,
  Service,
  Settings,
  TcpRouter,
  Transport,
  UdpRouter,
} from '../model/snapshot.ts';
import type { ActiveService } from './state.ts';

/** What the file says about apps in general. */
export interface AppGround {
  /** By app; what is missing has no gate. */
  readonly gates: ReadonlyMap<string, RouteGate>;
  /** Hosts of the file that say themselves what the gate is to ask for, `none` included. */
  readonly named: ReadonlySet<string>;
  /** Hosts that are Turnpike's own. */
  readonly reserved: readonly { readonly host: string; readonly origin: string }[];
}

export const noGround: AppGround = { gates: new Map(), named: new Set(), reserved: [] };

export interface Composed {
  readonly routing: RoutingPart;
  /** Service of an app → what runs behind its addresses: another instance is another generation. */
  readonly instances: ReadonlyMap<string, string>;
}

/** At most: an app ends what it holds sooner than an external backend, because its process waits to be stopped. */
const longestStreamDrainMs = 30_000;
const heldDrainMs = 10_000;
const heldStreamMs = 1000;
const passive = { failures: 5, ejectMs: 10_000 };
const noRules: HeaderRules = { remove: [], set: [], add: [] };

/** @param active  of every app */
export function compose(file: RoutingPart, active: readonly ActiveService[], ground: AppGround): Composed {
  if (active.length === 0) return { routing: file, instances: new Map() };
  const web = file.entrypoints.filter(({ protocol }) => takesHttp(protocol)).map(({ name }) => name);
  const hosts = new Map<string, { readonly host: Host; readonly revision: number }>();
  const services: Service[] = [];
  const instances = new Map<string, string>();
  const tcp = new Map<string, Owned<TcpRouter>>();
  const udp = new Map<string, Owned<UdpRouter>>();
  for (const each of active) {
    const { revision } = each;
    for (const part of partsOf(each)) {
      const service = serviceOf(part, each, file.settings);
      services.push(service);
      instances.set(service.name, each.instance?.id ?? '');
      const origin = (claim: string, fallback: string): string =>
        each.origins[claim] ?? `${each.file} services.${each.name}.${fallback}`;
      for (const { host: pattern, tls } of part.hosts) {
        const known = hosts.get(pattern);
        // A host that moves between services of one app belongs to the newer revision.
        if (known !== undefined && known.revision > revision) continue;
        const host = hostOf(pattern, tls, service, each, origin(`host ${pattern}`, `http "${pattern}"`), file.settings);
        hosts.set(pattern, { revision, host: { ...host, entrypoints: web, routes: gated(host, each, ground) } });
      }
      for (const entrypoint of part.tcp.filter((name) => attachable(file, name, 'tcp'))) {
        const router = {
          entrypoint,
          service: service.name,
          terminate: null,
          origin: origin(`entrypoint ${entrypoint} tcp`, 'tcp'),
        };
        keepNewer(tcp, router, revision);
      }
      for (const entrypoint of part.udp.filter((name) => attachable(file, name, 'udp'))) {
        keepNewer(
          udp,
          { entrypoint, service: service.name, origin: origin(`entrypoint ${entrypoint} udp`, 'udp') },
          revision,
        );
      }
    }
  }
  const smart = new Set(file.entrypoints.filter(({ protocol }) => protocol === 'smart_tcp').map(({ name }) => name));
  const streams = [...tcp.values()].map(({ router }) => router);
  const raw = new Map(streams.filter(({ entrypoint }) => smart.has(entrypoint)).map((each) => [each.entrypoint, each]));
  const routing: RoutingPart = {
    ...file,
    entrypoints: file.entrypoints.map((each) => withFallback(each, raw.get(each.name)?.service ?? null)),
    hosts: [...file.hosts, ...[...hosts.values()].map(({ host }) => host)],
    services: [...file.services, ...services],
    routers: {
      tcp: [...file.routers.tcp, ...streams.filter(({ entrypoint }) => !smart.has(entrypoint))],
      udp: [...file.routers.udp, ...[...udp.values()].map(({ router }) => router)],
      tls: file.routers.tls,
    },
  };
  return { routing, instances };
}

/** Name of an app's service in the routing: `app/service`, with the port for those beside its first one. */
export function routingServices(active: ActiveService): readonly string[] {
  return partsOf(active).map(({ name }) => name);
}

/** The app that a service of the routing belongs to; null: it is the file's. */
export function appOf(service: string, active: readonly ActiveService[]): ActiveService | null {
  return active.find((each) => routingServices(each).includes(service)) ?? null;
}

// ---- one service of an app, as traffic sees it -------------------------------------------------------------------

/** One port of it: what leads there, and what it is called. */
interface Part {
  readonly name: string;
  readonly port: number;
  readonly protocol: BackendProtocol;
  readonly hosts: readonly { readonly host: string; readonly tls: Host['tls'] }[];
  /** Entrypoints. */
  readonly tcp: readonly string[];
  readonly udp: readonly string[];
}

function partsOf({ app, name, service }: ActiveService): readonly Part[] {
  const parts = new Map<string, Part>();
  const at = (port: number, protocol: BackendProtocol): Part => {
    const key = `${protocol} ${port}`;
    const known = parts.get(key);
    if (known !== undefined) return known;
    // The first one is what the operator means by the service.
    const suffix = parts.size === 0 ? '' : protocol === 'http1' ? `:${port}` : `:${port}/${protocol}`;
    return { name: `${app}/${name}${suffix}`, port, protocol, hosts: [], tcp: [], udp: [] };
  };
  const put = (part: Part): void => {
    parts.set(`${part.protocol} ${part.port}`, part);
  };
  for (const each of service.http) {
    if (each.visibility === 'internal') continue;
    const part = at(each.port, 'http1');
    put({ ...part, hosts: [...part.hosts, { host: each.host, tls: each.tls }] });
  }
  for (const { port, entrypoint } of service.tcp) {
    const part = at(port, 'tcp');
    put({ ...part, tcp: [...part.tcp, entrypoint] });
  }
  for (const { port, entrypoint } of service.udp) {
    const part = at(port, 'udp');
    put({ ...part, udp: [...part.udp, entrypoint] });
  }
  return [...parts.values()];
}

function serviceOf(part: Part, active: ActiveService, { limits }: Settings): Service {
  const { instance, down, app, name, revision, file } = active;
  const network: NetworkSettings | null =
    part.protocol === 'http1'
      ? null
      : {
          transports: [part.protocol === 'udp' ? 'udp' : 'tcp'],
          sendProxyProtocol: null,
          tcpIdleTimeoutMs: limits.tcpIdleTimeoutMs,
          udpIdleTimeoutMs: limits.udpIdleTimeoutMs,
        };
  return {
    name: part.name,
    origin: `${file} services.${name}`,
    generation: { number: 1, backends: backendsOf(part, active), origin: `app ${app} revision ${revision}` },
    state: instance === null && !down ? 'paused' : 'run',
    balance: 'least_requests',
    balanceKey: '',
    stickyCookie: '',
    protocol: part.protocol,
    upstreamTls: null,
    network,
    health: null,
    passive,
    backendLimits: {
      backendConnections: limits.backendConnections,
      backendConnectTimeoutMs: network === null ? limits.backendConnectTimeoutMs : limits.dialTimeoutMs,
      backendKeepAliveTimeoutMs: limits.backendKeepAliveTimeoutMs,
    },
    ...drainLimits(active, network !== null, limits),
    maxHoldMs: limits.maxHoldMs,
  };
}

/** While a service is withdrawn everybody waits for what is still in work, and what streams would not end by itself. */
function drainLimits({ instance }: ActiveService, network: boolean, limits: Settings['limits']) {
  if (instance === null) {
    return { drainMs: network ? heldStreamMs : Math.min(limits.drainMs, heldDrainMs), streamDrainMs: heldStreamMs };
  }
  const streamDrainMs = Math.min(limits.streamDrainMs, longestStreamDrainMs);
  return { drainMs: network ? streamDrainMs : limits.drainMs, streamDrainMs };
}

function backendsOf(part: Part, { instance }: ActiveService): readonly Backend[] {
  const addresses = instance?.backends.filter(({ port }) => port === part.port) ?? [];
  return addresses.map(({ address }) => parseBackend(address)).filter((backend) => backend !== null);
}

function hostOf(
  pattern: string,
  tls: Host['tls'],
  service: Service,
  { app, name }: ActiveService,
  origin: string,
  settings: Settings,
): Host {
  return {
    pattern,
    origin,
    tls,
    entrypoints: [],
    minVersion: settings.minVersion,
    clientAuth: null,
    hsts: null,
    routes: [
      {
        id: `app-${app}--${name}--http-${pattern}`,
        origin,
        path: '/',
        action: { kind: 'forward', service: service.name, rewrite: null },
        hostHeader: null,
        requestHeaders: noRules,
        responseHeaders: noRules,
        compression: null,
        retry: true,
        rateLimit: null,
        gate: null,
        limits: settings.limits,
      },
    ],
  };
}

const gated = ({ routes }: Host, { app }: ActiveService, { gates }: AppGround): Host['routes'] =>
  routes.map((route) => ({ ...route, gate: gates.get(app) ?? null }));

// ---- listeners -------------------------------------------------------------------------------------------------

/** A reload may take an entrypoint away from an app that is being deployed for the first time. */
function attachable({ entrypoints }: RoutingPart, name: string, transport: Transport): boolean {
  const found = entrypoints.find((each) => each.name === name);
  return found !== undefined && (transport === 'udp' ? ['udp'] : ['tcp', 'smart_tcp']).includes(found.protocol);
}

interface Owned<R> {
  readonly router: R;
  readonly revision: number;
}

function keepNewer<R extends UdpRouter>(routers: Map<string, Owned<R>>, router: R, revision: number): void {
  const known = routers.get(router.entrypoint);
  if (known === undefined || known.revision <= revision) routers.set(router.entrypoint, { router, revision });
}

/** The entrypoint's own source policy says who may come at all. */
function withFallback(entrypoint: Entrypoint, service: string | null): Entrypoint {
  return service === null ? entrypoint : { ...entrypoint, rawFallback: { service, trustedCidrs: null } };
}
