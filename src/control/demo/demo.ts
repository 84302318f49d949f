// `npm start`: two backends, Turnpike in front of them on config.example.toml, one request shown, one switch to repeat.
// Invariant: nothing is promised on the screen before it was seen to work; everything started here ends with it.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, openSync, readFileSync } from 'node:fs';
import { extname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { request as httpRequest } from '../../base/node-http.ts';
import type { Status } from '../../process/operations.ts';
import { paths } from '../api.ts';
import { CommandError, ControlClient } from '../client.ts';
import { socketName, stateDirOf } from '../socket-path.ts';
import type { Terminal } from '../terminal.ts';
import { type DemoBackend, startDemoBackend } from './backend.ts';

const root = resolve(import.meta.dirname, '../../..');
/** Compiled for a package, it has the extension that this file has. */
const program = resolve(import.meta.dirname, `../../main${extname(import.meta.filename)}`);
export const demoConfigFile = join(root, 'config.example.toml');
export const demoService = '127.0.0.1';
const backends = [
  { name: 'blue', port: 3001 },
  { name: 'green', port: 3002 },
] as const;
const startLimitMs = 20_000;

/** Runs until SIGINT or SIGTERM, or until Turnpike ends. Resolves with the exit code. */
export async function runDemo(terminal: Terminal): Promise<0 | 1> {
  const stateDir = stateDirOf(demoConfigFile);
  const client = new ControlClient({ path: join(stateDir, socketName), configFile: demoConfigFile });
  await refuseSecond(client);
  const running: DemoBackend[] = [];
  let turnpike: ChildProcess | null = null;
  try {
    for (const { name, port } of backends) running.push(await startBackend(name, port));
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
    const logFile = join(stateDir, 'demo.log');
    terminal.progress('Starting Turnpike on config.example.toml …');
    turnpike = startTurnpike(logFile);
    const ended = new Promise<number>((done) => turnpike?.once('exit', (code) => done(code ?? 1)));
    const status = await untilServing(client, ended, logFile);
    const plain = portOf(status, 'http');
    await show(terminal, plain, portOf(status, 'https'), logFile);
    const code = await untilStopped(ended, terminal);
    if (code === 0) return 0;
    throw new CommandError(`Turnpike ended by itself (exit code ${code}).\n${tail(logFile)}`);
  } finally {
    terminal.progressDone();
    if (turnpike !== null) await stop(turnpike);
    for (const backend of running) backend.close();
  }
}

async function refuseSecond(client: ControlClient): Promise<void> {
  let status: Status;
  try {
    status = await client.get<Status>(paths.status);
  } catch {
    return;
  }
  throw new CommandError(
    `Turnpike runs here already (pid ${status.pid}, ${status.configFile}).\nStop it first:  kill ${status.pid}`,
  );
}

async function startBackend(name: string, port: number): Promise<DemoBackend> {
  try {
    return await startDemoBackend(name, port);
  } catch (error) {
    throw new CommandError(
      `The demo backend ${name} cannot listen on 127.0.0.1:${port} (${(error as NodeJS.ErrnoException).code}).\n` +
        `Another program has the port? See which:  ss -ltnp 'sport = :${port}'`,
    );
  }
}

/** In a process group of its own: Ctrl-C reaches the demo, and the demo ends Turnpike once, in order. */
function startTurnpike(logFile: string): ChildProcess {
  const log = openSync(logFile, 'w', 0o600);
  return spawn(process.execPath, [program, 'serve', '--config', demoConfigFile], {
    stdio: ['ignore', log, log],
    detached: true,
  });
}

/** The status, once a request through the front door was answered by a demo backend. */
async function untilServing(client: ControlClient, ended: Promise<number>, logFile: string): Promise<Status> {
  let failed: number | null = null;
  void ended.then((code) => {
    failed = code;
  });
  const limit = performance.now() + startLimitMs;
  let last = 'no answer yet';
  while (performance.now() < limit) {
    if (failed !== null) throw new CommandError(`Turnpike could not start (exit code ${failed}):\n${tail(logFile)}`);
    try {
      const status = await client.get<Status>(paths.status);
      const answer = await ask(portOf(status, 'http'));
      if (answer.status === 200) return status;
      last = `status ${answer.status}`;
    } catch (error) {
      last = (error as Error).message;
    }
    await sleep(50);
  }
  throw new CommandError(`Turnpike did not answer within ${startLimitMs / 1000} s (${last}):\n${tail(logFile)}`);
}

function portOf(status: Status, protocol: string): number {
  const entrypoint = status.entrypoints.find((each) => each.protocol === protocol);
  if (entrypoint === undefined) throw new Error(`config.example.toml has no ${protocol} entrypoint`);
  return Number(entrypoint.address.slice(entrypoint.address.lastIndexOf(':') + 1));
}

interface Answer {
  readonly status: number;
  readonly backend: string | null;
  readonly ms: number;
}

function ask(port: number): Promise<Answer> {
  return new Promise((done, reject) => {
    const begun = performance.now();
    const request = httpRequest(
      { host: '127.0.0.1', port, path: '/whoami', agent: false, timeout: 5000 },
      (response) => {
        const backend = response.headers['x-demo-backend'];
        response.resume();
        response.on('end', () =>
          done({
            status: response.statusCode ?? 0,
            backend: typeof backend === 'string' ? backend : null,
            ms: performance.now() - begun,
          }),
        );
        response.on('error', reject);
      },
    );
    request.on('timeout', () => request.destroy(new Error('no answer for 5 s')));
    request.on('error', reject);
    request.end();
  });
}

async function show(terminal: Terminal, plain: number, secure: number, logFile: string): Promise<void> {
  const answer = await ask(plain);
  const now = answer.backend ?? 'blue';
  const other = backends.find((each) => each.name !== now) ?? backends[1];
  const current = backends.find((each) => each.name === now) ?? backends[0];
  const bold = (text: string): string => terminal.style('bold', text);
  terminal.progressDone();
  terminal.line();
  terminal.line(`${bold('Turnpike is running.')} One request has gone through:`);
  terminal.line(
    `  GET http://127.0.0.1:${plain}/whoami → ${terminal.style('green', String(answer.status))} from ${bold(now)} (127.0.0.1:${current.port}) in ${answer.ms.toFixed(1)} ms`,
  );
  terminal.line();
  terminal.line('Open it and leave it open; it shows which backend answers:');
  terminal.line(`  ${terminal.style('cyan', `http://127.0.0.1:${plain}/`)}`);
  terminal.line(`  https://127.0.0.1:${secure}/ (certificate of the internal CA: your browser will ask)`);
  terminal.line();
  terminal.line(`In another terminal, here: switch from ${now} to ${bold(other.name)}, without losing a request`);
  terminal.line(`  ${bold(switchCommand(other.port))}`);
  terminal.line('and back');
  terminal.line(`  ${switchCommand(current.port)}`);
  terminal.line('Look around');
  terminal.line('  npm run -s turnpike -- status');
  terminal.line(`  npm run -s turnpike -- explain http://127.0.0.1:${plain}/`);
  terminal.line();
  terminal.line(`Access log: ${logFile}`);
  terminal.line('Ctrl-C ends everything.');
}

function switchCommand(port: number): string {
  return `npm run -s turnpike -- service switch ${demoService} --to 127.0.0.1:${port}`;
}

/** Resolves with 0 at the first SIGINT or SIGTERM, else with the exit code of Turnpike. */
function untilStopped(ended: Promise<number>, terminal: Terminal): Promise<number> {
  return new Promise((done) => {
    const stopped = (): void => {
      terminal.line();
      terminal.line('Stopping …');
      done(0);
    };
    process.once('SIGINT', stopped);
    process.once('SIGTERM', stopped);
    void ended.then((code) => done(code === 0 ? 1 : code));
  });
}

/** SIGTERM drains; who is still open after a moment (a browser, a stream) is not worth waiting for in a demo. */
async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise<void>((done) => child.once('exit', () => done()));
  child.kill('SIGTERM');
  const patience = setTimeout(() => child.kill('SIGTERM'), 2000);
  const end = setTimeout(() => child.kill('SIGKILL'), 5000);
  await gone;
  clearTimeout(patience);
  clearTimeout(end);
}

function tail(logFile: string): string {
  try {
    return readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-15).join('\n');
  } catch {
    return '';
  }
}
