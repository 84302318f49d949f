// What the running process can be asked to do and to tell: the one interface between process/ and control/.
// Invariant: everything here is plain data that may leave the process; no private key, secret or token is in any answer
// except `ExplainFacts`, which never crosses the socket.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FaultCode } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import type { Problem } from '../config/load.ts';
import type { RoutingChanges } from '../model/changes.ts';
import type { CertificatesPart, ChallengesPart, GatePart, HealthPart, RoutingPart } from '../model/snapshot.ts';
import type { SwitchPhase } from '../model/switchover.ts';
import type { AppOperations } from './apps-operations.ts';
import type { GateOperations } from './gate-operations.ts';
import type { WorkerLoad } from './protocol.ts';
import type { TlsNameStatus, TlsOperations } from './tls-operations.ts';

export type { SwitchPhase } from '../model/switchover.ts';

/** Verbs fail with a Fault of side `operator`; everything else that can go wrong is in the answers. Times are epoch ms. */
export interface Operations {
  readonly gate: GateOperations;
  readonly apps: AppOperations;
  /** Reads the configuration file again and applies it, or says why not and keeps the old one. */
  reload(): Promise<ReloadResult>;
  /** What `reload` would do with this file (null: the file the process runs on). Changes nothing. */
  diff(file: string | null): Promise<DiffResult>;
  status(): Promise<Status>;
  routes(): Promise<readonly RouteRow[]>;
  traffic(): Promise<TrafficStatus>;
  /** Resolves when the old generation is drained. `progress` is called on every step and about once a second in between. */
  switchService(request: SwitchRequest, progress: (step: SwitchProgress) => void): Promise<SwitchReport>;
  pauseService(name: string): Promise<ServiceChange>;
  resumeService(name: string): Promise<ServiceChange>;
  stopService(name: string): Promise<ServiceChange>;
  startService(name: string): Promise<ServiceChange>;
  readonly tls: TlsOperations;
  tlsStatus(): Promise<TlsStatus>;
  /** The internal CA's root certificate, PEM; null when the internal CA is off. */
  caPem(): Promise<string | null>;
  explainFacts(): Promise<ExplainFacts>;
  /** Prometheus text format, all processes added up. */
  metricsText(): Promise<string>;
  /**
   * Replaces the workers one by one on the held listeners, as an upgrade of the program does. Resolves when every new
   * worker serves; the old ones go on for what they have claimed, at most to their drain limits.
   */
  replaceWorkers(): Promise<{ readonly replaced: number }>;
}

/** control/ gives this to the supervisor, which listens on the socket. */
export type CreateControlHandler = (
  operations: Operations,
  log: Log,
) => (request: IncomingMessage, response: ServerResponse) => void;

export interface FaultReport {
  readonly code: FaultCode;
  readonly message: string;
}

// ---- reload and diff -------------------------------------------------------------------------------------------

export interface ReloadResult {
  readonly outcome: 'applied' | 'unchanged' | 'refused';
  /** The revision that is served after the call. */
  readonly revision: number;
  readonly file: string;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
  /** Set when the file is valid and the publication failed. */
  readonly fault: FaultReport | null;
  readonly changes: RoutingChanges | null;
  /** Keys whose change only a restart applies: `state_dir`, `workers`. */
  readonly needsRestart: readonly string[];
}

export interface DiffResult {
  readonly file: string;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
  /** Null when the file has problems. */
  readonly changes: RoutingChanges | null;
  readonly needsRestart: readonly string[];
  /** Services whose addresses come from `service switch` and stay, whatever the file says. */
  readonly overrides: readonly ServiceOverride[];
  /** Open connections that a reload would close, and why. */
  readonly closes: readonly { readonly entrypoint: string; readonly connections: number; readonly why: string }[];
}

export interface ServiceOverride {
  readonly service: string;
  /** Served now. */
  readonly addresses: readonly string[];
  /** What the file says. */
  readonly declared: readonly string[];
  readonly since: number;
}

// ---- status ----------------------------------------------------------------------------------------------------

export interface Status {
  readonly version: string;
  readonly pid: number;
  readonly startedAt: number;
  readonly configFile: string;
  readonly stateDir: string;
  readonly revision: number;
  readonly workers: readonly WorkerStatus[];
  /** Null before the first reload. */
  readonly lastReload: LastReload | null;
  readonly entrypoints: readonly EntrypointStatus[];
  readonly services: readonly ServiceStatus[];
  readonly hosts: number;
  readonly routes: number;
  readonly certificates: readonly CertificateStatus[];
  /** Running ones first, then the latest ended ones. */
  readonly switchovers: readonly SwitchStatus[];
  readonly warnings: readonly Problem[];
}

