// Readiness of a port that is not published: asked by one short-lived container inside the app's own network.
// Invariant: nothing is pulled and nothing published for it; it runs this machine's own Node on the service's image, without
// any capability, and is gone when its answer is there, its time is over or nobody wants to know any more.
import { existsSync, realpathSync } from 'node:fs';
import { basename, isAbsolute } from 'node:path';
import type { ProbeResult } from '../switchover/probe-result.ts';
import type { Mount } from './container-spec.ts';
import type { Engine } from './engine.ts';
import { EngineError } from './engine-client.ts';
import { containerName, type InstanceMark, instanceLabels } from './ownership.ts';
import type { PortProbe } from './runtime.ts';

export interface InsideTarget {
  /** Of the helper itself. */
  readonly mark: InstanceMark;
  /** Content id of an image that is on the engine. */
  readonly image: string;
  readonly network: string;
  /** Of the instance in that network: its name would be answered by either generation. */
  readonly address: string;
}

const place = '/.turnpike';
const attemptMs = 5000;
const everyMs = 500;
/** For the engine to make, start and end the helper. */
const overheadMs = 30_000;

export async function probeFromInside(
  engine: Engine,
  { mark, image, network, address }: InsideTarget,
  probe: PortProbe,
  signal: AbortSignal,
): Promise<ProbeResult> {
  const { loader, mounts } = ownNode();
  const task = JSON.stringify({ ...probe, address, attemptMs, everyMs });
  const id = await engine.containers.create(containerName(mark), {
    image,
    labels: instanceLabels(mark),
    entrypoint: [loader, '--library-path', `${place}/lib`, `${place}/node`],
    command: ['-e', script, task],
    env: [],
    stopGraceMs: 1000,
    publications: [],
    network,
    aliases: [],
    mounts,
    tmpfs: [],
    cdiDevices: [],
    hostDevices: [],
    security: { readonlyRoot: true, noNewPrivileges: true, capabilities: [], apparmorProfile: null },
    cpus: null,
    memory: null,
  });
  try {
    signal.throwIfAborted();
    await engine.containers.start(id);
    const exitCode = await ended(engine, id, probe.timeoutMs + overheadMs, signal);
    let text = '';
    for await (const { data } of engine.containers.output(id, { follow: false })) text += data.toString('utf8');
    const detail = text.trim().split('\n').at(-1) ?? '';
    if (exitCode === 0) return { ok: true, detail };
    if (exitCode === 1) return { ok: false, detail };
    throw new EngineError(0, `the helper inside the network ended with ${exitCode}: ${detail}`);
  } finally {
    await engine.containers.remove(id);
  }
}

async function ended(engine: Engine, id: string, limitMs: number, signal: AbortSignal): Promise<number | null> {
  const over = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
  let stop = (): void => {};
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(new EngineError(0, 'the helper inside the network was given up'));
    over.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([engine.containers.waitForEnd(id), aborted]);
  } finally {
    over.removeEventListener('abort', stop);
  }
}

/** The program that runs us, with all it is linked against, wherever the image has its own or none. */
function ownNode(): { readonly loader: string; readonly mounts: readonly Mount[] } {
  const { sharedObjects } = process.report.getReport() as unknown as { readonly sharedObjects: readonly string[] };
  const libraries = sharedObjects.filter((path) => isAbsolute(path) && existsSync(path));
  const loader = libraries.find((path) => /^ld[-.].*\.so/.test(basename(path)) || basename(path).startsWith('ld-musl'));
  if (loader === undefined) throw new EngineError(0, 'Node was linked in a way that cannot be taken into a container');
  const bind = (source: string, target: string): Mount => ({
    kind: 'bind',
    source: realpathSync(source),
    target,
    readonly: true,
    options: [],
  });
  return {
    loader: `${place}/lib/${basename(loader)}`,
    mounts: [
      bind(process.execPath, `${place}/node`),
      ...libraries.map((path) => bind(path, `${place}/lib/${basename(path)}`)),
    ],
  };
}

/** Runs inside; says in its last line what it saw, and ends with 0 (ready) or 1. */
const script = `
const { type, path, port, address, timeoutMs, attemptMs, everyMs, consecutive } = JSON.parse(process.argv[1]);
const ask = () => new Promise((resolve) => {
  const end = (ok, detail) => { clearTimeout(limit); resolve({ ok, detail }); target.destroy(); };
  const limit = setTimeout(() => end(false, 'no answer within ' + attemptMs + ' ms'), attemptMs);
  const target = type === 'http'
    ? require('node:http').get({ host: address, port, path, agent: false }, ({ statusCode }) =>
        end(statusCode >= 200 && statusCode < 400, 'answers ' + statusCode))
    : require('node:net').connect({ host: address, port });
  target.on('error', (error) => end(false, error.code || error.message));
  if (type === 'http') return;
  target.on('connect', () => setTimeout(() => end(true, 'accepts connections'), 300));
  target.on('data', () => end(true, 'accepts connections'));
  target.on('close', () => end(false, 'accepted and closed at once'));
});
(async () => {
  const deadline = Date.now() + timeoutMs;
  for (let passes = 0, last = 'no attempt ended'; ; ) {
    const { ok, detail } = await ask();
    last = detail;
    passes = ok ? passes + 1 : 0;
    if (passes >= consecutive) { console.log(detail); process.exit(0); }
    if (Date.now() + everyMs >= deadline) {
      console.log('not ready within ' + timeoutMs + ' ms, last: ' + last);
      process.exit(1);
    }
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
})();
`;
