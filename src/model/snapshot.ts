// The only thing that passes from the supervisor to the workers: everything they need to serve, as plain frozen data.
// Invariant: structured-cloneable (no functions, classes, undefined members); equal digests mean equal indexes, because
// both sides build them with the same pure functions. All durations are milliseconds, all sizes bytes.

import type { SealedPart } from './part-code.ts';

export const partNames = ['routing', 'health', 'certificates', 'challenges', 'gate', 'keys'] as const;
export type PartName = (typeof partNames)[number];

export interface Snapshot {
  /** Rises by one with every publication, survives restarts. */
  readonly revision: number;
  readonly parts: SnapshotParts;
  /** Of each part, see `digestOfPart`. */
  readonly digests: Readonly<Record<PartName, string>>;
}

export interface SnapshotParts {
  readonly routing: RoutingPart;
  readonly health: HealthPart;
  readonly certificates: CertificatesPart;
  readonly challenges: ChallengesPart;
  readonly gate: GatePart;
  readonly keys: KeysPart;
}

/** What one worker is told to change: only the parts whose digest differs. */
export interface SnapshotDelta {
  readonly revision: number;
  readonly parts: Partial<SnapshotParts>;
  readonly digests: Readonly<Record<PartName, string>>;
}

/** The same on its way. */
export interface SealedDelta extends Omit<SnapshotDelta, 'parts'> {
  readonly parts: Readonly<Partial<Record<PartName, SealedPart>>>;
}

// ---- routing ---------------------------------------------------------------------------------------------------

export interface RoutingPart {
  readonly settings: Settings;
  readonly entrypoints: readonly Entrypoint[];
  readonly hosts: readonly Host[];
  readonly services: readonly Service[];
  readonly routers: Routers;
}

export interface Settings {
  /** CIDRs whose X-Forwarded-* are believed. */
  readonly trustedProxies: readonly string[];
  /** `tls.redirect`: plaintext requests of `auto` hosts are answered 308. */
  readonly redirect: boolean;
  /** Lowest TLS version of connections that name no host of ours, and of hosts without a `min_version` of their own. */
  readonly minVersion: '1.2' | '1.3';
  readonly accessLog: boolean;
  readonly accessLogFormat: 'json' | 'pretty';
  /** Emit the RFC 7239 `Forwarded` field beside X-Forwarded-*. */
  readonly forwardedField: boolean;
  readonly limits: Limits;
}

/** Every limit of `[limits]`, resolved. Infinity is written as `Number.MAX_SAFE_INTEGER`. */
export interface Limits {
  readonly headerTimeoutMs: number;
  readonly tlsHandshakeTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  readonly bodyIdleTimeoutMs: number;
  readonly streamIdleTimeoutMs: number;
  readonly headerSize: number;
  readonly headerCount: number;
  readonly targetSize: number;
  readonly bodySize: number;
  /** Per entrypoint and, shared out, per worker. */
  readonly connections: number;
  /** Per peer address; MAX_SAFE_INTEGER: no limit. */
  readonly connectionsPerPeer: number;
  /** Open connections to one backend from one worker. */
  readonly backendConnections: number;
  readonly backendConnectTimeoutMs: number;
  readonly backendHeadTimeoutMs: number;
  readonly backendKeepAliveTimeoutMs: number;
  readonly drainMs: number;
  readonly streamDrainMs: number;
  readonly maxHoldMs: number;
  readonly holdRequests: number;
  readonly holdSize: number;
  readonly h2Streams: number;
  /** `connections` of entrypoints with the protocol tcp. */
  readonly tcpConnections: number;
  /** Until a backend of a network service must have accepted a connection (and finished the TLS handshake). */
  readonly dialTimeoutMs: number;
  /** A tunnel that moves nothing in either direction for this long is ended. */
  readonly tcpIdleTimeoutMs: number;
  /** The same for a UDP flow. */
  readonly udpIdleTimeoutMs: number;
  /** A worker whose event loop is later than this refuses new work. */
  readonly overloadDelayMs: number;
  /** Flows of one UDP entrypoint; one more evicts the one that was idle for the longest time. */
  readonly udpSessions: number;
}

/** What is judged before a route is known: `[limits]` with the entrypoint's own values applied. */
export type EntrypointLimits = Pick<
  Limits,
  | 'headerTimeoutMs'
  | 'tlsHandshakeTimeoutMs'
  | 'keepAliveTimeoutMs'
  | 'headerSize'
  | 'headerCount'
  | 'targetSize'
  | 'connectionsPerPeer'
  | 'h2Streams'
  | 'udpSessions'
>;

