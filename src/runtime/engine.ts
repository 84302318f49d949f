// A container engine: which one it is, what it can do, and the ways to its containers, images, networks and volumes.
// Invariant: nothing is assumed of an engine that it did not say of itself.
import { existsSync } from 'node:fs';
import { Fault } from '../base/fault.ts';
import { Containers } from './containers.ts';
import { EngineClient, EngineError } from './engine-client.ts';
import { Images } from './images.ts';
import { Networks } from './networks.ts';
import type { Owner } from './ownership.ts';
import { Volumes } from './volumes.ts';

export type EngineKind = 'docker' | 'podman';

export interface EngineVersion {
  readonly kind: EngineKind;
  /** "20.10.24" */
  readonly version: string;
}

/** Spoken by Docker 20.10 and by Podman 4; newer engines answer it too. */
const apiVersion = 'v1.41';
/** Device requests by CDI name (Docker 28.3, Podman 5.4). */
const cdiApiVersion = 'v1.51';

const usualSockets: Readonly<Record<EngineKind, readonly string[]>> = {
  docker: ['/run/docker.sock', '/var/run/docker.sock'],
  podman: ['/run/podman/podman.sock'],
};

export interface EngineOptions {
  /** `auto`: the first socket that is there. */
  readonly kind: EngineKind | 'auto';
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly uid: number;
}

/** Sockets to try, in order. */
export function socketCandidates({ kind, env, uid }: EngineOptions): readonly string[] {
  const named = (value: string | undefined): readonly string[] =>
    value?.startsWith('unix://') ? [value.slice('unix://'.length)] : [];
  const own = env['XDG_RUNTIME_DIR'] ?? `/run/user/${uid}`;
  const docker = [...named(env['DOCKER_HOST']), ...usualSockets.docker, `${own}/docker.sock`];
  const podman = [...named(env['CONTAINER_HOST']), ...usualSockets.podman, `${own}/podman/podman.sock`];
  if (kind === 'docker') return docker;
  return kind === 'podman' ? podman : [...docker, ...podman];
}

export class Engine {
  readonly version: EngineVersion;
  readonly containers: Containers;
  readonly images: Images;
  readonly networks: Networks;
  readonly volumes: Volumes;
  readonly #client: EngineClient;
  readonly #cdiClient: EngineClient;

  /** Throws a Fault `runtime-unavailable` that says what was tried. */
  static async open(options: EngineOptions, owner: Owner): Promise<Engine> {
    const candidates = socketCandidates(options).filter((path) => existsSync(path));
    const tried: string[] = [];
    for (const path of candidates) {
      const client = new EngineClient(path, apiVersion);
      try {
        return new Engine(client, await versionOf(client), owner);
      } catch (error) {
        client.close();
        if (!(error instanceof EngineError)) throw error;
        tried.push(error.message);
      }
    }
    const why = tried.length > 0 ? tried.join('; ') : `none of ${socketCandidates(options).join(', ')} is there`;
    throw new Fault('runtime-unavailable', `no container engine: ${why}`);
  }

  private constructor(client: EngineClient, version: EngineVersion, owner: Owner) {
    this.version = version;
    this.#client = client;
    this.#cdiClient = new EngineClient(client.socketPath, cdiApiVersion);
    this.containers = new Containers(client, owner, this.#cdiClient);
    this.images = new Images(client);
    this.networks = new Networks(client, owner);
    this.volumes = new Volumes(client, owner);
  }

  /** Rejects with an EngineError while the engine is away. */
  async ping(): Promise<void> {
    await versionOf(this.#client);
  }

  close(): void {
    this.#client.close();
    this.#cdiClient.close();
  }
}

interface VersionAnswer {
  readonly Version: string;
  readonly Components?: readonly { readonly Name: string; readonly Version: string }[];
}

async function versionOf(client: EngineClient): Promise<EngineVersion> {
  const answer = await client.json<VersionAnswer>({ method: 'GET', path: '/version', timeoutMs: 15_000 });
  const podman = answer.Components?.find(({ Name }) => Name === 'Podman Engine');
  return podman === undefined
    ? { kind: 'docker', version: answer.Version }
    : { kind: 'podman', version: podman.Version };
}

/** Device requests came with Docker 28.3 and Podman 5.4. An engine that does not say its version cannot be trusted with one. */
export function requireDevices({ kind, version }: EngineVersion): void {
  const [major = 0, minor = 0] = version.split('.').map((part) => Number.parseInt(part, 10) || 0);
  const [least, name] = kind === 'docker' ? [[28, 3] as const, 'Docker'] : [[5, 4] as const, 'Podman'];
  if (major > least[0] || (major === least[0] && minor >= least[1])) return;
  throw new Fault(
    'runtime-unsupported',
    `devices need ${name} ${least.join('.')} or newer with CDI; this one is ${version === '' ? 'of an unknown version' : version}`,
  );
}