export interface WorkerStatus {
  readonly id: number;
  readonly pid: number;
  readonly state: 'starting' | 'ready' | 'leaving';
  readonly revision: number;
  readonly startedAt: number;
  /** How often the process in this slot was replaced after it died. */
  readonly restarts: number;
  /** Null while it does not answer. */
  readonly load: WorkerLoad | null;
}

export interface LastReload {
  readonly at: number;
  readonly outcome: ReloadResult['outcome'];
  readonly problems: readonly Problem[];
  readonly fault: FaultReport | null;
}

export interface EntrypointStatus {
  readonly name: string;
  /** As one would connect: "*:8080", "127.0.0.1:9000", "[::1]:80". */
  readonly address: string;
  readonly protocol: string;
  /** Open now. */
  readonly connections: number;
  readonly accepted: number;
  /** Refused by source policy or by a connection limit. */
  readonly refused: number;
  /** Why nobody can reach it since its worker was replaced; null: it listens. */
  readonly problem: string | null;
}

export interface ServiceStatus {
  readonly name: string;
  readonly state: 'run' | 'paused' | 'stopped';
  readonly generation: number;
  /** Where the addresses come from. */
  readonly origin: string;
  readonly backends: readonly BackendStatus[];
  readonly override: ServiceOverride | null;
  /** Arrivals that wait for a hold. */
  readonly waiting: number;
  /** Claims on the live generation. */
  readonly active: number;
  readonly draining: readonly { readonly generation: number; readonly active: number }[];
}

export interface BackendStatus {
  readonly address: string;
  readonly state: 'up' | 'down' | 'ejected';
}

export interface CertificateStatus {
  readonly id: string;
  readonly source: 'static' | 'acme' | 'internal';
  readonly origin: string;
  readonly names: readonly string[];
  readonly notBefore: number;
  readonly notAfter: number;
  readonly isDefault: boolean;
}

export interface SwitchStatus {
  readonly service: string;
  readonly from: readonly string[];
  readonly to: readonly string[];
  readonly phase: SwitchPhase;
  readonly startedAt: number;
  readonly endedAt: number | null;
  readonly fault: FaultReport | null;
}

// ---- routes and counters ---------------------------------------------------------------------------------------

/** A way to a service: a host and path, or a router to a network service. */
export interface RouteRow {
  /** For a TLS router the name; "(tcp)", "(udp)" or "(raw)" for what leads to a network service without one. */
  readonly host: string;
  readonly path: string;
  readonly entrypoints: readonly string[];
  /** The policy of a host; for a router "passes", "ends" or "-". */
  readonly tls: string;
  /** "forward", "respond 200", "redirect 308 https://…", "tcp", "udp", "raw fallback". */
  readonly action: string;
  /** Null for a route that forwards nowhere. */
  readonly service: string | null;
  readonly backends: readonly string[];
  readonly origin: string;
}

export interface TrafficStatus {
  readonly at: number;
  /** Null before the first reload. */
  readonly lastReload: LastReload | null;
  readonly totals: TrafficTotals;
  /** Each list is sorted by name. */
  readonly entrypoints: readonly ConnectionTraffic[];
  /** What leads from an entrypoint to a network service. */
  readonly routers: readonly RouterTraffic[];
  /** One for each network service with TCP backends. */
  readonly tunnels: readonly TunnelTraffic[];
  /** One for each udp entrypoint. */
  readonly datagrams: readonly DatagramTraffic[];
  readonly routes: readonly RouteTraffic[];
  readonly services: readonly ServiceTraffic[];
}

/** Over all entrypoints, and over all that workers of this process ever counted there. */
export interface TrafficTotals {
  /** Open now. */
  readonly connections: number;
  readonly flows: number;
  readonly accepted: number;
  readonly refused: number;
  readonly errors: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly requests: number;
}

export interface RouterTraffic {
  readonly entrypoint: string;
  /** Of a TLS router the name that passes; "(tcp)", "(udp)" or "(raw)" for what has none. */
  readonly name: string;
  /** "tcp", "udp" or "raw fallback". */
  readonly carries: string;
  /** "passes", "ends" or "-". */
  readonly tls: string;
  /** What passes is counted there, under `tunnels` and `datagrams`. */
  readonly service: string;
  readonly state: ServiceStatus['state'];
}

