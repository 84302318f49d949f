// What the tests of containers share: a running Turnpike on a real engine, and questions to both.
// Invariant: one engine, one Turnpike at a time; what the engine says is asked by its own command line, not by our code.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AppVerb, appPath, appPaths, type DeployLine } from '../../src/control/apps-api.ts';
import type { ApplyResult, AppStatus, DeployReport } from '../../src/process/apps-operations.ts';
import type { TestEngine } from './engines.ts';
import { freePort } from './ports.ts';
import { Turnpike } from './turnpike.ts';

export const pages = 'docker.io/library/pages:1';

export class ContainerKit {
  readonly directory = mkdtempSync(join(tmpdir(), 'turnpike-containers-'));
  readonly engine: TestEngine;
  readonly port: number;
  readonly #more: string;
  p!: Turnpike;

  private constructor(engine: TestEngine, port: number, more: string) {
    this.engine = engine;
    this.port = port;
    this.#more = more;
  }

  static async start(engine: TestEngine, more = ''): Promise<ContainerKit> {
    const kit = new ContainerKit(engine, await freePort(), more);
    await kit.startAgain();
    return kit;
  }

  async startAgain(): Promise<void> {
    const config = `workers = 1
[entrypoints.web]
address = "127.0.0.1:${this.port}"
protocol = "http"
[log]
access = false
format = "json"
${this.#more}`;
    this.p = await Turnpike.start({ config, directory: this.directory, env: this.engine.env });
  }

  /** A service that answers with `word`; `more` goes to the service. */
  static blog(word: string, more = '', image = pages): string {
    return `name = "blog"
[services.web]
image = "${image}"
stop_grace = "5s"
${more}
[[services.web.http]]
host = "blog.test"
port = 8080
[services.web.env]
NAME = "${word}"
`;
  }

  async apply(name: string, text: string, suffix = 'toml'): Promise<ApplyResult> {
    const path = join(this.directory, `${name}.${suffix}`);
    writeFileSync(path, text);
    return this.p.control.post<ApplyResult>(appPaths.apply, { path, shown: `${name}.${suffix}`, dryRun: false });
  }

  /** Applies what must be valid, and deploys it. */
  async serve(name: string, text: string, suffix = 'toml'): Promise<DeployReport> {
    const { problems } = await this.apply(name, text, suffix);
    if (problems.length > 0) throw new Error(JSON.stringify(problems));
    return this.verb(name, 'deploy', { revision: null, service: null, backends: [], wait: false });
  }

  async verb(app: string, verb: AppVerb, body: object, onStep: (step: string) => void = () => {}) {
    for await (const line of this.p.control.lines<DeployLine>(appPath(app, verb), body)) {
      if ('error' in line) throw new Error(`${line.error.code}: ${line.error.message}`);
      if ('report' in line) return line.report;
      onStep(line.progress.step);
    }
    throw new Error('it ended without a report');
  }

  status(app: string): Promise<AppStatus> {
    return this.p.control.get<AppStatus>(appPath(app, 'status'));
  }

  /** Ids of running containers of ours, or of all. */
  containers(all = false): readonly string[] {
    return lines(this.engine.cli('ps', ...(all ? ['-aq'] : ['-q']), '--filter', 'label=turnpike.installation'));
  }

  networks(): readonly string[] {
    return lines(this.engine.cli('network', 'ls', '--filter', 'label=turnpike.installation', '--format', '{{.Name}}'));
  }

  volumes(): readonly string[] {
    return lines(this.engine.cli('volume', 'ls', '-q', '--filter', 'label=turnpike.installation'));
  }

  /** Status and body. */
  ask(host = 'blog.test'): Promise<string> {
    return new Promise((resolve, reject) => {
      const asked = request({ port: this.port, host: '127.0.0.1', headers: { host }, agent: false }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => {
          text += part;
        });
        response.on('end', () => resolve(`${response.statusCode} ${text.trim()}`));
        response.on('error', reject);
      });
      asked.on('error', reject);
      asked.end();
    });
  }

  async end(): Promise<void> {
    try {
      await this.p.stop();
    } finally {
      rmSync(this.directory, { recursive: true, force: true });
    }
  }
}

const lines = (text: string): readonly string[] => text.split('\n').filter((line) => line !== '');
