// The App model: what a manifest of either kind says, with every default filled in.
// Invariant: plain JSON data in canonical order. Lists whose order means nothing are sorted, so that manifests that mean
// the same give equal digests; no secret value is ever in here, only names.
import type { TlsPolicy } from '../model/snapshot.ts';
import type { ImageReference } from './image.ts';

export interface App {
  /** DNS label. The `id` of a YAML manifest. */
  readonly name: string;
  readonly kind: 'toml' | 'yaml';
  readonly display: Display;
  /** Public environment of every service, by name. */
  readonly env: readonly Variable[];
  /** By name. A YAML app has one, `main`; an external app none. */
  readonly services: readonly AppService[];
  /** By network. */
  readonly sharedNetworks: readonly SharedNetwork[];
  /** Stdout and stderr of services that say nothing of their own are exported. */
  readonly telemetryLogs: boolean;
  /** Ports of a YAML app, by host port and protocol; TOML apps have interfaces instead. */
  readonly ports: readonly AppPort[];
  /** A YAML app without `container`: it runs outside, only its ports, gate and launch surfaces are ours. */
  readonly external: boolean;
  /** In the written order. */
  readonly dependencies: readonly Dependency[];
}

/** Shown, never acted on. */
export interface Display {
  /** A YAML manifest's `name`, else the app's. */
  readonly title: string;
  readonly version: string | null;
  readonly description: string | null;
  readonly upstream: Upstream | null;
  /** Launch surfaces, by key. */
  readonly launch: readonly LaunchSurface[];
  /** Unknown top-level keys of a YAML manifest. */
  readonly extensions: { readonly [key: string]: Json };
}

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export interface Upstream {
  readonly kind: 'github' | 'dockerhub' | 'internal' | 'manual';
  readonly repo: string | null;
  readonly url: string | null;
}

export interface LaunchSurface {
  readonly key: string;
  readonly name: string | null;
  readonly description: string | null;
  readonly type: string | null;
  /** Host port. */
  readonly port: number | null;
  readonly protocol: string | null;
  readonly path: string | null;
}

export interface Variable {
  readonly name: string;
  readonly value: string;
}

export interface AppService {
  readonly name: string;
  readonly source: Source;
  /** Null: the image's own. */
  readonly entrypoint: readonly string[] | null;
  readonly command: readonly string[] | null;
  /** Time between SIGTERM and SIGKILL. */
  readonly stopGraceMs: number;
  /** Of this service only, by name; wins over the app's. */
  readonly env: readonly Variable[];
  /** By environment name. */
  readonly secrets: readonly SecretReference[];
  /** Logical names that `[app_devices.NAME]` grants, sorted. */
  readonly devices: readonly string[];
  /** Named volumes, by container path. */
  readonly volumes: readonly VolumeMount[];
  /** Names that `[app_mounts.NAME]` grants, by container path. */
  readonly binds: readonly PolicyBind[];
  /** By name. */
  readonly databases: readonly Database[];
  readonly backup: BackupTargets;
  /** As declared; `effectiveReadiness` says what is probed. */
  readonly readiness: Readiness | null;
  /** Public ones by host, then internal ones by port. */
  readonly http: readonly HttpInterface[];
  /** By port. */
  readonly tcp: readonly PortInterface[];
  readonly udp: readonly PortInterface[];
  /** Where the container's ports are published on this machine, by container port and protocol. */
  readonly publications: readonly Publication[];
  /** Overrides the app's; null: says nothing. */
  readonly telemetryLogs: boolean | null;
  /** What only a YAML manifest can say of its container; null for TOML. */
  readonly shape: ContainerShape | null;
}

export type Source =
  | { readonly kind: 'image'; readonly image: ImageReference; readonly pull: 'if-not-present' | 'always' | 'never' }
  | {
      readonly kind: 'build';
      /** Absolute, under the data root. */
      readonly context: string;
      readonly dockerfile: string;
      readonly tag: string | null;
      /** By name. */
      readonly args: readonly Variable[];
    };

export interface SecretReference {
  /** Environment name; with delivery `file` the file is `/run/secrets/<env>` and `<env>_FILE` names it. */
  readonly env: string;
  readonly secret: string;
  readonly delivery: 'env' | 'file';
}

export interface VolumeMount {
  readonly name: string;
  readonly path: string;
  readonly readonly: boolean;
}

export interface PolicyBind {
  readonly name: string;
  readonly path: string;
  /** As declared: the policy's own `read_only` makes it so too. */
  readonly readonly: boolean;
}

export interface Database {
  readonly name: string;
  readonly type: 'postgres';
  readonly schedule: 'hourly' | 'daily' | 'weekly' | 'monthly';
}

/** Sorted names; what is not listed is never backed up. */
export interface BackupTargets {
  readonly postgres: readonly string[];
  readonly volume: readonly string[];
}

/** Ports are container ports. */
export type Readiness =
  | {
      readonly type: 'http';
      readonly path: string;
      /** Null: chosen by the interfaces. */
      readonly port: number | null;
      readonly timeoutMs: number;
      /** Successes in a row. */
      readonly consecutive: number;
    }
  | { readonly type: 'tcp'; readonly port: number | null; readonly timeoutMs: number; readonly consecutive: number }
  | { readonly type: 'log'; readonly contains: string; readonly timeoutMs: number }
  | { readonly type: 'none' };

export type HttpInterface = PublicHttp | InternalHttp;

export interface PublicHttp {
  readonly visibility: 'public';
  /** Canonical. */
  readonly host: string;
  readonly port: number;
  readonly tls: TlsPolicy;
}