/** `in` is from clients, `out` is to them. A connection that has ended is in one of `accepted`, `errors`, `refusals`. */
export interface ConnectionTraffic extends EntrypointStatus {
  /** Connections that no backend took. */
  readonly errors: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** `refused`, by reason: "source", "limit", "raw-source", "malformed", "sniff-timeout", … */
  readonly refusals: Readonly<Record<string, number>>;
  /**
   * Accepted ones by what they carry, where that is told by their first bytes or by TLS: "http1", "h2c", "tls",
   * "passthrough", "raw". Empty for udp.
   */
  readonly protocols: Readonly<Record<string, number>>;
}

export interface TunnelTraffic {
  readonly service: string;
  readonly open: number;
  /** Connections that no backend took. */
  readonly failures: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Those that have ended, by the reason in their line of the access log. */
  readonly ended: Readonly<Record<string, number>>;
}

/** `in` is from clients, `out` is to them. */
export interface DatagramTraffic {
  readonly entrypoint: string;
  readonly flows: number;
  /** Flows ever begun. */
  readonly begun: number;
  readonly evicted: number;
  readonly datagramsIn: number;
  readonly datagramsOut: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Datagrams that went no further, by reason; "source": the sender may not use the entrypoint. */
  readonly dropped: Readonly<Record<string, number>>;
  /** Datagrams that backends refused (ICMP). */
  readonly refused: number;
  /** Other failures of sockets. */
  readonly errors: number;
}

export interface RouteTraffic {
  readonly route: string;
  readonly requests: number;
  /** Answers by status class: "1xx" … "5xx". */
  readonly classes: Readonly<Record<string, number>>;
}

export interface ServiceTraffic {
  readonly service: string;
  readonly generation: number;
  readonly active: number;
  readonly waiting: number;
  readonly backends: readonly BackendTraffic[];
}

export interface BackendTraffic {
  readonly address: string;
  readonly state: BackendStatus['state'];
  readonly requests: number;
  readonly failures: number;
  readonly active: number;
}

// ---- services --------------------------------------------------------------------------------------------------

export interface SwitchRequest {
  readonly service: string;
  /** `host:port` each; 'config': go back to what the file says. */
  readonly to: readonly string[] | 'config';
  /** Null: the service's own `drain`. */
  readonly drainMs: number | null;
  readonly probe: boolean;
}

export interface SwitchProgress {
  readonly phase: SwitchPhase;
  /** Milliseconds since the command began. */
  readonly elapsedMs: number;
  /** While draining: claims left on the old generation. */
  readonly left: number | null;
  /** While probing: the address and what the last attempt said. */
  readonly detail: string | null;
}

/** Counted over all workers from the commit until the old generation was drained. */
export interface SwitchReport {
  readonly service: string;
  readonly from: { readonly generation: number; readonly addresses: readonly string[] };
  readonly to: { readonly generation: number; readonly addresses: readonly string[] };
  readonly revision: number;
  /** Claims ever taken by the old generation, and by the new one until the end of this report. */
  readonly requestsOld: number;
  readonly requestsNew: number;
  readonly inFlightAtFlip: number;
  /** Arrivals that waited during the hold, and how long the hold lasted. */
  readonly held: number;
  readonly holdMs: number;
  readonly longestDrainedMs: number;
  /** Claims that the drain deadline ended. */
  readonly forcedCloses: number;
  readonly retries: number;
  /** Exchanges of either generation that failed meanwhile (answers 502, 503, 504 and broken bodies). */
  readonly errors: number;
  readonly durationMs: number;
  /** Nothing was lost: no forced close, no error. */
  readonly clean: boolean;
}

export interface ServiceChange {
  readonly service: string;
  readonly state: 'run' | 'paused' | 'stopped';
  readonly revision: number;
  /** False: it was in this state already. */
  readonly changed: boolean;
}

// ---- TLS and explain -------------------------------------------------------------------------------------------

export interface TlsStatus {
  readonly certificates: readonly CertificateStatus[];
  readonly internalCa: {
    readonly enabled: boolean;
    readonly rootFingerprint: string | null;
    readonly rootNotAfter: number | null;
  };
  /** What clients get for each name, and what becomes of it. */
  readonly names: readonly TlsNameStatus[];
  /** TLS entrypoints by name. */
  readonly entrypoints: readonly string[];
  /** What is wrong with configured certificates right now. */
  readonly problems: readonly Problem[];
}

/** For the pure `explain`; holds private keys, so it stays inside the process. */
export interface ExplainFacts {
  readonly gate: GatePart;
  readonly revision: number;
  readonly routing: RoutingPart;
  readonly certificates: CertificatesPart;
  readonly challenges: ChallengesPart;
  readonly health: HealthPart;
  readonly overrides: readonly ServiceOverride[];
}
