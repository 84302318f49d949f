// Containers of ours: made, started, watched, stopped and removed.
// Invariant: a container is changed only after its labels were read and found to be ours; one that is gone is a success
// where it was to go, and never one where it was to be.
import type { Readable } from 'node:stream';
import { Fault } from '../base/fault.ts';
import { type ContainerSpec, createBody } from './container-spec.ts';
import { type EngineClient, EngineError } from './engine-client.ts';
import { LogFrames, type OutputChunk } from './log-frames.ts';
import {
  type InstanceMark,
  instanceMark,
  isOurs,
  type Labels,
  labelFilter,
  type Owner,
  ownerLabels,
} from './ownership.ts';

export interface OutputOrder {
  readonly follow: boolean;
  /** Epoch ms. */
  readonly sinceMs?: number;
  /** At most so many lines of what was before. */
  readonly tail?: number;
  /** Each frame begins with the time at which the engine took it. */
  readonly timestamps?: boolean;
  readonly signal?: AbortSignal;
}

export interface Container {
  readonly id: string;
  readonly name: string;
  readonly labels: Labels;
  readonly image: string;
  readonly running: boolean;
  /** Null while it runs. */
  readonly exitCode: number | null;
  readonly outOfMemory: boolean;
  /** Epoch ms of the last start; null: never. */
  readonly startedAt: number | null;
  readonly publications: readonly PublishedPort[];
  /** Address in each network. */
  readonly addresses: Readonly<Record<string, string>>;
}

export interface PublishedPort {
  readonly container: number;
  readonly protocol: 'tcp' | 'udp';
  readonly address: string;
  readonly hostPort: number;
}

export interface ListedContainer {
  readonly id: string;
  readonly mark: InstanceMark;
  readonly running: boolean;
}

interface InspectAnswer {
  readonly Id: string;
  readonly Name: string;
  readonly Image: string;
  readonly Config: { readonly Labels: Labels | null };
  readonly State: {
    readonly Running: boolean;
    readonly ExitCode: number;
    readonly OOMKilled: boolean;
    readonly StartedAt: string;
  };
  readonly NetworkSettings: {
    readonly Ports?: Readonly<Record<string, readonly { HostIp: string; HostPort: string }[] | null>> | null;
    readonly Networks?: Readonly<Record<string, { readonly IPAddress: string }>> | null;
  };
}

interface ListAnswer {
  readonly Id: string;
  readonly Labels: Labels | null;
  readonly State: string;
}

export class Containers {
  readonly #client: EngineClient;
  readonly #cdiClient: EngineClient;
  readonly #owner: Owner;

  constructor(client: EngineClient, owner: Owner, cdiClient: EngineClient) {
    this.#client = client;
    this.#owner = owner;
    this.#cdiClient = cdiClient;
  }

  /** Made and not started. A container of that name that is ours and is in the way is the caller's to remove first. */
  async create(name: string, spec: ContainerSpec): Promise<string> {
    // An older engine would ignore what it does not know, and run the service without its devices.
    const client = spec.cdiDevices.length > 0 ? this.#cdiClient : this.#client;
    const { Id } = await client.json<{ Id: string }>({
      method: 'POST',
      path: '/containers/create',
      query: { name },
      json: createBody(spec),
    });
    return Id;
  }

  async start(id: string): Promise<void> {
    await this.#ours(id);
    await this.#client.done({ method: 'POST', path: `/containers/${id}/start`, timeoutMs: 60_000 });
  }

  /** Resolves when it does not run any more, with its exit code; null: it is gone. */
  async waitForEnd(id: string): Promise<number | null> {
    try {
      // As a stream, so that the wait has a connection of its own and no time limit.
      const path = `/containers/${id}/wait`;
      const query = { condition: 'not-running' };
      const stream = await this.#client.stream({ method: 'POST', path, query, timeoutMs: 0 });
      let text = '';
      for await (const chunk of stream as AsyncIterable<Buffer>) text += chunk.toString('utf8');
      return (JSON.parse(text) as { StatusCode: number }).StatusCode;
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return null;
      throw error;
    }
  }

