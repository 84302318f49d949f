// What the process tests of apps share: a running Turnpike that starts and stops real processes, and their log.
// Invariant: nothing survives a test file, whatever killed its supervisor: processes are found by what the log has of them.
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { type AppVerb, appPath, appPaths, type DeployLine } from '../../src/control/apps-api.ts';
import type { ApplyResult, AppRow, AppStatus, DeployReport } from '../../src/process/apps-operations.ts';
import { freePort } from './ports.ts';
import { repository, Turnpike, type TurnpikeOptions } from './turnpike.ts';

/** A line of the processes' own log. Times are epoch milliseconds. */
export interface AppEvent {
  readonly at: number;
  readonly pid: number;
  readonly service: string;
  readonly revision: number;
  readonly what: 'start' | 'ready' | 'term' | 'exit';
}

export interface AppKitOptions {
  readonly workers?: number;
  /** More of the configuration. */
  readonly more?: string;
  /** Tables `[apps.APP.SERVICE]` that start `app-process.ts`. */
  readonly services: readonly string[];
  readonly entry?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly limits?: string;
}

export interface DeployOutcome {
  readonly report: DeployReport;
  /** Epoch milliseconds at which a service was said to be switched, by service. */
  readonly switched: ReadonlyMap<string, number>;
  readonly steps: readonly string[];
}

/** What the processes run. */
export const program = join(repository, 'test/support/app-process.ts');
export const epoch = (): number => performance.timeOrigin + performance.now();

export class AppKit {
  readonly directory = mkdtempSync(join(tmpdir(), 'turnpike-apps-'));
  readonly eventsFile = join(this.directory, 'events.log');
  readonly port: number;
  config: string;
  p: Turnpike;
  readonly #options: AppKitOptions;

  private constructor(options: AppKitOptions, port: number) {
    this.#options = options;
    this.port = port;
    this.config = this.#configOf(options.services, options.more ?? '');
    this.p = null as unknown as Turnpike;
    kits.add(this);
    appendFileSync(this.eventsFile, '');
  }

  static async start(options: AppKitOptions): Promise<AppKit> {
    const kit = new AppKit(options, await freePort());
    await kit.startAgain();
    return kit;
  }

  async startAgain(more: Partial<TurnpikeOptions> = {}): Promise<void> {
    const { entry, env } = this.#options;
    this.p = await Turnpike.start({
      config: this.config,
      directory: this.directory,
      ...(entry === undefined ? {} : { entry }),
      ...(env === undefined ? {} : { env }),
      ...more,
    });
  }

  /** What the processes have written so far. */
  get events(): readonly AppEvent[] {
    return readFileSync(this.eventsFile, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const [at, pid, service, revision, what] = line.split(' ') as [
          string,
          string,
          string,
          string,
          AppEvent['what'],
        ];
        return { at: Number(at), pid: Number(pid), service, revision: Number(revision), what };
      });
  }

  /** Processes of a service that are there, whatever they have written. */
  alive(service: string): readonly number[] {
    const pids = new Set(this.events.filter((each) => each.service === service).map(({ pid }) => pid));
    return [...pids].filter((pid) => isAlive(pid, this.eventsFile));
  }

  /** Writes a manifest and applies it. */
  async apply(name: string, text: string): Promise<ApplyResult> {
    const path = join(this.directory, `${name}.toml`);
    writeFileSync(path, text);
    return this.p.control.post<ApplyResult>(appPaths.apply, { path, shown: `${name}.toml`, dryRun: false });
  }

  deploy(app: string, backends: readonly string[] = [], service: string | null = null): Promise<DeployOutcome> {
    return this.verb(app, 'deploy', { revision: null, service, backends, wait: false });
  }

  /** Applies what must be valid, and deploys it. */
  async serve(name: string, text: string): Promise<DeployOutcome> {
    const { applied, problems } = await this.apply(name, text);
    if (applied === null) throw new Error(JSON.stringify(problems));
    return this.deploy(name);
  }

  async verb(
    app: string,
    verb: AppVerb,
    body: object,
    onStep: (step: string) => void = () => {},
  ): Promise<DeployOutcome> {
    const switched = new Map<string, number>();
    const steps: string[] = [];
    for await (const line of this.p.control.lines<DeployLine>(appPath(app, verb), body)) {
      if ('error' in line) throw new Error(`${line.error.code}: ${line.error.message}`);
      if ('report' in line) return { report: line.report, switched, steps };
      const { service, step } = line.progress;
      if (step === 'done') switched.set(service, epoch());
      if (steps.at(-1) !== `${service} ${step}`) steps.push(`${service} ${step}`);
      onStep(step);
    }
    throw new Error('the deploy ended without a report');
  }

  status(app: string): Promise<AppStatus> {
    return this.p.control.get<AppStatus>(appPath(app, 'status'));
  }

  list(): Promise<readonly AppRow[]> {
    return this.p.control.get<readonly AppRow[]>(appPaths.list);
  }

  async end(): Promise<void> {
    await this.p.kill();
    for (const { pid } of this.events) if (isAlive(pid, this.eventsFile)) process.kill(pid, 'SIGKILL');
    rmSync(this.directory, { recursive: true, force: true });
    kits.delete(this);
  }

  #configOf(services: readonly string[], more: string): string {
    const { workers = 2, limits = '' } = this.#options;
    return `
runtime = "none"
workers = ${workers}
[entrypoints.web]
address = "127.0.0.1:${this.port}"
protocol = "http"
[log]
access = false
format = "json"
[limits]
${limits}
${services
  .map((name) => {
    const [app, service] = name.split('/');
    return `[apps.${app}.${service}]\nstart = ["${process.execPath}", "${program}", "{port}"]\naddress = "127.0.0.1:0"\n`;
  })
  .join('')}
${more}
`;
  }

  /** For environment blocks of manifests. */
  get eventsEnv(): string {
    return `APP_EVENTS = "${this.eventsFile}"`;
  }

  /** A manifest with one web service. */
  blog(version: number | string, more = '', name = 'blog'): string {
    return `name = "${name}"
[env]
${this.eventsEnv}
VERSION = "${version}"
[services.web]
image = "docker.io/library/${name}:1"
[[services.web.http]]
host = "${name}.test"
port = 3000
${more}
`;
  }
}

const kits = new Set<AppKit>();
afterAll(async () => {
  for (const kit of [...kits]) await kit.end();
});

/** The process with this number, if it is still the one that wrote into this log. */
function isAlive(pid: number, eventsFile: string): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const state = stat.slice(stat.lastIndexOf(')') + 2)[0];
    return state !== 'Z' && readFileSync(`/proc/${pid}/environ`, 'latin1').includes(eventsFile);
  } catch {
    return false;
  }
}
