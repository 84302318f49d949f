// A YAML manifest as read and checked → the App model. Pure.
// Invariant: every list whose order means nothing is sorted, every default is filled in.
import {
  type App,
  type AppPort,
  type AppService,
  type ContainerShape,
  defaultStopGraceMs,
  type HookStep,
  type Json,
  type Publication,
  type Source,
  yamlService,
} from './app.ts';
import { sorted, sortedBy } from './order.ts';
import { healthReadiness } from './yaml-health.ts';
import type { YamlApp, YamlContainer, YamlVolume } from './yaml-keys.ts';

export function appOfYaml(written: YamlApp, extensions: { readonly [key: string]: Json }): App {
  const { container } = written;
  const ports = portsOf(written);
  const launch = [...written.interfaces].map(([key, surface]) => ({ key, ...surface }));
  return {
    name: written.id,
    kind: 'yaml',
    display: {
      title: written.name,
      version: written.version,
      description: written.description,
      upstream: written.upstream,
      launch: sortedBy(launch, (each) => each.key),
      extensions,
    },
    env: [],
    services: container === null ? [] : [serviceOf(written, container, ports)],
    sharedNetworks: [],
    telemetryLogs: true,
    ports,
    external: container === null,
    dependencies: written.dependencies.filter((each) => each !== null),
  };
}

function serviceOf(app: YamlApp, container: YamlContainer, ports: readonly AppPort[]): AppService {
  const secrets = container.secret_env.map(
    ({ value }) => ({ env: value.key, secret: value.secret_file, delivery: 'env' }) as const,
  );
  const volumes = ofType(app, 'volume').map(({ source, target, options }) => ({
    name: source ?? '',
    path: target,
    readonly: options.includes('ro'),
  }));
  return {
    name: yamlService,
    source: sourceOf(container),
    entrypoint: container.entrypoint,
    command: container.custom_args.length === 0 ? null : container.custom_args,
    stopGraceMs: defaultStopGraceMs,
    env: sortedBy(app.environment, (each) => each.name),
    secrets: sortedBy(secrets, (each) => each.env),
    devices: [],
    volumes: sortedBy(volumes, (each) => each.path),
    binds: [],
    databases: [],
    backup: { postgres: [], volume: [] },
    readiness: healthReadiness(app),
    http: [],
    tcp: [],
    udp: [],
    publications: sharesHost(app, container) ? [] : publicationsOf(ports),
    telemetryLogs: null,
    shape: shapeOf(app, container),
  };
}

function sourceOf(container: YamlContainer): Source {
  const { image, build, pull_policy: pull } = container;
  if (image !== null) return { kind: 'image', image, pull };
  const args = [...(build?.build_args ?? [])].map(([name, value]) => ({ name, value }));
  return {
    kind: 'build',
    context: build?.context ?? '',
    dockerfile: build?.dockerfile ?? 'Dockerfile',
    tag: build?.tag ?? null,
    args: sortedBy(args, (each) => each.name),
  };
}

function shapeOf(app: YamlApp, container: YamlContainer): ContainerShape {
  const derived = container.derived_env.map(({ value }) => ({ name: value.key, template: value.template }));
  const certs = container.generated_certs.map(({ value }) => ({
    crt: value.crt,
    key: value.key,
    commonName: value.common_name,
    sans: sorted(value.sans),
  }));
  const binds = ofType(app, 'bind').map(({ source, target, options }) => ({
    source: source ?? '',
    target,
    options: sorted(options),
    readonly: options.includes('ro'),
  }));
  const tmpfs = ofType(app, 'tmpfs').map(({ target, tmpfs_options: options }) => ({
    target,
    options: sorted(options ?? []),
  }));
  const { security, resources, health_check: health } = app;
  return {
    network: container.network,
    networkAliases: sorted(container.network_aliases),
    derivedEnv: sortedBy(derived, (each) => each.name),
    generatedSecrets: sortedBy(
      container.generated_secrets.map(({ value }) => value),
      (each) => each.name,
    ),
    generatedCerts: sortedBy(certs, (each) => each.crt),
    dataUid: container.data_uid,
    hostBinds: sortedBy(binds, (each) => each.target),
    tmpfs: sortedBy(tmpfs, (each) => each.target),
    hostDevices: sorted(app.devices),
    security: {
      readonlyRoot: security.readonly_root,
      noNewPrivileges: security.no_new_privileges,
      capabilities: sorted(security.capabilities),
      networkPolicy: security.network_policy,
      apparmorProfile: security.apparmor_profile,
    },
    resources: { cpus: resources.cpu_limit, memory: resources.memory_limit, disk: resources.disk_limit },
    files: sortedBy(
      app.files.map(({ value }) => value),
      (each) => each.path,
    ),
    hooks: { postInstall: stepsOf(app.hooks.post_install), preStart: stepsOf(app.hooks.pre_start) },
    healthCheck:
      health === null
        ? null
        : {
            type: health.type,
            endpoint: health.endpoint,
            path: health.path,
            intervalMs: health.interval,
            timeoutMs: health.timeout,
            retries: health.retries,
          },
  };
}

function stepsOf(written: YamlApp['hooks']['post_install']): readonly HookStep[] {
  return written.map(({ value: { exec, copy_from_host: copy } }) =>
    copy === null ? { kind: 'exec', command: exec ?? [] } : { kind: 'copy', from: copy.src, to: copy.dest },
  );
}

function ofType(app: YamlApp, type: YamlVolume['type']): readonly YamlVolume[] {
  return app.volumes.map(({ value }) => value).filter((each) => each.type === type);
}

// ---- ports -----------------------------------------------------------------------------------------------------

/** One port for each host port and protocol, with all its addresses. */
function portsOf(app: YamlApp): readonly AppPort[] {
  const ports = new Map<string, AppPort>();
  for (const { value } of app.ports) {
    const socket = `${value.host}/${value.protocol}`;
    const binds = sorted([...(ports.get(socket)?.binds ?? []), value.bind]);
    ports.set(socket, {
      host: value.host,
      container: value.container,
      protocol: value.protocol,
      binds,
      auth: value.auth,
      rationale: value.auth_rationale,
      sessionPassthrough: value.session_passthrough,
    });
  }
  return sortedBy(
    [...ports.values()],
    (each) => each.host,
    (each) => each.protocol,
  );
}

/**
 * Where the container itself is published. `session` lets us take the host port, so the app gets any free one; `gated`,
 * `open` and `local` are pinned to the loopback address; without the gate a port is published as it was declared.
 */
function publicationsOf(ports: readonly AppPort[]): readonly Publication[] {
  const publications = ports.flatMap(({ host, container, protocol, binds, auth }): Publication[] => {
    if (auth === 'session') return [{ container, protocol, address: '127.0.0.1', hostPort: null }];
    if (auth === 'gated' || auth === 'open' || auth === 'local') {
      return [{ container, protocol, address: '127.0.0.1', hostPort: host }];
    }
    return binds.map((address) => ({ container, protocol, address, hostPort: host }));
  });
  const distinct = new Map(
    publications.map((each) => [`${each.container}/${each.protocol} ${each.address}:${each.hostPort}`, each]),
  );
  return sortedBy(
    [...distinct.values()],
    (each) => each.container,
    (each) => each.protocol,
    (each) => each.hostPort ?? 0,
    (each) => each.address,
  );
}

/** A container in the network of the machine publishes nothing: it listens there itself. */
function sharesHost(app: YamlApp, container: YamlContainer): boolean {
  return container.network === 'host' || (container.network === null && app.security.network_policy === 'host');
}