  /** SIGTERM, then SIGKILL when `graceMs` are over. Resolves when it does not run; a container that is gone does not run. */
  async stop(id: string, graceMs: number): Promise<void> {
    if ((await this.#oursOrGone(id)) === null) return;
    const t = Math.max(0, Math.ceil(graceMs / 1000));
    await this.#goneIsFine(
      this.#client.done({
        method: 'POST',
        path: `/containers/${id}/stop`,
        query: { t },
        timeoutMs: graceMs + 30_000,
      }),
    );
  }

  async kill(id: string, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if ((await this.#oursOrGone(id)) === null) return;
    try {
      await this.#client.done({ method: 'POST', path: `/containers/${id}/kill`, query: { signal } });
    } catch (error) {
      // It ended meanwhile; each engine has other words for that.
      if (!(error instanceof EngineError) || (await this.inspect(id))?.running === true) throw error;
    }
  }

  /** Ended by force if it runs. Its anonymous volumes go with it, named ones stay. */
  async remove(id: string): Promise<void> {
    if ((await this.#oursOrGone(id)) === null) return;
    await this.#goneIsFine(
      this.#client.done({
        method: 'DELETE',
        path: `/containers/${id}`,
        query: { force: true, v: true },
        timeoutMs: 60_000,
      }),
    );
  }

  /** By id or name; null: gone. Whether it is ours, say its labels. */
  async inspect(id: string): Promise<Container | null> {
    try {
      return containerOf(await this.#client.json<InspectAnswer>({ method: 'GET', path: `/containers/${id}/json` }));
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return null;
      throw error;
    }
  }

  /** Ours, running or not. */
  async list(): Promise<readonly ListedContainer[]> {
    const query = { all: true, filters: labelFilter(ownerLabels(this.#owner)) };
    const found = await this.#client.json<readonly ListAnswer[]>({ method: 'GET', path: '/containers/json', query });
    return found.flatMap(({ Id, Labels, State }) => {
      const mark = instanceMark(Labels, this.#owner);
      return mark === null ? [] : [{ id: Id, mark, running: State === 'running' }];
    });
  }

  /** Output of this container. */
  async *output(
    id: string,
    { follow, sinceMs, tail, timestamps = false, signal }: OutputOrder,
  ): AsyncIterableIterator<OutputChunk> {
    await this.#ours(id);
    const stream = await this.#client.stream({
      method: 'GET',
      path: `/containers/${id}/logs`,
      query: {
        stdout: true,
        stderr: true,
        follow,
        since: sinceMs === undefined ? undefined : (sinceMs / 1000).toFixed(3),
        tail: tail ?? 'all',
        timestamps,
      },
      ...(signal === undefined ? {} : { signal }),
    });
    yield* framed(stream);
  }

  /** Runs a command in a running container. Its output is collected, at most `outputLimit` bytes of it. */
  async exec(
    id: string,
    command: readonly string[],
    options: { env?: readonly string[]; timeoutMs: number; outputLimit?: number },
  ): Promise<{ readonly exitCode: number; readonly output: string }> {
    const chunks: Buffer[] = [];
    let left = options.outputLimit ?? 64 * 1024;
    const exitCode = await this.execTo(
      id,
      command,
      { ...options, signal: AbortSignal.timeout(options.timeoutMs) },
      ({ data }) => {
        if (left > 0) chunks.push(data.subarray(0, left));
        left -= data.length;
      },
    );
    return { exitCode, output: Buffer.concat(chunks).toString('utf8') };
  }

  /** The same, its output given on as it comes. Resolves with the exit code. */
  async execTo(
    id: string,
    command: readonly string[],
    { env = [], signal }: { env?: readonly string[]; signal: AbortSignal },
    take: (chunk: OutputChunk) => void,
  ): Promise<number> {
    await this.#ours(id);
    const { Id: exec } = await this.#client.json<{ Id: string }>({
      method: 'POST',
      path: `/containers/${id}/exec`,
      json: { AttachStdout: true, AttachStderr: true, Cmd: command, Env: env },
    });
    const stream = await this.#client.stream({
      method: 'POST',
      path: `/exec/${exec}/start`,
      json: { Detach: false, Tty: false },
      signal,
    });
    for await (const chunk of framed(stream)) take(chunk);
    const { ExitCode } = await this.#client.json<{ ExitCode: number | null }>({
      method: 'GET',
      path: `/exec/${exec}/json`,
    });
    return ExitCode ?? -1;
  }

  /** Puts a tar archive into a container's directory. */
  async put(id: string, directory: string, archive: Buffer): Promise<void> {
    await this.#ours(id);
    await this.#client.done({
      method: 'PUT',
      path: `/containers/${id}/archive`,
      query: { path: directory, noOverwriteDirNonDir: true },
      body: archive,
      contentType: 'application/x-tar',
    });
  }

  async #ours(id: string): Promise<Container> {
    const container = await this.#oursOrGone(id);
    if (container === null) throw new EngineError(404, `container ${id.slice(0, 12)} is gone`);
    return container;
  }

  async #oursOrGone(id: string): Promise<Container | null> {
    const container = await this.inspect(id);
    if (container === null || isOurs(container.labels, this.#owner)) return container;
    throw new Fault(
      'runtime-refused',
      `container ${container.name} was not made by this installation; it is left alone`,
    );
  }

  /** 304: it had stopped already. */
  async #goneIsFine(call: Promise<unknown>): Promise<void> {
    try {
      await call;
    } catch (error) {
      if (!(error instanceof EngineError) || ![304, 404].includes(error.status)) throw error;
    }
  }
}

async function* framed(stream: Readable): AsyncIterableIterator<OutputChunk> {
  const frames = new LogFrames();
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) yield* frames.read(chunk);
  } finally {
    stream.destroy();
  }
}

function containerOf({ Id, Name, Image, Config, State, NetworkSettings }: InspectAnswer): Container {
  const startedAt = Date.parse(State.StartedAt);
  return {
    id: Id,
    name: Name.replace(/^\//, ''),
    labels: Config.Labels ?? {},
    image: Image,
    running: State.Running,
    exitCode: State.Running ? null : State.ExitCode,
    outOfMemory: State.OOMKilled,
    // The engine says the year 1 for "never".
    startedAt: Number.isNaN(startedAt) || startedAt <= 0 ? null : startedAt,
    publications: Object.entries(NetworkSettings.Ports ?? {}).flatMap(([key, bindings]) => {
      const [port, protocol] = key.split('/');
      return (bindings ?? []).map(({ HostIp, HostPort }) => ({
        container: Number(port),
        protocol: protocol === 'udp' ? ('udp' as const) : ('tcp' as const),
        address: HostIp === '0.0.0.0' ? '' : HostIp,
        hostPort: Number(HostPort),
      }));
    }),
    addresses: Object.fromEntries(
      Object.entries(NetworkSettings.Networks ?? {}).map(([name, { IPAddress }]) => [name, IPAddress]),
    ),
  };
}
