// What a running Turnpike can be asked to do: the interface between the process and everything that controls it.
// Invariant: every answer is plain JSON; what cannot be done is thrown as a Fault, except a refused configuration, whose
// problems are the answer.
import type { Problem } from '../config/load.ts';
import type { Snapshot } from '../model/snapshot.ts';
import type { SwitchPhase } from '../model/switchover.ts';

export interface Operations {
  /** Reads the configuration file again and publishes it; a failing one changes nothing. */
  reload(): Promise<ReloadAnswer>;
  /** What `reload` would do now. */
  diff(): Promise<DiffAnswer>;
  status(): Promise<Status>;
  /** Counters per entrypoint, service and backend, added up over the workers. */
  traffic(): Promise<TrafficAnswer>;
  /** The snapshot being served, for `routes list` and `explain`. Holds private keys: never send it anywhere whole. */
  snapshot(): Snapshot;
  /** Answers at the acknowledgement, not at the drain. Faults: unknown-service, probe-failed, publish-*. */
  switchService(name: string, request: SwitchRequest): Promise<SwitchReport>;
  /** The report of a switch as of now; with `waitMs`, as soon as it has drained or the time is over. */
  switchReport(id: string, waitMs: number): Promise<SwitchReport>;
  pause(name: string): Promise<ServiceStatus>;
  /** Ends `pause` and `stop`. */
  resume(name: string): Promise<ServiceStatus>;
  stop(name: string): Promise<ServiceStatus>;
  start(name: string): Promise<ServiceStatus>;
  tlsStatus(): TlsStatus;
  /** The internal CA's root as PEM; null when the CA is off. */
  caPem(): string | null;
  /** The Prometheus text exposition of all processes together. */
  metricsText(): Promise<string>;
  /** Replaces the workers one by one on the held listeners, without closing a connection before its drain limit. */
  replaceWorkers(): Promise<ReplaceAnswer>;
}

export interface ReloadAnswer {
  readonly ok: boolean;
  /** False when the file says what is served already. */
  readonly changed: boolean;
  readonly revision: number;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
  /** Changes that wait for a restart, as sentences. */
  readonly notes: readonly string[];
  /** Why a valid configuration was not published (a port in use, a worker's refusal); null when it was. */
  readonly fault: FaultAnswer | null;
}

export interface FaultAnswer {
  readonly code: string;
  readonly detail: string;
}

export interface DiffAnswer {
  readonly ok: boolean;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
  readonly notes: readonly string[];
  readonly changes: readonly Change[];
}

/** One difference between the served configuration and the file. */
export interface Change {
  readonly kind: 'add' | 'remove' | 'change';
  readonly subject: 'entrypoint' | 'host' | 'route' | 'service' | 'setting' | 'certificate';
  readonly name: string;
  /** What it means for traffic, as a sentence: "listener opens", "3 connections close", "owner changes from … to …". */
  readonly effect: string;
  readonly before: string | null;
  readonly after: string | null;
}

export interface Status {
  readonly pid: number;
  readonly version: string;
  readonly startedAt: number;
  readonly configPath: string;
  readonly stateDir: string;
  readonly revision: number;
  readonly workers: readonly WorkerStatus[];
  readonly entrypoints: readonly EntrypointStatus[];
  readonly services: readonly ServiceStatus[];
  /** Running and recent switches, newest first. */
  readonly switches: readonly SwitchReport[];
  /** The last reload that was tried. */
  readonly lastReload: { readonly at: number; readonly answer: ReloadAnswer } | null;
  readonly warnings: readonly Problem[];
}

export interface WorkerStatus {
  readonly slot: number;
  readonly pid: number;
  readonly state: 'starting' | 'serving' | 'draining';
  readonly revision: number;
  readonly startedAt: number;
  readonly restarts: number;
  readonly rssBytes: number;
  readonly connections: number;
}

export interface EntrypointStatus {
  readonly name: string;
  readonly address: string;
  readonly protocol: string;
  readonly origin: string;
  readonly connections: number;
}

export interface ServiceStatus {
  readonly name: string;
  readonly origin: string;
  readonly state: 'run' | 'paused' | 'stopped';
  readonly generation: GenerationStatus;
  /** What the configuration file says; differs from the generation's addresses after `service switch`. */
  readonly declared: readonly string[];
  /** The addresses come from `service switch`, not from the file. */
  readonly overridden: boolean;
  /** Addresses that are not chosen now. */
  readonly down: readonly string[];
  /** Older generations that still have work. */
  readonly draining: readonly GenerationStatus[];
  readonly waiting: number;
}

export interface GenerationStatus {
  readonly number: number;
  readonly addresses: readonly string[];
  readonly origin: string;
  /** Requests, streams and tunnels at work. */
  readonly active: number;
  /** Ever taken, by the workers that run now. */
  readonly claimed: number;
}

export interface TrafficAnswer {
  readonly entrypoints: readonly CounterRow[];
  readonly routes: readonly CounterRow[];
  readonly services: readonly CounterRow[];
  readonly backends: readonly CounterRow[];
}

/** Counters of one series owner; keys are metric names without the prefix, values added up over the workers. */
export interface CounterRow {
  readonly name: string;
  readonly counters: Readonly<Record<string, number>>;
}

export interface SwitchRequest {
  /** `host:port` each; null: back to what the configuration file says. */
  readonly to: readonly string[] | null;
  /** Overrides the service's drain limits for this switch; null: as configured. */
  readonly drainMs: number | null;
  readonly probe: boolean;
}

export interface SwitchReport {
  readonly id: string;
  readonly service: string;
  readonly phase: SwitchPhase;
  readonly startedAt: number;
  readonly from: { readonly generation: number; readonly addresses: readonly string[] };
  readonly to: { readonly generation: number | null; readonly addresses: readonly string[] };
  /** From the first message to the last worker's acknowledgement; null before. */
  readonly flipMs: number | null;
  readonly requestsOld: number;
  readonly requestsNew: number;
  readonly inFlightAtFlip: number;
  /** How long the last claim of the old generation lived after the flip; null while draining. */
  readonly longestDrainedMs: number | null;
  readonly forcedCloses: number;
  readonly retries: number;
  readonly errors: number;
  readonly fault: FaultAnswer | null;
}

export interface TlsStatus {
  readonly certificates: readonly CertificateStatus[];
  readonly defaultId: string | null;
  readonly internalCa: boolean;
}

export interface CertificateStatus {
  readonly id: string;
  readonly source: string;
  readonly origin: string;
  readonly names: readonly string[];
  readonly notBefore: number;
  readonly notAfter: number;
}

export interface ReplaceAnswer {
  readonly replaced: number;
}
