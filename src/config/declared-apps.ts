// What the operator declares for apps: where manifests lie, what they may use, and how their processes are run.
// Invariant: plain frozen data, defaults filled in, paths absolute; whatever is not granted in here no manifest can have.
import type { Backend } from '../model/snapshot.ts';

export type Runtime = 'auto' | 'docker' | 'podman' | 'none';

export interface DeclaredApps {
  /** Where manifests lie; null: they are applied by command only. */
  readonly directory: string | null;
  /** Apply what changes in `directory`. */
  readonly watch: boolean;
  /** Whether a watched manifest is deployed as soon as it is applied. */
  readonly deploy: 'manual' | 'auto';
  /** Bind root of YAML apps. */
  readonly dataRoot: string;
  /** Go back by itself when a new generation fails in its first minute. */
  readonly autoRollback: boolean;
  /** Revisions that are kept of each app. */
  readonly history: number;
  /** App → service → how its process is run without an engine. */
  readonly processes: ReadonlyMap<string, ReadonlyMap<string, DeclaredProcess>>;
}

export interface DeclaredProcess {
  /** Program and arguments, never through a shell; empty: somebody else starts it. `{address}`, `{host}`, `{port}` are put in. */
  readonly start: readonly string[];
  /** Empty: SIGTERM to what `start` left running. */
  readonly stop: readonly string[];
  /** Where it listens; port 0 or null: what `start` runs gets a free port, a new one each time. Without `start`: `--backend`. */
  readonly address: Backend | null;
  readonly origin: string;
}

export interface DeclaredImages {
  /** The installation's own registry, `host` or `host:port`. */
  readonly registry: string | null;
  /** Beside `registry` and the well-known ones; exact `host` or `host:port`, lower case. */
  readonly allowedRegistries: readonly string[];
  readonly requireDigest: boolean;
}

/** Who may use a mount or a device: exact names, never empty. */
export interface Grant {
  readonly allowedApps: readonly string[];
  readonly allowedServices: readonly string[];
  readonly origin: string;
}

export interface DeclaredMount extends Grant {
  /** Absolute and normalised. */
  readonly source: string;
  readonly readOnly: boolean;
}

export interface DeclaredDevice extends Grant {
  /** Fully qualified names, "nvidia.com/gpu=0"; at least one. */
  readonly cdi: readonly string[];
}

export interface DeclaredSecrets {
  readonly backend: 'file' | 'pass';
}

export interface DeclaredBackups {
  readonly directory: string;
  /** How many are kept of each target; pruned only after a later success. */
  readonly keep: number;
}

/** OTLP over HTTP. */
export interface DeclaredTelemetry {
  readonly endpoint: string;
  /** One `Name: value` a line, sent with each export; null: none. */
  readonly headersFile: string | null;
  readonly logs: boolean;
  readonly traces: boolean;
  readonly metrics: boolean;
}
