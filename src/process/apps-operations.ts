// What the running process can be asked of its apps: the apps' part of the interface between process/ and control/.
// Invariant: plain data that may leave the process. Values of public environment are in `show` only, secrets nowhere.
import type { Applied } from '../apps/apps.ts';
import type { RestartTrouble } from '../apps/reconciler.ts';
import type { DeployProgress, DeployReport } from '../apps/reports.ts';
import type { Deploy, DeployKind } from '../apps/state.ts';
import type { Problem } from '../config/problem.ts';
import type { App } from '../manifest/app.ts';
import type { AppSecretOperations } from './app-secrets.ts';

export type { Applied } from '../apps/apps.ts';
export type { DeployProgress, DeployReport, ServiceReport } from '../apps/reports.ts';

/** Verbs fail with a Fault of side `operator`. Times are epoch ms. */
export interface AppOperations {
  apply(request: ApplyRequest): Promise<ApplyResult>;
  deploy(request: DeployOrder, progress: OnDeployProgress): Promise<DeployReport>;
  rollback(request: RollbackOrder, progress: OnDeployProgress): Promise<DeployReport>;
  restart(request: RestartOrder, progress: OnDeployProgress): Promise<DeployReport>;
  remove(app: string, progress: OnDeployProgress): Promise<DeployReport>;
  list(): Promise<readonly AppRow[]>;
  show(app: string, revision: number | null): Promise<AppShown>;
  /** From one revision to another; null: from what is active, to what is wanted. */
  diff(app: string, from: number | null, to: number | null): Promise<AppDiff>;
  status(app: string): Promise<AppStatus>;
  upstream(): Promise<readonly UpstreamRow[]>;
  leftovers(): Promise<readonly LeftoverRow[]>;
  prune(app: string): Promise<readonly LeftoverRow[]>;
  readonly secrets: AppSecretOperations;
  /** What a service writes, as it comes. */
  logs(order: LogOrder, signal: AbortSignal): AsyncIterable<Buffer>;
}

export interface LogOrder {
  readonly app: string;
  /** Null: the only one. */
  readonly service: string | null;
  /** Until it ends, or the signal comes. */
  readonly follow: boolean;
}

export type OnDeployProgress = (progress: DeployProgress) => void;

export interface ApplyRequest {
  /** Absolute. */
  readonly path: string;
  /** As the operator named it. */
  readonly shown: string;
  readonly dryRun: boolean;
}

export interface ApplyResult {
  /** Null: the manifest has problems, and nothing was stored. */
  readonly applied: Applied | null;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

export interface DeployOrder {
  readonly app: string;
  readonly revision: number | null;
  readonly service: string | null;
  /** "web=127.0.0.1:3001", with several ports "web:8080=127.0.0.1:3001". */
  readonly backends: readonly string[];
  readonly wait: boolean;
}

export interface RollbackOrder {
  readonly app: string;
  readonly revision: number | null;
  readonly wait: boolean;
}

export interface RestartOrder {
  readonly app: string;
  readonly service: string | null;
  readonly wait: boolean;
}

export interface AppRow {
  readonly name: string;
  readonly kind: App['kind'];
  readonly external: boolean;
  readonly desired: number;
  /** Null: never deployed. */
  readonly active: number | null;
  readonly state: AppState;
  readonly services: number;
  readonly hosts: readonly string[];
  readonly file: string;
}

/**
 * `pending`: something applied is not deployed; `partial`: a deploy stopped half way; `down`: a service has nothing that
 * serves.
 */
export type AppState = 'new' | 'active' | 'pending' | 'partial' | 'down' | 'deploying';

export interface AppShown {
  readonly name: string;
  readonly incarnation: string;
  readonly revision: number;
  readonly at: number;
  readonly why: string;
  readonly file: string;
  readonly app: App;
  /** Services that never run twice at a time. */
  readonly restart_unsafe: readonly string[];
  /** The newest first. */
  readonly revisions: readonly RevisionRow[];
}

export interface RevisionRow {
  readonly number: number;
  readonly at: number;
  readonly why: string;
  readonly file: string;
  readonly isDesired: boolean;
  readonly isActive: boolean;
}

export interface AppDiff {
  readonly app: string;
  readonly from: number | null;
  readonly to: number;
  readonly entries: readonly string[];
}

export interface AppStatus extends AppRow {
  /** Names of what a deploy would change. */
  readonly pending: readonly string[];
  readonly serviceStates: readonly AppServiceStatus[];
  /** Old generations that are not gone yet. */
  readonly retiring: readonly RetiringRow[];
  readonly underWay: readonly DeployKind[];
  /** The newest first. */
  readonly deploys: readonly DeployRow[];
  /** The watched manifest is gone, or has problems; null: neither. */
  readonly manifestTrouble: string | null;
}

export interface AppServiceStatus {
  readonly name: string;
  readonly state: 'serving' | 'withdrawn' | 'down' | 'not-deployed';
  readonly revision: number | null;
  readonly addresses: readonly string[];
  readonly startedAt: number | null;
  /** Started and stopped by Turnpike. */
  readonly managed: boolean;
  /** It ended and was, or will be, started again; null: it runs by itself. */
  readonly restarts: RestartTrouble | null;
  readonly restart_unsafe: boolean;
}

export interface RetiringRow {
  readonly service: string;
  readonly revision: number;
  readonly addresses: readonly string[];
  readonly phase: 'draining' | 'stopping';
  readonly since: number;
}

export interface DeployRow {
  readonly kind: DeployKind;
  readonly revision: number;
  readonly begunAt: number;
  readonly endedAt: number | null;
  readonly outcome: Deploy['outcome'];
  /** "web: probing" while it runs. */
  readonly step: string | null;
  readonly fault: Deploy['fault'];
}

export interface UpstreamRow {
  readonly app: string;
  readonly version: string | null;
  /** "docker.io/library/postgres:17", one for each service. */
  readonly images: readonly string[];
  /** Null: UNTRACKED. */
  readonly upstream: App['display']['upstream'];
}

export interface LeftoverRow {
  readonly app: string;
  readonly incarnation: string;
  readonly removedAt: number;
  readonly leftovers: readonly string[];
}