/** What concerns the connections to one backend: `[limits]` with the service's own values applied. */
export type BackendLimits = Pick<
  Limits,
  'backendConnections' | 'backendConnectTimeoutMs' | 'backendKeepAliveTimeoutMs'
>;

export type EntrypointProtocol = 'http' | 'https' | 'smart_tcp' | 'tls_mux' | 'tcp' | 'udp';

export interface Entrypoint {
  readonly name: string;
  /** Canonical: '' for the wildcard address, else an IP literal without brackets. */
  readonly host: string;
  readonly port: number;
  readonly protocol: EntrypointProtocol;
  /** The port clients reach, when a port mapping lies in front; null: `port`. */
  readonly publicPort: number | null;
  /** CIDRs that may connect; empty: everyone. */
  readonly trustedCidrs: readonly string[];
  /** CIDRs whose forwarded headers are believed on this entrypoint; null: `settings.trustedProxies`. */
  readonly trustedProxies: readonly string[] | null;
  /** CIDRs whose connections begin with a PROXY protocol header, which is required from them and from nobody else. */
  readonly proxyProtocolFrom: readonly string[];
  /** `smart_tcp`: who gets what is neither HTTP nor TLS; null: nobody. */
  readonly rawFallback: RawFallback | null;
  readonly maxConnections: number;
  /** `tcp` and `udp`: only addresses from which a user of this app is logged in; null: no login is asked for. */
  readonly requiresSession: string | null;
  /** What clients are known by whose own address nobody knows, those of an onion service; null: their address. */
  readonly clientsAs: string | null;
  readonly limits: EntrypointLimits;
  /** "config.toml:12 entrypoints.web", for `explain` and errors. */
  readonly origin: string;
}

export interface RawFallback {
  /** Name of a network service. */
  readonly service: string;
  /** CIDRs that may reach it; null: everyone, which the operator has said in so many words. */
  readonly trustedCidrs: readonly string[] | null;
}

export type TlsPolicy = 'auto' | 'always' | 'never';
/** `either`: a port of the gate serves plaintext and TLS alike, whatever name it is called by, and reserves no name. */
export type HostTls = TlsPolicy | 'either';

export interface Host {
  /** Canonical exact host, `*.suffix` (exactly one label) or `*` (catch-all). IPv6 in brackets. */
  readonly pattern: string;
  readonly origin: string;
  readonly tls: HostTls;
  /** Names of the entrypoints that serve it. */
  readonly entrypoints: readonly string[];
  readonly minVersion: '1.2' | '1.3';
  readonly clientAuth: ClientAuth | null;
  /** Strict-Transport-Security value; null: not sent. */
  readonly hsts: string | null;
  /** Longest path first; the last one, '/', always exists unless the declaration left it out on purpose. */
  readonly routes: readonly Route[];
}

export interface ClientAuth {
  readonly mode: 'request' | 'require';
  /** PEM bundle of the accepted issuers. */
  readonly ca: string;
}

export interface Route {
  /** Host pattern plus path, e.g. "app.test/api": metric label, service name suffix, log field. */
  readonly id: string;
  readonly origin: string;
  /** '/' or '/a/b' without a trailing slash: matches itself and whole segments below. */
  readonly path: string;
  readonly action: RouteAction;
  /** Overrides the Host sent to the backend; null: the canonical request host. */
  readonly hostHeader: string | null;
  readonly requestHeaders: HeaderRules;
  readonly responseHeaders: HeaderRules;
  readonly compression: Compression | null;
  /** At most one more try, on another backend first; false: never. */
  readonly retry: boolean;
  readonly rateLimit: RateLimit | null;
  /** Null: the gate does not look at requests of this route. */
  readonly gate: RouteGate | null;
  /** `[limits]` with this route's overrides applied. */
  readonly limits: Limits;
}

/** What the gate asks of requests before they reach an app. Policies it never touches are no `RouteGate` at all. */
export interface RouteGate {
  /** What tokens, rights and overrides are about: the app's name, for an external route its host as in the file. */
  readonly app: string;
  readonly policy: 'session' | 'gated' | 'open';
  /** The app gets the session cookie too. */
  readonly sessionPassthrough: boolean;
  /** Paths that need no login: "/p" is one path, "/p/*" everything below. */
  readonly openPaths: readonly string[];
  /** The same for upgrades only. */
  readonly upgradeOpenPaths: readonly string[];
  /** Origins besides the route's own that may send requests with a session. */
  readonly allowedOrigins: readonly string[];
}

