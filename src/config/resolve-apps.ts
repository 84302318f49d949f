// What operators declare for apps → the same with every path absolute and every default in place.
// Invariant: pure; an allow-list comes out as it was written.
import { join } from 'node:path';
import type { Declaration } from './declaration.ts';
import type { DeclaredApps, Grant } from './declared-apps.ts';
import type { Config } from './schema.ts';
import { fileAt, optionalFileAt, originOf, type Surroundings } from './surroundings.ts';
import type { Path } from './syntax.ts';

type AppPolicies = Pick<
  Declaration,
  'apps' | 'images' | 'appMounts' | 'appDevices' | 'secrets' | 'backups' | 'telemetry'
>;

export function resolveAppPolicies(config: Config, surroundings: Surroundings): AppPolicies {
  const { images, backups, telemetry } = config;
  return {
    apps: resolveApps(config, surroundings),
    images: {
      registry: images.registry,
      allowedRegistries: images.allowed_registries,
      requireDigest: images.require_digest,
    },
    appMounts: new Map(
      [...config.app_mounts].map(([name, each]) => [
        name,
        {
          source: fileAt(surroundings, each.source),
          readOnly: each.read_only,
          ...resolveGrant(each, ['app_mounts', name], surroundings),
        },
      ]),
    ),
    appDevices: new Map(
      [...config.app_devices].map(([name, each]) => [
        name,
        { cdi: each.cdi, ...resolveGrant(each, ['app_devices', name], surroundings) },
      ]),
    ),
    secrets: config.secrets,
    backups: {
      directory: optionalFileAt(surroundings, backups.directory) ?? inState(config, surroundings, 'backups'),
      keep: backups.keep,
    },
    telemetry:
      telemetry === null
        ? null
        : {
            endpoint: telemetry.endpoint,
            headersFile: optionalFileAt(surroundings, telemetry.headers_file),
            logs: telemetry.logs,
            traces: telemetry.traces,
            metrics: telemetry.metrics,
          },
  };
}

function resolveApps(config: Config, surroundings: Surroundings): DeclaredApps {
  const { apps } = config;
  return {
    directory: optionalFileAt(surroundings, apps.directory),
    watch: apps.watch,
    deploy: apps.deploy,
    dataRoot: optionalFileAt(surroundings, apps.data_root) ?? inState(config, surroundings, 'data'),
    autoRollback: apps.auto_rollback,
    history: apps.history,
    processes: new Map(
      [...apps.others].map(([app, services]) => [
        app,
        new Map(
          [...services].map(([service, { start, stop, address }]) => [
            service,
            { start: start ?? [], stop: stop ?? [], address, origin: originOf(surroundings, ['apps', app, service]) },
          ]),
        ),
      ]),
    ),
  };
}

function resolveGrant(
  written: { readonly allowed_apps: readonly string[]; readonly allowed_services: readonly string[] },
  path: Path,
  surroundings: Surroundings,
): Grant {
  return {
    allowedApps: written.allowed_apps,
    allowedServices: written.allowed_services,
    origin: originOf(surroundings, path),
  };
}

function inState(config: Config, surroundings: Surroundings, name: string): string {
  return join(fileAt(surroundings, config.state_dir), name);
}
