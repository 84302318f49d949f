// P: the real product as a child process (`node src/main.ts serve`) on a generated configuration and free ports.
// Invariant: `stop` proves a clean end (exit code 0); nothing outlives the test file; a bug, an uncaught exception or an
// unhandled rejection in any log of any process fails the file, whoever ended the process and how.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import { paths, type ServiceVerb, servicePath } from '../../src/control/api.ts';
import { ControlClient } from '../../src/control/client.ts';
import { socketName } from '../../src/control/socket-path.ts';
import type { ReloadResult, ServiceChange, Status, SwitchReport, TrafficStatus } from '../../src/process/operations.ts';
import { namespaced } from './namespaces.ts';
import { until, within } from './wait.ts';

export const repository = join(dirname(fileURLToPath(import.meta.url)), '../..');
export const mainFile = join(repository, 'bin/turnpike.js');

export interface LogLine {
  readonly level?: string;
  readonly event?: string;
  readonly [member: string]: unknown;
}

export interface TurnpikeOptions {
  readonly config: string;
  /** Another entry file than src/main.ts, e.g. one that stops at a publication step. */
  readonly entry?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** As many descriptors as each of its processes may have (`ulimit -n`). */
  readonly descriptors?: number;
  /** A network namespace to run in. */
  readonly netns?: string;
  /** Keep using this directory (configuration and state), for restarts. */
  readonly directory?: string;
  /** Wait until it serves (default). */
  readonly wait?: boolean;
}

export interface SwitchOutcome {
  /** performance.now() when the line with phase `committed` (or later) arrived. */
  readonly acknowledgedAt: number;
  readonly report: SwitchReport;
}

export class Turnpike {
  readonly directory: string;
  readonly configFile: string;
  readonly child: ChildProcess;
  readonly control: ControlClient;
  output = '';
  /** For tests of what a bug does. */
  bugsExpected = false;
  exitCode: number | null = null;
  exitSignal: NodeJS.Signals | null = null;
  exitedAt: number | null = null;
  readonly exited: Promise<void>;
  readonly #ownsDirectory: boolean;