export type RouteAction =
  | { readonly kind: 'forward'; readonly service: string; readonly rewrite: PathRewrite | null }
  | {
      readonly kind: 'respond';
      readonly status: number;
      readonly headers: readonly (readonly [string, string])[];
      readonly body: string;
    }
  /** `{host}` in `to` stands for the canonical request host, `{uri}` for the path and query byte for byte. */
  | { readonly kind: 'redirect'; readonly status: number; readonly to: string }
  /** The gate's own pages: login and dashboard. */
  | { readonly kind: 'gate' };

/** `strip`: remove the route's path. `replace`: put `to` in its place. Both keep the rest and the query byte for byte. */
export type PathRewrite = { readonly kind: 'strip' } | { readonly kind: 'replace'; readonly to: string };

export interface HeaderRules {
  readonly remove: readonly string[];
  /** Replaces. */
  readonly set: readonly (readonly [string, string])[];
  /** Appends a line. */
  readonly add: readonly (readonly [string, string])[];
}

export interface Compression {
  /** In order of preference. */
  readonly encodings: readonly ('zstd' | 'br' | 'gzip')[];
  readonly minSize: number;
  /** Media types without parameters, `text/*` allowed. */
  readonly types: readonly string[];
}

export interface RateLimit {
  /** Tokens a client address gains per second. */
  readonly perSecond: number;
  readonly burst: number;
}

export type Balance = 'least_requests' | 'round_robin' | 'hash_client' | 'hash_header' | 'hash_cookie';
/**
 * `http1` … `https` carry the requests of hosts, the others what routers lead to: `tcp` and `tls` the bytes of tunnels,
 * plain or inside TLS, `udp` the datagrams of a service that takes nothing else.
 */
export type BackendProtocol = 'http1' | 'h2c' | 'h2' | 'https' | 'tcp' | 'tls' | 'udp';

export interface Service {
  /** An external route's is its host key (plus path for a sub-route), a network service's its name. */
  readonly name: string;
  readonly origin: string;
  readonly generation: Generation;
  /** `run`; `paused`: arrivals wait (service hold); `stopped`: 503 with a maintenance page. */
  readonly state: 'run' | 'paused' | 'stopped';
  readonly balance: Balance;
  /** Header or cookie name for `hash_*`; '' otherwise. */
  readonly balanceKey: string;
  /** Name of the signed cookie that pins a client to a backend; '' when not sticky. */
  readonly stickyCookie: string;
  readonly protocol: BackendProtocol;
  readonly upstreamTls: UpstreamTls | null;
  /** Null for the service of a host. */
  readonly network: NetworkSettings | null;
  readonly health: HealthCheck | null;
  readonly passive: PassiveHealth;
  readonly backendLimits: BackendLimits;
  readonly drainMs: number;
  readonly streamDrainMs: number;
  readonly maxHoldMs: number;
}

/** What only network services have. */
export interface NetworkSettings {
  /** What its backends take, all of them alike: one address may be both a TCP and a UDP port. */
  readonly transports: readonly Transport[];
  /** The header that tells backends who the client is, first thing on each TCP connection; null: none. */
  readonly sendProxyProtocol: 1 | 2 | null;
  readonly tcpIdleTimeoutMs: number;
  readonly udpIdleTimeoutMs: number;
}

export type Transport = 'tcp' | 'udp';

export interface Generation {
  /** Rises and is never reused, over restarts too. */
  readonly number: number;
  readonly backends: readonly Backend[];
  /** Where the addresses came from: "config.toml:30 …" or "service switch 2026-…". */
  readonly origin: string;
}

export interface Backend {
  /** `host:port` as configured, IPv6 in brackets; the identity of a backend inside its generation. */
  readonly address: string;
  readonly host: string;
  readonly port: number;
}