/** No route, no reservation, no certificate, no publication. */
export interface InternalHttp {
  readonly visibility: 'internal';
  readonly port: number;
}

/** TCP or UDP on an entrypoint of the operator's. */
export interface PortInterface {
  readonly entrypoint: string;
  /** In the container. */
  readonly port: number;
  /** The listener as the manifest names it, canonical (`:25565` for every address); null: left out. */
  readonly publish: string | null;
}

export interface Publication {
  readonly container: number;
  readonly protocol: 'tcp' | 'udp';
  /** '' is every address. */
  readonly address: string;
  /** Null: any free port. */
  readonly hostPort: number | null;
}

export interface SharedNetwork {
  readonly network: string;
  /** Sorted. */
  readonly services: readonly string[];
}

export const authPolicies = ['session', 'none', 'local', 'gated', 'open'] as const;
export type AuthPolicy = (typeof authPolicies)[number];

/** One host port with all its addresses. */
export interface AppPort {
  readonly host: number;
  readonly container: number;
  readonly protocol: 'tcp' | 'udp';
  /** Addresses as declared, canonical and sorted; '' is every address. Never empty. */
  readonly binds: readonly string[];
  /** Null: no instruction. */
  readonly auth: AuthPolicy | null;
  /** Why `none` or `open` is safe. */
  readonly rationale: string | null;
  readonly sessionPassthrough: boolean;
}

export type Dependency =
  | { readonly kind: 'app'; readonly app: string; readonly version: string | null }
  | { readonly kind: 'storage'; readonly bytes: number };

/** The parts of a YAML `container:` (and what stands beside it) that a TOML service does not have. */
export interface ContainerShape {
  /** `--network`; null: a private network. */
  readonly network: string | null;
  /** Sorted. */
  readonly networkAliases: readonly string[];
  /** By name; `{{HOST_IP}}` and the like are filled in at deploy. */
  readonly derivedEnv: readonly DerivedVariable[];
  /** By name. */
  readonly generatedSecrets: readonly GeneratedSecret[];
  /** By path of the certificate. */
  readonly generatedCerts: readonly GeneratedCert[];
  /** `UID:GID` of the bind-mounted data. */
  readonly dataUid: string | null;
  /** Bind mounts of directories under the data root, by target. */
  readonly hostBinds: readonly HostBind[];
  /** By target. */
  readonly tmpfs: readonly TmpfsMount[];
  /** Paths under /dev, sorted. */
  readonly hostDevices: readonly string[];
  readonly security: Security;
  readonly resources: Resources;
  /** By path. */
  readonly files: readonly GeneratedFile[];
  readonly hooks: Hooks;
  /** As declared; `readiness` of the service is what we exercise of it. */
  readonly healthCheck: HealthCheck | null;
}

export interface DerivedVariable {
  readonly name: string;
  readonly template: string;
}

export interface GeneratedSecret {
  readonly name: string;
  readonly kind: string;
}

export interface GeneratedCert {
  readonly crt: string;
  readonly key: string;
  /** Templates, like those of derived variables. */
  readonly commonName: string | null;
  readonly sans: readonly string[];
}

export interface HostBind {
  /** Absolute, under the data root. */
  readonly source: string;
  readonly target: string;
  /** Sorted. */
  readonly options: readonly string[];
  readonly readonly: boolean;
}

export interface TmpfsMount {
  readonly target: string;
  /** Sorted. */
  readonly options: readonly string[];
}

export interface Security {
  readonly readonlyRoot: boolean;
  readonly noNewPrivileges: boolean;
  /** Added back after all were dropped; sorted. */
  readonly capabilities: readonly string[];
  readonly networkPolicy: 'isolated' | 'bridge' | 'host';
  readonly apparmorProfile: string | null;
}

export interface Resources {
  /** Processors; null: no limit. */
  readonly cpus: number | null;
  /** Bytes; null: no limit. */
  readonly memory: number | null;
  /** Bytes. Shown only. */
  readonly disk: number | null;
}

export interface GeneratedFile {
  /** Absolute path on this machine, under a declared bind. */
  readonly path: string;
  readonly content: string;
  readonly overwrite: boolean;
}

export type HookStep =
  | { readonly kind: 'copy'; readonly from: string; readonly to: string }
  | { readonly kind: 'exec'; readonly command: readonly string[] };

/** In the written order. */
export interface Hooks {
  readonly postInstall: readonly HookStep[];
  /** Kept and shown; nothing runs them. */
  readonly preStart: readonly HookStep[];
}

export interface HealthCheck {
  readonly type: string;
  readonly endpoint: string | null;
  readonly path: string | null;
  readonly intervalMs: number | null;
  readonly timeoutMs: number | null;
  readonly retries: number | null;
}

/** The one service of a YAML app. */
export const yamlService = 'main';

export const defaultStopGraceMs = 30_000;
export const defaultReadinessMs = 30_000;

/** What service names are called where dots and underscores may not be: equal ones would be the same container. */
export function runtimeIdentifier(service: string): string {
  return service.replaceAll(/[._]/g, '-');
}

/** The environment of a service without its secrets: its own over the app's, by name. */
export function environmentOf(app: App, service: AppService): readonly Variable[] {
  const merged = new Map([...app.env, ...service.env].map((variable) => [variable.name, variable]));
  return [...merged.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The service's own word, else the app's. */
export function exportsLogs(app: App, service: AppService): boolean {
  return service.telemetryLogs ?? app.telemetryLogs;
}

/** Names of the shared networks that the service joins, sorted. */
export function sharedNetworksOf(app: App, service: AppService): readonly string[] {
  return app.sharedNetworks.filter(({ services }) => services.includes(service.name)).map(({ network }) => network);
}