  private constructor(options: TurnpikeOptions) {
    this.#ownsDirectory = options.directory === undefined;
    this.directory = options.directory ?? mkdtempSync(join(tmpdir(), 'turnpike-test-'));
    this.configFile = join(this.directory, 'config.toml');
    writeFileSync(this.configFile, options.config);
    this.control = new ControlClient({
      path: join(this.directory, '.turnpike', socketName),
      configFile: this.configFile,
    });
    const command = [process.execPath, options.entry ?? mainFile, 'serve', '--config', this.configFile];
    const limited = ['-c', 'ulimit -n "$0" && exec "$@"', String(options.descriptors)];
    const [program, args] =
      options.netns !== undefined
        ? namespaced(options.netns, command)
        : options.descriptors === undefined
          ? [command[0]!, command.slice(1)]
          : ['/bin/sh', [...limited, ...command]];
    this.child = spawn(program, args, {
      env: { ...process.env, NODE_ENV: 'production', ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    running.add(this);
    started.add(this);
    for (const stream of [this.child.stdout!, this.child.stderr!]) {
      stream.setEncoding('utf8');
      stream.on('data', (text: string) => {
        this.output += text;
      });
    }
    this.exited = new Promise((resolve) => {
      this.child.once('close', (code, signal) => {
        this.exitCode = code;
        this.exitSignal = signal;
        this.exitedAt = performance.now();
        running.delete(this);
        resolve();
      });
    });
  }

  static async start(options: TurnpikeOptions): Promise<Turnpike> {
    const turnpike = new Turnpike(options);
    if (options.wait ?? true) await turnpike.ready();
    return turnpike;
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** Every worker serves the same revision. */
  async ready(timeoutMs = 20_000): Promise<Status> {
    return until(
      'Turnpike to serve',
      async () => {
        if (this.exitedAt !== null) throw new Error(`Turnpike ended with ${this.exitCode}:\n${this.output}`);
        const status = await this.status().catch(() => null);
        const whole =
          status !== null &&
          status.workers.length > 0 &&
          status.workers.every((worker) => worker.state === 'ready' && worker.revision === status.revision);
        return whole ? status : null;
      },
      { timeoutMs, everyMs: 25, seen: () => this.output.slice(-2000) },
    );
  }

  status(): Promise<Status> {
    return this.control.get<Status>(paths.status);
  }

  traffic(): Promise<TrafficStatus> {
    return this.control.get<TrafficStatus>(paths.traffic);
  }

  /** The metrics of all processes in Prometheus' text format. */
  metrics(): Promise<string> {
    return new Promise((resolve, reject) => {
      const socketPath = join(this.directory, '.turnpike', socketName);
      const request = get({ socketPath, path: paths.metrics, agent: false }, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (part: string) => {
          text += part;
        });
        response.on('end', () => resolve(text));
      });
      request.on('error', reject);
    });
  }

  async workerPids(): Promise<number[]> {
    return (await this.status()).workers.map((worker) => worker.pid);
  }

  /** Writes a new configuration (or keeps the old text) and reloads. */
  reload(config?: string): Promise<ReloadResult> {
    if (config !== undefined) writeFileSync(this.configFile, config);
    return this.control.post<ReloadResult>(paths.reload);
  }

  /** `service switch`: resolves with the report, i.e. when the old generation is drained. */
  async switchService(
    service: string,
    to: readonly string[] | 'config',
    options: { drainMs?: number; probe?: boolean; acknowledged?: (at: number) => void } = {},
  ): Promise<SwitchOutcome> {
    const body = { to, drainMs: options.drainMs ?? null, probe: options.probe ?? false };
    let acknowledgedAt: number | null = null;
    for await (const line of this.control.lines(servicePath(service, 'switch'), body)) {
      if ('progress' in line) {
        if (acknowledgedAt === null && ['committed', 'draining', 'done'].includes(line.progress.phase)) {
          acknowledgedAt = performance.now();
          options.acknowledged?.(acknowledgedAt);
        }
      } else if ('report' in line) {
        return { acknowledgedAt: acknowledgedAt ?? performance.now(), report: line.report };
      } else {
        throw new Error(`${line.error.code}: ${line.error.message}`);
      }
    }
    throw new Error('the switch ended without a report');
  }

  service(name: string, verb: Exclude<ServiceVerb, 'switch'>): Promise<ServiceChange> {
    return this.control.post<ServiceChange>(servicePath(name, verb));
  }

  /** Whole lines of the log that are JSON objects: events and the access log. */
  get log(): LogLine[] {
    const whole = this.output.slice(0, this.output.lastIndexOf('\n') + 1);
    return whole
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as LogLine);
  }

  /** Lines of the access log. */
  get accessLog(): LogLine[] {
    return this.log.filter((line) => line['client'] !== undefined && line['status'] !== undefined);
  }

  /** What must never stand in a log: bugs. */
  get bugs(): string[] {
    if (this.bugsExpected) return [];
    const sign =
      /uncaught|unhandled|"level":"fatal"|"event":"(?:bug|internal)|\b(?:Type|Range|Reference|Syntax|Assertion)Error\b|^\s+at .*:\d+:\d+/i;
    return this.output.split('\n').filter((line) => {
      // What a client sends stands in the access log; there only our own verdict counts.
      if (line.includes('"client":') && line.includes('"status":')) return line.includes('"reason":"internal"');
      return sign.test(line);
    });
  }

  /** SIGTERM, then a clean end: code 0 and no bug in the log. */
  async stop(timeoutMs = 40_000): Promise<void> {
    if (this.exitedAt === null) {
      this.child.kill('SIGTERM');
      await within(timeoutMs, 'the shutdown of Turnpike', this.exited).catch((error: unknown) => {
        this.child.kill('SIGKILL');
        throw error;
      });
    }
    const { bugs, exitCode, exitSignal } = this;
    this.forget();
    if (exitCode !== 0) throw new Error(`exit ${exitCode ?? exitSignal}:\n${this.output.slice(-3000)}`);
    if (bugs.length > 0) throw new Error(`bugs in the log:\n${bugs.join('\n')}`);
  }

  /** Ends it at once, without asking how. */
  async kill(): Promise<void> {
    if (this.exitedAt === null) {
      this.child.kill('SIGKILL');
      await this.exited;
    }
    running.delete(this);
  }

  /** Removes its directory, if that was made for it. */
  forget(): void {
    if (this.#ownsDirectory) rmSync(this.directory, { recursive: true, force: true });
  }
}

const running = new Set<Turnpike>();
/** All of this test file. */
const started = new Set<Turnpike>();

// A test that fails before its `stop` leaves a process behind; it ends with the file. (A runner's worker is ended by a
// signal, so an exit handler would not do.)
afterAll(async () => {
  for (const turnpike of [...running]) {
    await turnpike.kill();
    turnpike.forget();
  }
  const bugs = [...started].flatMap((turnpike) => turnpike.bugs);
  started.clear();
  if (bugs.length > 0) throw new Error(`bugs in the log:\n${bugs.join('\n')}`);
});

/** Runs a command of the command line and waits for its end. */
export function turnpikeCommand(
  args: readonly string[],
  options: { cwd?: string; timeoutMs?: number; input?: string } = {},
): { code: number | null; stdout: string; stderr: string } {
  const result = spawnSync(process.execPath, [mainFile, ...args], {
    cwd: options.cwd ?? repository,
    encoding: 'utf8',
    input: options.input ?? '',
    timeout: options.timeoutMs ?? 30_000,
    env: { ...process.env, NO_COLOR: '1' },
  });
  return { code: result.status, stdout: result.stdout, stderr: result.stderr };
}

/** Resident memory of a process, bytes. */
export function residentSize(pid: number): number {
  const match = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(match?.[1] ?? 0) * 1024;
}
