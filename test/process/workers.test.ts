// Workers come and go while the listening sockets stay: crashes, replacement, one worker, sockets from systemd.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { paths } from '../../src/control/api.ts';
import { ClientLog } from '../support/client-log.ts';
import { LastingWebSocket, Load } from '../support/generations.ts';
import { freePort } from '../support/ports.ts';
import { askOnce, ProcessKit } from '../support/process-kit.ts';
import { RawClient } from '../support/raw-client.ts';
import { repository, turnpikeCommand } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

const kit = new ProcessKit('Worker tests');

interface Outcome {
  readonly body: string;
  /** '' or an error code. */
  readonly error: string;
  readonly sentAt: number;
}

/** Requests, each on a connection of its own, until stopped. */
function shortConnections(port: number, lanes: number): { stop(): Promise<Outcome[]> } {
  const outcomes: Outcome[] = [];
  let running = true;
  const work = Array.from({ length: lanes }, async () => {
    while (running) {
      const sentAt = performance.now();
      const result = await askOnce(port).then(
        (body) => ({ body, error: '' }),
        (error: NodeJS.ErrnoException) => ({ body: '', error: error.code ?? error.message }),
      );
      outcomes.push({ ...result, sentAt });
      await sleep(2);
    }
  });
  return {
    async stop() {
      running = false;
      await Promise.all(work);
      return outcomes;
    },
  };
}

describe('a worker that is killed under load', () => {
  it.each([1, 2])('is replaced, and no connect is refused (%i workers)', { timeout: 60_000 }, async (workers) => {
    const { p, target } = await kit.scene({ workers });
    const load = shortConnections(target.plainPort, 8);
    await sleep(300);
    const before = await p.status();
    for (let round = 0; round < 3; round++) {
      const [pid] = await p.workerPids();
      process.kill(pid!, 'SIGKILL');
      await until(
        'a new worker',
        async () => {
          const { workers: now } = await p.status();
          return now.length === workers && now.every((each) => each.state === 'ready' && each.pid !== pid);
        },
        { timeoutMs: 10_000, everyMs: 30 },
      );
      await sleep(200);
    }
    const outcomes = await load.stop();
    const failed = outcomes.filter((each) => each.error !== '' || each.body !== '1');
    expect(outcomes.length - failed.length).toBeGreaterThan(100);
    // Only what the dead workers had accepted is lost, as a reset; nobody is refused or left hanging.
    expect(failed.filter((each) => /REFUSED|TIMEOUT|longer/.test(each.error))).toEqual([]);
    expect(failed.length, JSON.stringify(failed.slice(0, 5))).toBeLessThanOrEqual(3 * 8);
    const after = await p.status();
    expect(after.revision).toBe(before.revision);
    expect(after.workers.reduce((sum, each) => sum + each.restarts, 0)).toBe(3);
    expect(await p.metrics()).toMatch(/^turnpike_worker_restarts_total 3$/m);
    await p.stop();
  });

  it('does not disturb the connections of the other worker', { timeout: 30_000 }, async () => {
    const { p, target } = await kit.scene({ workers: 2 });
    const sockets = await Promise.all(
      Array.from({ length: 40 }, () => LastingWebSocket.open(target.plainPort, 'app.test')),
    );
    for (const socket of sockets) await socket.ask();
    const [pid] = await p.workerPids();
    process.kill(pid!, 'SIGKILL');
    await until('some to end', () => sockets.some((socket) => !socket.open));
    await sleep(500);
    const left = sockets.filter((socket) => socket.open);
    expect(left.length).toBeGreaterThan(0);
    for (const socket of left) expect(await socket.ask()).toBe(1);
    for (const socket of sockets) socket.close();
    await p.stop();
  });
});

