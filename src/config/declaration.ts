// What a configuration file declares, all defaults and inheritance resolved: the result of loading.
// Invariant: plain frozen data; every path is absolute, every file that the snapshot carries is already read, and what the
// operator may change at run time (generation numbers, switched addresses, paused services) is not in here.
import type { LogLevel } from '../base/log.ts';
import type { Backend, Entrypoint, Host, Routers, Service, Settings } from '../model/snapshot.ts';
import type { DeclaredAcme } from './declared-acme.ts';
import type {
  DeclaredApps,
  DeclaredBackups,
  DeclaredDevice,
  DeclaredImages,
  DeclaredMount,
  DeclaredSecrets,
  DeclaredTelemetry,
  Runtime,
} from './declared-apps.ts';
import type { DeclaredGate } from './declared-gate.ts';
import type { ProblemPlace } from './problem.ts';
import type { ListenAddress } from './values.ts';

export interface Declaration {
  /** Absolute path of the file. */
  readonly file: string;
  readonly stateDir: string;
  readonly workers: number | 'auto';
  readonly settings: Settings;
  readonly entrypoints: readonly Entrypoint[];
  readonly hosts: readonly Host[];
  readonly services: readonly DeclaredService[];
  readonly routers: Routers;
  readonly tls: DeclaredTls;
  readonly log: DeclaredLog;
  /** Where Prometheus finds the metrics; null: nowhere. `host` '' is every address. */
  readonly metrics: ListenAddress | null;
  /** Container engine that runs apps; `auto` takes the one that answers, `none` leaves the processes to others. */
  readonly runtime: Runtime;
  readonly apps: DeclaredApps;
  readonly images: DeclaredImages;
  /** Host paths that manifests may name, by policy name. */
  readonly appMounts: ReadonlyMap<string, DeclaredMount>;
  /** Devices that manifests may name, by logical name. */
  readonly appDevices: ReadonlyMap<string, DeclaredDevice>;
  readonly secrets: DeclaredSecrets;
  readonly backups: DeclaredBackups;
  readonly telemetry: DeclaredTelemetry | null;
  readonly gate: DeclaredGate;
  /** Administration over TCP, beside the unix socket; null: none. */
  readonly control: DeclaredControl | null;
}

/** A service as the file has it: addresses, but no generation yet. */
export interface DeclaredService extends Omit<Service, 'generation' | 'state'> {
  readonly backends: readonly Backend[];
  /** "config.toml:30 external_routes."app.test".to" */
  readonly backendsOrigin: string;
}

export interface DeclaredTls {
  readonly certificates: readonly DeclaredCertificate[];
  /** Host whose certificate clients without a known name get; null: see `isDefault`, else none. */
  readonly defaultName: string | null;
  readonly internalCa: boolean;
  /** Null: no certificate is ordered from anybody. */
  readonly acme: DeclaredAcme | null;
}

/** PEM pair (`certFile`, `keyFile`) or PKCS#12 (`pkcs12File`). Absolute paths. */
export interface DeclaredCertificate {
  readonly certFile: string | null;
  readonly keyFile: string | null;
  readonly pkcs12File: string | null;
  readonly passphraseFile: string | null;
  readonly isDefault: boolean;
  /** "config.toml:12 tls.certificate[0]" */
  readonly origin: string;
  /** Where to point when the files turn out to be unusable. */
  readonly place: ProblemPlace;
}

export interface DeclaredLog {
  readonly level: LogLevel;
  readonly access: boolean;
  readonly format: 'auto' | 'json' | 'pretty';
}

export interface DeclaredControl {
  readonly address: ListenAddress;
  readonly tokenFile: string;
  /** Null only on a loopback address. */
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null;
}