export interface UpstreamTls {
  /** SNI and verified name; '' : the backend's host name. */
  readonly sni: string;
  readonly verify: boolean;
  /** PEM; '' : the system's roots. */
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

export interface HealthCheck {
  readonly type: 'http' | 'tcp';
  readonly path: string;
  /** Host header of the probe; '' : the service's host. */
  readonly host: string;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Consecutive results that flip the state. */
  readonly healthyAfter: number;
  readonly unhealthyAfter: number;
}

export interface PassiveHealth {
  /** Consecutive failures that eject a backend; 0: never. */
  readonly failures: number;
  readonly ejectMs: number;
}

// ---- routers: what leads to network services ------------------------------------------------------------------

export interface Routers {
  /** At most one an entrypoint, on `tcp` entrypoints only. */
  readonly tcp: readonly TcpRouter[];
  /** At most one an entrypoint, on `udp` entrypoints only. */
  readonly udp: readonly UdpRouter[];
  /** On `smart_tcp` and `tls_mux` entrypoints. */
  readonly tls: readonly TlsRouter[];
}

export interface TcpRouter {
  readonly entrypoint: string;
  readonly service: string;
  /** TLS is ended here and the service gets what was inside; null: every byte passes as it comes. */
  readonly terminate: TlsTermination | null;
  readonly origin: string;
}

export interface TlsTermination {
  /** Canonical patterns that clients may name; empty: every name that a certificate covers. */
  readonly names: readonly string[];
}

/** TLS connections whose SNI matches pass unopened. */
export interface TlsRouter {
  readonly entrypoint: string;
  readonly service: string;
  /** Canonical hosts and `*.suffix` (exactly one label). Unique and not nested within an entrypoint. */
  readonly names: readonly string[];
  readonly origin: string;
}

/**
 * Datagrams of a `udp` entrypoint. Its socket belongs to exactly one worker, its owner: the supervisor chooses one
 * (`model/udp-owner.ts`) and says so beside the snapshot, because ownership moves without a publication when a worker
 * leaves. The owner binds in `prepare` what it does not have yet; the others only follow. When an owner dies its flows
 * are lost, and the next owner binds anew.
 */
export interface UdpRouter {
  readonly entrypoint: string;
  readonly service: string;
  readonly origin: string;
}

// ---- the other parts -------------------------------------------------------------------------------------------

export interface HealthPart {
  /** Service name → addresses that must not be chosen now (active checks and published passive ejections). */
  readonly down: Readonly<Record<string, readonly string[]>>;
}

export interface CertificatesPart {
  readonly certificates: readonly Certificate[];
  /** Id of the certificate for clients without a (known) name; null: refuse. */
  readonly defaultId: string | null;
  /** The internal CA signs leaves on demand for configured names that have no other certificate. */
  readonly internalCa: boolean;
  /** Patterns of hosts whose first certificate has been ordered, or will be: they have none yet. */
  readonly pending: readonly string[];
}

export interface Certificate {
  /** SHA-256 fingerprint of the leaf, hex. */
  readonly id: string;
  readonly source: 'static' | 'acme' | 'internal';
  readonly origin: string;
  /** Canonical names, `*.` for one-label wildcards, IP literals as configured hosts spell them. */
  readonly names: readonly string[];
  readonly notBefore: number;
  readonly notAfter: number;
  /** PEM chain, leaf first. */
  readonly chain: string;
  readonly key: string;
}

/** What every worker must answer while a CA looks whether names are ours (RFC 8555 §8); published before the CA is told. */
export interface ChallengesPart {
  readonly http: readonly HttpChallenge[];
  readonly alpn: readonly AlpnChallenge[];
}

export interface HttpChallenge {
  /** Canonical host, exactly as the CA will ask for it. */
  readonly host: string;
  readonly token: string;
  /** The key authorization: the whole body of the answer. */
  readonly answer: string;
}

export interface AlpnChallenge {
  /** Canonical name, as it will come in the SNI. */
  readonly name: string;
  /** PEM of the self-signed certificate with the acmeIdentifier extension (RFC 8737 §3), and its key. */
  readonly chain: string;
  readonly key: string;
}

/** What decides logins besides the routes' own policies. Sessions and tokens are no part: they travel as deltas. */
export interface GatePart {
  /** App id → what the operator set at run time: true asks for a login, false does not. */
  readonly overrides: Readonly<Record<string, boolean>>;
  readonly settings: GateSettings;
}

export interface GateSettings {
  /** Canonical name where people log in for every other name; null: each name asks for itself. */
  readonly host: string | null;
  /** Port of the dashboard on every address of this machine; null: it has none. */
  readonly port: number | null;
  /** A session that is not used for this long ends. */
  readonly sessionIdleMs: number;
  /** A session ends at this age, used or not. */
  readonly sessionAbsoluteMs: number;
  /** Canonical origins besides the dashboard's own that may frame gated and open apps. */
  readonly dashboardOrigins: readonly string[];
  /** What the login page calls the issuer by which people may log in; null: there is none. */
  readonly singleSignOn: string | null;
  /** Another program is asked about requests that bring nothing of ours; null: they are led to our login. */
  readonly forwardAuth: ForwardAuth | null;
  /** `prefer`: navigations on gate-taken ports are sent to https. */
  readonly https: 'allow' | 'prefer';
}

export interface ForwardAuth {
  readonly url: string;
  /** Fields of its answer that the app gets; those of clients are taken away. */
  readonly copyHeaders: readonly string[];
  readonly timeoutMs: number;
}

export interface KeysPart {
  /** 48 bytes, base64: TLS session tickets, shared by all workers, rotated. */
  readonly ticketKey: string;
  /** 32 bytes, base64: signs sticky cookies. */
  readonly cookieKey: string;
}