describe('the held listening sockets', () => {
  it('keep connections in the backlog while no worker is there', { timeout: 30_000 }, async () => {
    const { p, target } = await kit.scene({ workers: 2 });
    for (const pid of await p.workerPids()) process.kill(pid, 'SIGKILL');
    // Connects succeed at once: the kernel holds them until a worker comes.
    const started = performance.now();
    const clients = await Promise.all(Array.from({ length: 20 }, () => RawClient.connect({ port: target.plainPort })));
    expect(performance.now() - started).toBeLessThan(1000);
    const answers = await Promise.all(
      clients.map((client) => client.ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n', { timeoutMs: 10_000 })),
    );
    expect(answers.map((answer) => answer.body.toString())).toEqual(Array(20).fill('1'));
    await until('both workers', async () => (await p.status()).workers.every((each) => each.state === 'ready'));
    await p.stop();
  });

  it('are shared by the workers', { timeout: 30_000 }, async () => {
    const { p, target } = await kit.scene({ workers: 2, more: '' });
    const load = shortConnections(target.plainPort, 16);
    await sleep(1500);
    await load.stop();
    const text = await p.metrics();
    expect(text).toContain('turnpike_');
    const { entrypoints } = await p.traffic();
    expect(entrypoints.find((each) => each.name === 'web')!.accepted).toBeGreaterThan(100);
    await p.stop();
  });

  it('may come from systemd (LISTEN_FDS), and are not closed by a restart', { timeout: 60_000 }, async () => {
    const { p, config, target, first } = await kit.scene();
    await p.stop();
    const port = target.plainPort;
    const directory = mkdtempSync(join(tmpdir(), 'turnpike-systemd-'));
    const file = join(directory, 'config.toml');
    writeFileSync(file, config);
    const holder = new ListenerHolder(port, 2, ['serve', '--config', file]);
    try {
      await holder.start(0);
      expect(await askOnce(port)).toBe(String(first.number));
      expect(await holder.stop(0)).toBe(0);
      // Between two processes: connects wait in the socket that systemd keeps.
      const waiting = RawClient.connect({ port }).then((client) =>
        client.ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n', { timeoutMs: 15_000 }),
      );
      await sleep(200);
      await holder.start(1);
      expect((await waiting).body.toString()).toBe('1');
      expect(await holder.stop(1)).toBe(0);
    } finally {
      holder.close();
      rmSync(directory, { recursive: true, force: true });
    }
  });
});

/**
 * Stands for systemd: a process that opens the listening socket, hands it to shells that become Turnpike when told to,
 * and then sleeps, so that nobody but Turnpike ever accepts from it.
 */
class ListenerHolder {
  readonly #child: ChildProcess;
  readonly #directory = mkdtempSync(join(tmpdir(), 'turnpike-holder-'));

  constructor(port: number, runs: number, args: readonly string[]) {
    // The outer shell waits for its turn and keeps the exit code; LISTEN_PID must name the process itself, so an inner
    // one sets it and becomes that process.
    const outer =
      'while [ ! -e "$GO" ]; do [ -d "$DIR" ] || exit; sleep 0.05; done; echo $$ > "$GO.pid"; ' +
      '/bin/sh -c "LISTEN_PID=\\$\\$ LISTEN_FDS=1 exec \\"\\$0\\" \\"\\$@\\"" "$@" 2> "$GO.log"; echo $? > "$GO.code"';
    const command = [process.execPath, join(repository, 'src/main.ts'), ...args];
    const script = `
      const { createServer } = require('node:net');
      const { spawn } = require('node:child_process');
      const [outer, command, directory] = JSON.parse(process.argv[1]);
      const server = createServer();
      server.listen(${port}, '127.0.0.1', () => {
        for (let run = 0; run < ${runs}; run++) {
          spawn('/bin/sh', ['-c', outer, 'sh', ...command], {
            stdio: ['ignore', 'ignore', 'ignore', server._handle.fd],
            env: { ...process.env, DIR: directory, GO: directory + '/' + run },
          });
        }
        setTimeout(() => process.kill(process.pid, 'SIGSTOP'), 50);
      });`;
    const parameters = JSON.stringify([outer, command, this.#directory]);
    this.#child = spawn(process.execPath, ['-e', script, parameters], { stdio: ['ignore', 'ignore', 'inherit'] });
  }

  #file(run: number, name = ''): string {
    return join(this.#directory, `${run}${name}`);
  }

  #read(run: number, name: string): string {
    return existsSync(this.#file(run, name)) ? readFileSync(this.#file(run, name), 'utf8') : '';
  }

  async start(run: number): Promise<void> {
    await until('the holder to sleep', () =>
      readFileSync(`/proc/${this.#child.pid}/status`, 'utf8').includes('State:\tT'),
    );
    writeFileSync(this.#file(run), '');
    await until('it to serve', () => this.#read(run, '.log').includes('"serving"'), {
      timeoutMs: 10_000,
      seen: () => this.#read(run, '.log'),
    });
  }

  /** Ends the process as systemd would; its exit code. */
  async stop(run: number): Promise<number> {
    process.kill(childOf(Number(this.#read(run, '.pid'))), 'SIGTERM');
    return Number(await until('its exit code', () => this.#read(run, '.code').trim() || null, { timeoutMs: 10_000 }));
  }

  close(): void {
    this.#child.kill('SIGKILL');
    for (const run of [0, 1]) {
      const pid = this.#read(run, '.code') === '' && this.#read(run, '.pid');
      if (pid) process.kill(childOf(Number(pid)), 'SIGKILL');
    }
    // Shells that still wait for their turn end when the directory is gone.
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** The one child of a process. */
function childOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0]);
}

describe('replacing the workers', () => {
  it('one by one under load loses nothing', { timeout: 60_000 }, async () => {
    const { p, target } = await kit.scene({ workers: 2, limits: 'drain = "5s"\nstream_drain = "2s"' });
    const log = new ClientLog();
    const load = new Load({
      target,
      host: 'app.test',
      log,
      h1Clients: 8,
      h2Connections: 2,
      h2Streams: 4,
      wsClients: 2,
    });
    const short = shortConnections(target.plainPort, 4);
    await sleep(300);
    const pids = await p.workerPids();
    for (let round = 0; round < 3; round++) {
      await p.control.post(paths.replaceWorkers);
      await sleep(300);
    }
    await load.stop();
    const outcomes = await short.stop();
    const now = (await p.status()).workers.filter((each) => each.state === 'ready').map((each) => each.pid);
    expect(now.length).toBe(2);
    expect(now.filter((pid) => pids.includes(pid))).toEqual([]);
    const failures = log.failures.map(({ kind, failure }) => `${kind}: ${failure}`);
    expect(failures.slice(0, 10), `${failures.length} of ${log.entries.length}`).toEqual([]);
    expect(outcomes.filter((each) => each.error !== '' || each.body !== '1')).toEqual([]);
    await p.stop();
  });
});

describe('one worker', () => {
  it('runs the same way: supervisor and worker are two processes', async () => {
    const { p, target } = await kit.scene({ workers: 1 });
    const pids = await p.workerPids();
    expect(pids.length).toBe(1);
    expect(pids[0]).not.toBe(p.pid);
    expect(await askOnce(target.plainPort)).toBe('1');
    await p.stop();
  });
});

describe('starting', () => {
  it('with a datagram socket of systemd is refused, in words', () => {
    const directory = mkdtempSync(join(tmpdir(), 'turnpike-datagram-'));
    const file = join(directory, 'config.toml');
    writeFileSync(file, '[entrypoints.games]\naddress = ":5000"\nprotocol = "udp"\n');
    // The shell's way to have a UDP socket as descriptor 3.
    const script = 'exec 3<>/dev/udp/127.0.0.1/9; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=games exec "$@"';
    const command = [process.execPath, join(repository, 'src/main.ts'), 'serve', '--config', file];
    const { status, stderr } = spawnSync('bash', ['-c', script, 'bash', ...command], {
      encoding: 'utf8',
      timeout: 15_000,
    });
    rmSync(directory, { recursive: true, force: true });
    expect(status, stderr).toBe(1);
    expect(stderr).toMatch(/descriptor 3 \(games\) of the service manager .* leave ListenDatagram= out/);
    expect(stderr).not.toMatch(/\n\s+at /);
  });

  it('twice on one state directory is refused, and the first one goes on', async () => {
    const { p, config, target } = await kit.scene();
    const [web, secure] = [await freePort(), await freePort()];
    const file = join(p.directory, 'second.toml');
    writeFileSync(
      file,
      config
        .replace(`127.0.0.1:${target.plainPort}`, `127.0.0.1:${web}`)
        .replace(`127.0.0.1:${target.tlsPort}`, `127.0.0.1:${secure}`),
    );
    const { code, stderr } = turnpikeCommand(['serve', '--config', file], { timeoutMs: 15_000 });
    expect(code).toBe(1);
    expect(stderr).not.toMatch(/\n\s+at /);
    expect(await askOnce(target.plainPort)).toBe('1');
    expect((await p.status()).pid).toBe(p.pid);
    await p.stop();
  });
});
