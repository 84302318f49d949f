// Real container engines out of Debian's packages: each with storage, socket and processes of its own.
// Invariant: what was started is ended with `stop`, containers first; at most one Docker at a time (its rules in the kernel's
// packet filter are one set a machine), which a lock file sees to.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from './wait.ts';

export interface TestEngine {
  readonly kind: 'docker' | 'podman';
  readonly socket: string;
  /** How `Engine.open` finds it. */
  readonly env: Readonly<Record<string, string>>;
  /** Runs the engine's own command line. */
  cli(...args: readonly string[]): string;
  /** Makes an image of busybox, and what `files` add, under a name. */
  image(name: string, command: readonly string[], files?: Readonly<Record<string, string>>): void;
  /** Ends the daemon as a crash does, and starts it again. */
  crash(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

const applets = [
  'sh',
  'httpd',
  'cat',
  'sleep',
  'echo',
  'nc',
  'nslookup',
  'id',
  'env',
  'ls',
  'stat',
  'kill',
  'touch',
  'rm',
  'tar',
  'head',
  'mount',
  'test',
];
const dockerLock = join(tmpdir(), 'turnpike-test-docker.lock');

export async function startDocker(): Promise<TestEngine> {
  await lockDocker();
  const directory = mkdtempSync(join(tmpdir(), 'turnpike-docker-'));
  const socket = join(directory, 'docker.sock');
  const start = async (): Promise<ChildProcess> => {
    const args = [
      ...['--data-root', join(directory, 'data'), '--exec-root', join(directory, 'exec')],
      ...['-H', `unix://${socket}`, '--pidfile', join(directory, 'pid')],
      ...['--insecure-registry', '127.0.0.0/8', '--shutdown-timeout', '5'],
    ];
    for (const pid of ['pid', 'exec/containerd/containerd.pid']) rmSync(join(directory, pid), { force: true });
    return await started('dockerd', args, {}, socket);
  };
  return testEngine({
    kind: 'docker',
    directory,
    socket,
    start,
    variable: 'DOCKER_HOST',
    cli: (args) =>
      execFileSync('docker', ['-H', `unix://${socket}`, ...args], {
        encoding: 'utf8',
        stdio: ['pipe', 'pipe', 'pipe'],
      }),
    importArchive: (archive, name, change) =>
      execFileSync('docker', ['-H', `unix://${socket}`, 'import', '--change', change, '-', name], { input: archive }),
    ended: () => rmSync(dockerLock, { force: true }),
  });
}

export async function startPodman(): Promise<TestEngine> {
  const directory = mkdtempSync(join(tmpdir(), 'turnpike-podman-'));
  const socket = join(directory, 'podman.sock');
  const configuration = join(directory, 'containers.conf');
  // Machines that cap descriptors below Podman's own default let no container start without this.
  writeFileSync(
    configuration,
    '[containers]\ndefault_ulimits = ["nofile=8192:8192", "nproc=16384:16384"]\n' +
      '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n' +
      '[network]\nnetwork_backend = "netavark"\n',
  );
  const store = [
    '--root',
    join(directory, 'root'),
    '--runroot',
    join(directory, 'run'),
    '--runtime',
    'runc',
    '--cgroup-manager',
    'cgroupfs',
  ];
  const env = { CONTAINERS_CONF: configuration };
  const run = (args: readonly string[], input?: Buffer): Buffer =>
    execFileSync('podman', [...store, ...args], {
      env: { ...process.env, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
      ...(input === undefined ? {} : { input }),
    });
  return testEngine({
    kind: 'podman',
    directory,
    socket,
    start: () => started('podman', [...store, 'system', 'service', '--time=0', `unix://${socket}`], env, socket),
    variable: 'CONTAINER_HOST',
    cli: (args) => run(args).toString('utf8'),
    importArchive: (archive, name, change) => run(['import', '--change', change, '-', name], archive),
    ended: () => {},
  });
}

interface EngineParts {
  readonly kind: TestEngine['kind'];
  readonly directory: string;
  readonly socket: string;
  readonly variable: string;
  readonly start: () => Promise<ChildProcess>;
  readonly cli: (args: readonly string[]) => string;
  readonly importArchive: (archive: Buffer, name: string, change: string) => void;
  readonly ended: () => void;
}

async function testEngine(parts: EngineParts): Promise<TestEngine> {
  const { kind, directory, socket, cli } = parts;
  let daemon = await parts.start();
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const gone = new Promise((resolve) => daemon.once('exit', resolve));
    if (daemon.exitCode === null && daemon.signalCode === null) {
      daemon.kill(signal);
      await gone;
    }
  };
  return {
    kind,
    socket,
    env: { [parts.variable]: `unix://${socket}` },
    cli: (...args) => cli(args),
    image: (name, command, files = {}) =>
      parts.importArchive(rootArchive(directory, files), name, `CMD ${JSON.stringify(command)}`),
    crash: () => end('SIGKILL'),
    restart: async () => {
      await end('SIGTERM');
      rmSync(socket, { force: true });
      daemon = await parts.start();
    },
    stop: async () => {
      try {
        const ids = cli(['ps', '-aq']).split('\n').filter(Boolean);
        if (ids.length > 0) cli(['rm', '-f', ...ids]);
        const networks = cli(['network', 'ls', '--format', '{{.Name}}']).split('\n');
        for (const name of networks.filter((each) => each.startsWith('turnpike-'))) cli(['network', 'rm', name]);
      } finally {
        await end('SIGTERM');
        parts.ended();
        // What a daemon that was killed left mounted, the innermost first.
        const mounts = readFileSync('/proc/mounts', 'utf8').split('\n');
        const left = mounts.map((line) => line.split(' ')[1] ?? '').filter((path) => path.startsWith(directory));
        for (const path of left.toSorted().toReversed()) spawnSync('umount', ['-l', path]);
        // Layers are mounts until the daemon is gone for good.
        await until('the storage to be free', () => spawnSync('rm', ['-rf', directory]).status === 0, {
          timeoutMs: 20_000,
        });
      }
    },
  };
}

async function started(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  socket: string,
): Promise<ChildProcess> {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4000);
  });
  try {
    await until(
      `${program} to listen`,
      () => {
        if (child.exitCode !== null) throw new Error(`${program} ended: ${said}`);
        return existsSync(socket);
      },
      { timeoutMs: 60_000, everyMs: 50, seen: () => said },
    );
    await until(
      `${program} to answer`,
      () => spawnSync('curl', ['-sf', '-m', '2', '--unix-socket', socket, 'http://engine/v1.41/version']).status === 0,
      { timeoutMs: 60_000, everyMs: 100, seen: () => said },
    );
    return child;
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
}

/** A root file system of busybox alone. */
function rootArchive(directory: string, files: Readonly<Record<string, string>>): Buffer {
  const root = mkdtempSync(join(directory, 'image-'));
  for (const folder of ['bin', 'tmp', 'etc', 'www', 'run', 'proc', 'dev', 'sys']) mkdirSync(join(root, folder));
  copyFileSync('/bin/busybox', join(root, 'bin/busybox'));
  for (const applet of applets) symlinkSync('busybox', join(root, 'bin', applet));
  for (const [path, text] of Object.entries(files)) writeFileSync(join(root, path), text, { mode: 0o755 });
  const archive = execFileSync('tar', ['-C', root, '-c', '.'], { maxBuffer: 64 * 1024 * 1024 });
  rmSync(root, { recursive: true });
  return archive;
}

async function lockDocker(): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      writeFileSync(dockerLock, String(process.pid), { flag: 'wx' });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      const holder = Number(execFileSync('cat', [dockerLock], { encoding: 'utf8' }));
      // A run that was killed left it behind.
      if (!existsSync(`/proc/${holder}`)) rmSync(dockerLock, { force: true });
      else if (tries > 1200) throw new Error(`process ${holder} has kept Docker for ten minutes`);
      await sleep(500);
    }
  }
}
