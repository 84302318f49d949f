// What a container is to be, and the engine's words for it.
// Invariant: pure; nothing is published beyond what the spec names, nothing is privileged, and the engine never restarts a
// container by itself: an ephemeral port would change behind our back.
import type { Labels } from './ownership.ts';

export interface ContainerSpec {
  /** Reference or id that is on the engine already. */
  readonly image: string;
  readonly labels: Labels;
  readonly entrypoint: readonly string[] | null;
  readonly command: readonly string[] | null;
  /** Secrets that are delivered this way included. */
  readonly env: readonly { readonly name: string; readonly value: string }[];
  /** Between SIGTERM and SIGKILL, should somebody else stop it. */
  readonly stopGraceMs: number;
  readonly publications: readonly {
    readonly container: number;
    readonly protocol: 'tcp' | 'udp';
    /** '' is every address. */
    readonly address: string;
    /** Null: any free port. */
    readonly hostPort: number | null;
  }[];
  /** The network it is born into: a private network's name, or an operator's word such as `host`. */
  readonly network: string;
  readonly aliases: readonly string[];
  readonly mounts: readonly Mount[];
  readonly tmpfs: readonly { readonly target: string; readonly options: readonly string[] }[];
  /** Fully qualified CDI names. */
  readonly cdiDevices: readonly string[];
  /** Paths under /dev. */
  readonly hostDevices: readonly string[];
  readonly security: ContainerSecurity;
  /** Processors and bytes; null: no limit. */
  readonly cpus: number | null;
  readonly memory: number | null;
}

export type Mount =
  | { readonly kind: 'volume'; readonly name: string; readonly target: string; readonly readonly: boolean }
  | {
      readonly kind: 'bind';
      /** Absolute. */
      readonly source: string;
      readonly target: string;
      readonly readonly: boolean;
      /** `z`, `Z`, `shared` … as the manifest has them. */
      readonly options: readonly string[];
    };

export interface ContainerSecurity {
  readonly readonlyRoot: boolean;
  readonly noNewPrivileges: boolean;
  /** Null: the engine's own set; else everything is dropped and these are added back. */
  readonly capabilities: readonly string[] | null;
  readonly apparmorProfile: string | null;
}

/** The security of a TOML service: the engine's defaults, without new privileges. */
export const plainSecurity: ContainerSecurity = {
  readonlyRoot: false,
  noNewPrivileges: true,
  capabilities: null,
  apparmorProfile: null,
};

/** The body of `POST /containers/create`. */
export function createBody(spec: ContainerSpec): object {
  const ports = portsOf(spec);
  const { security } = spec;
  return {
    Image: spec.image,
    Labels: spec.labels,
    ...(spec.entrypoint === null ? {} : { Entrypoint: spec.entrypoint }),
    ...(spec.command === null ? {} : { Cmd: spec.command }),
    Env: spec.env.map(({ name, value }) => `${name}=${value}`),
    StopSignal: 'SIGTERM',
    StopTimeout: Math.max(1, Math.ceil(spec.stopGraceMs / 1000)),
    ExposedPorts: Object.fromEntries(ports.map(([key]) => [key, {}])),
    HostConfig: {
      NetworkMode: spec.network,
      PortBindings: Object.fromEntries(ports),
      RestartPolicy: { Name: 'no' },
      Binds: spec.mounts.map(bindText),
      Tmpfs: Object.fromEntries(spec.tmpfs.map(({ target, options }) => [target, options.join(',')])),
      ReadonlyRootfs: security.readonlyRoot,
      SecurityOpt: [
        ...(security.noNewPrivileges ? ['no-new-privileges'] : []),
        ...(security.apparmorProfile === null ? [] : [`apparmor=${security.apparmorProfile}`]),
      ],
      ...(security.capabilities === null ? {} : { CapDrop: ['ALL'], CapAdd: security.capabilities }),
      ...(spec.cpus === null ? {} : { NanoCpus: Math.round(spec.cpus * 1e9) }),
      ...(spec.memory === null ? {} : { Memory: spec.memory }),
      ...(spec.cdiDevices.length === 0
        ? {}
        : { DeviceRequests: [{ Driver: 'cdi', Count: 0, DeviceIDs: spec.cdiDevices, Capabilities: [], Options: {} }] }),
      Devices: spec.hostDevices.map((path) => ({
        PathOnHost: path,
        PathInContainer: path,
        CgroupPermissions: 'rwm',
      })),
      LogConfig: { Type: '', Config: {} },
    },
    ...(hasEndpoint(spec.network)
      ? { NetworkingConfig: { EndpointsConfig: { [spec.network]: { Aliases: spec.aliases } } } }
      : {}),
  };
}

/** Words of the engine's own are no networks that could know aliases. */
const hasEndpoint = (network: string): boolean => !['host', 'none', 'bridge', 'default'].includes(network);

type PortBinding = readonly [string, readonly { readonly HostIp: string; readonly HostPort: string }[]];

function portsOf({ publications }: ContainerSpec): readonly PortBinding[] {
  const byPort = new Map<string, { HostIp: string; HostPort: string }[]>();
  for (const { container, protocol, address, hostPort } of publications) {
    const key = `${container}/${protocol}`;
    const bindings = byPort.get(key) ?? [];
    bindings.push({ HostIp: address, HostPort: hostPort === null ? '' : String(hostPort) });
    byPort.set(key, bindings);
  }
  return [...byPort];
}

/** `source:target[:options]`: the form that both engines take, volumes and binds alike. */
function bindText(mount: Mount): string {
  const source = mount.kind === 'volume' ? mount.name : mount.source;
  const access = mount.readonly ? 'ro' : 'rw';
  const more = mount.kind === 'bind' ? mount.options.filter((option) => option !== 'ro' && option !== 'rw') : [];
  return [source, mount.target, [access, ...more].join(',')].join(':');
}
