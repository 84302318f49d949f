// What the operator's configuration has to say to a manifest: entrypoints to attach to, grants, images, the data root.
// Invariant: a manifest gets nothing that is not in here.
import type { Declaration } from '../config/declaration.ts';
import type { Entrypoint } from '../model/snapshot.ts';
import type { ImagePolicy } from './image.ts';

export interface OperatorFacts {
  readonly entrypoints: readonly EntrypointFacts[];
  /** `[app_mounts.NAME]` */
  readonly mounts: ReadonlyMap<string, Granted>;
  /** `[app_devices.NAME]` */
  readonly devices: ReadonlyMap<string, Granted>;
  readonly images: ImagePolicy;
  /** Absolute: sources of bind mounts of YAML apps lie below. */
  readonly dataRoot: string;
}

export type EntrypointFacts = Pick<Entrypoint, 'name' | 'protocol' | 'host' | 'port' | 'rawFallback'>;

/** Who may use it: exact names. */
export interface Granted {
  readonly allowedApps: readonly string[];
  readonly allowedServices: readonly string[];
}

export function factsOf(declaration: Declaration): OperatorFacts {
  return {
    entrypoints: declaration.entrypoints,
    mounts: declaration.appMounts,
    devices: declaration.appDevices,
    images: declaration.images,
    dataRoot: declaration.apps.dataRoot,
  };
}

/** True when the policy lets this service of this app use what it grants. */
export function isGranted(granted: Granted, app: string, service: string): boolean {
  return granted.allowedApps.includes(app) && granted.allowedServices.includes(service);
}
