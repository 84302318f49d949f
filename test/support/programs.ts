// Real servers from Debian for tests that put Turnpike in front of them: PostgreSQL and OpenSSH.
// Invariant: each runs on a free loopback port out of a directory of its own, and ends with `stop`.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { freePorts } from './ports.ts';
import { until } from './wait.ts';

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, without stopping this process meanwhile. */
export function ran(
  command: string,
  args: readonly string[],
  options: { env?: NodeJS.ProcessEnv; input?: string } = {},
) {
  const child = spawn(command, args, { env: { ...process.env, ...options.env }, stdio: ['pipe', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin.on('error', () => {});
  child.stdin.end(options.input ?? '');
  const done = new Promise<Ran>((resolve) => {
    child.on('error', (error) => resolve({ code: null, stdout, stderr: error.message }));
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
  return { child, done };
}

/** A whole cluster in a directory; user and database are "postgres", nobody is asked for a password. */
export class Postgres {
  readonly port: number;
  readonly #directory: string;
  readonly #server: ChildProcess;

  private constructor(port: number, directory: string, server: ChildProcess) {
    this.port = port;
    this.#directory = directory;
    this.#server = server;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** @param label  what `select label from who` says, so that a client sees which one it reached */
  static async start(label: string, settings: readonly string[] = []): Promise<Postgres> {
    const [bin] = globSync('/usr/lib/postgresql/*/bin').toSorted().reverse();
    if (bin === undefined) throw new Error('PostgreSQL is not installed: node scripts/prepare-tests.ts');
    const [port = 0] = await freePorts(1);
    const directory = mkdtempSync(join(tmpdir(), 'turnpike-postgres-'));
    const owner = ownerFor('postgres');
    if (owner !== null) chownSync(directory, owner.uid, owner.gid);
    const data = join(directory, 'data');
    const init = spawnSync(join(bin, 'initdb'), ['-D', data, '-U', 'postgres', '-A', 'trust', '--no-sync'], {
      ...owner,
      cwd: directory,
      encoding: 'utf8',
    });
    if (init.status !== 0) throw new Error(`initdb: ${init.stderr}`);
    const options = ['fsync=off', 'max_connections=50', 'listen_addresses=127.0.0.1', ...settings];
    const server = spawn(
      join(bin, 'postgres'),
      ['-D', data, '-p', String(port), '-k', directory, ...options.flatMap((each) => ['-c', each])],
      { ...owner, cwd: directory, stdio: 'ignore' },
    );
    const postgres = new Postgres(port, directory, server);
    const sql = `create table who as select '${label}'::text as label`;
    await until('PostgreSQL', async () => (await psql(port, sql)).code === 0, { timeoutMs: 20_000, everyMs: 100 });
    return postgres;
  }

  async stop(): Promise<void> {
    if (this.#server.exitCode === null) {
      const ended = new Promise((resolve) => this.#server.once('close', resolve));
      // "Immediate": there is nothing that would have to survive.
      this.#server.kill('SIGQUIT');
      await ended;
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** One statement through psql. */
export function psql(port: number, sql: string, more = ''): Promise<Ran> {
  const target = `host=127.0.0.1 port=${port} user=postgres dbname=postgres connect_timeout=10 ${more}`;
  return ran('psql', ['-X', '-A', '-t', '-q', '-v', 'ON_ERROR_STOP=1', '-c', sql, target]).done;
}

/** An OpenSSH server that takes one key, made for it. */
export class SshServer {
  readonly port: number;
  readonly keyFile: string;
  readonly #directory: string;
  readonly #server: ChildProcess;
  #log = '';

  private constructor(port: number, directory: string, keyFile: string, server: ChildProcess) {
    this.port = port;
    this.keyFile = keyFile;
    this.#directory = directory;
    this.#server = server;
    server.stderr?.on('data', (chunk: Buffer) => {
      this.#log += chunk.toString();
    });
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  static async start(): Promise<SshServer> {
    const [port = 0] = await freePorts(1);
    const directory = mkdtempSync(join(tmpdir(), 'turnpike-ssh-'));
    chmodSync(directory, 0o755);
    const keygen = (file: string): string => {
      const path = join(directory, file);
      const result = spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', path], { encoding: 'utf8' });
      if (result.status !== 0) throw new Error(`ssh-keygen: ${result.stderr}`);
      return path;
    };
    const hostKey = keygen('host');
    const keyFile = keygen('client');
    const authorized = join(directory, 'authorized');
    writeFileSync(authorized, readFileSync(`${keyFile}.pub`), { mode: 0o644 });
    const config = join(directory, 'config');
    const lines = [
      `ListenAddress 127.0.0.1:${port}`,
      `HostKey ${hostKey}`,
      `AuthorizedKeysFile ${authorized}`,
      'PidFile none',
      'StrictModes no',
      'UsePAM no',
      'PasswordAuthentication no',
      'PermitRootLogin yes',
    ];
    writeFileSync(config, `${lines.join('\n')}\n`);
    // Where the unprivileged half of the server lives; the service makes it otherwise.
    if (userInfo().uid === 0) mkdirSync('/run/sshd', { recursive: true });
    const server = spawn('/usr/sbin/sshd', ['-D', '-e', '-f', config], { stdio: ['ignore', 'ignore', 'pipe'] });
    const ssh = new SshServer(port, directory, keyFile, server);
    await until('sshd', () => ssh.#log.includes('Server listening'), { seen: () => ssh.#log });
    return ssh;
  }

  /** Runs a command on it, by whatever port leads here. */
  run(port: number, command: string, input = '') {
    const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'BatchMode=yes', 'ConnectTimeout=10'];
    const args = ['-F', '/dev/null', '-q', '-p', String(port), '-i', this.keyFile];
    const target = `${userInfo().username}@127.0.0.1`;
    return ran('ssh', [...args, ...options.flatMap((each) => ['-o', each]), target, command], { input });
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#server.once('close', resolve));
    this.#server.kill('SIGTERM');
    await ended;
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** Servers that refuse to run as root get their own user. */
function ownerFor(name: string): { readonly uid: number; readonly gid: number } | null {
  if (userInfo().uid !== 0) return null;
  const id = (flag: string): number => Number(spawnSync('id', [flag, name], { encoding: 'utf8' }).stdout);
  return { uid: id('-u'), gid: id('-g') };
}
