// Reloads: nothing unrelated is disturbed, a bad file changes nothing and says why.
import { copyFileSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { LastingWebSocket } from '../support/generations.ts';
import { H2Connection } from '../support/h2-frames.ts';
import { freePort } from '../support/ports.ts';
import { askOnce, h2To, ProcessKit } from '../support/process-kit.ts';
import { RawClient } from '../support/raw-client.ts';
import { Recorder } from '../support/recorder.ts';
import { turnpikeCommand } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

const kit = new ProcessKit('Reload tests');

/** What an operator does to a file; each gives the next text. */
function edits(config: string, otherPort: number): ((round: number) => string)[] {
  return [
    (round) => `${config}[external_routes."more.test"]\nrespond = { status = 200, body = "more ${round}" }\n`,
    () => config,
    () => config,
    (round) =>
      `${config}[external_routes."still.test"]\nto = ["127.0.0.1:9"]\nresponse_headers = { set = { "X-Round" = "${round}" } }\n`,
    () => `${config}[entrypoints.extra]\naddress = "127.0.0.1:${otherPort}"\nprotocol = "http"\n`,
    () => `${config}nonsense = 1\n`,
    () => `${config}[external_routes."broken`,
    () => config.replace('access = false', 'access = true'),
    (round) => config.replace('[limits]', `[limits]\nkeep_alive_timeout = "${60 + round}s"`),
    () => `${config}[external_routes."*.test"]\nrespond = { status = 404 }\n`,
  ];
}

describe('100 reloads', () => {
  // caddyserver/caddy#7222, #5471, #6420: adding an app disconnected everyone on another one.
  it('leave 100 WebSockets, 20 event streams and idle connections alone', { timeout: 180_000 }, async () => {
    const events = await Recorder.start({ name: 'events' });
    const { p, config, target, first } = await kit.scene();
    const whole = `${config}[external_routes."events.test"]\nto = ["${events.address}"]\n`;
    expect((await p.reload(whole)).outcome).toBe('applied');
    events.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n');
    };
    const sockets = await Promise.all(
      Array.from({ length: 100 }, () => LastingWebSocket.open(target.plainPort, 'app.test')),
    );
    const streams = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const client = await RawClient.connect({ port: target.plainPort });
        client.write('GET /events HTTP/1.1\r\nHost: events.test\r\n\r\n');
        await client.waitForText(': hello');
        return client;
      }),
    );
    const idle = await Promise.all(
      Array.from({ length: 10 }, async () => {
        const client = await RawClient.connect({ port: target.plainPort });
        await client.ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
        return client;
      }),
    );
    const h2 = await Promise.all(Array.from({ length: 5 }, () => h2To(target)));
    const pids = await p.workerPids();
    const otherPort = await freePort();
    const outcomes = new Map<string, number>();
    for (let round = 0; round < 100; round++) {
      const texts = edits(whole, otherPort);
      const { outcome } = await p.reload(texts[round % texts.length]!(round));
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      if (round % 10 !== 9) continue;
      for (const socket of sockets) expect(await socket.ask()).toBe(1);
      for (const exchange of events.exchanges) exchange.send(`data: round-${round}\n\n`);
      for (const stream of streams) await stream.waitForText(`round-${round}`);
    }
    expect(outcomes.get('refused')).toBe(20);
    expect(outcomes.get('applied')).toBeGreaterThan(60);
    expect(await p.workerPids(), 'no worker was replaced').toEqual(pids);
    expect(sockets.filter((each) => !each.open).length, 'WebSockets that ended').toBe(0);
    expect(streams.filter((each) => each.ended).length, 'event streams that ended').toBe(0);
    expect(idle.filter((each) => each.ended).length, 'idle connections that ended').toBe(0);
    for (const client of idle) {
      expect((await client.ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n')).body.toString()).toBe('1');
    }
    for (const connection of h2) {
      expect(connection.goaway).toBeNull();
      const answer = await connection.open(H2Connection.request('GET', 'app.test', '/')).answer();
      expect(answer.body.toString()).toBe('1');
    }
    // Only app.test's own change ends what app.test has, by its own limits.
    const second = await kit.backend(2);
    const moved = whole
      .replace(first.address, second.address)
      .replace('[limits]', '[limits]\nstream_drain = "1s"\ndrain = "500ms"');
    expect((await p.reload(moved)).outcome).toBe('applied');
    expect(await askOnce(target.plainPort)).toBe('2');
    await until('the WebSockets of app.test to end', () => sockets.every((each) => !each.open), { timeoutMs: 12_000 });
    expect(new Set(sockets.map((each) => each.closeCode))).toEqual(new Set([1012]));
    expect(streams.filter((each) => each.ended).length, 'event streams of another host').toBe(0);
    for (const stream of streams) stream.destroy();
    await p.stop();
    await events.close();
  });
});

describe('a bad file', () => {
  const bad = (config: string): string =>
    `${config}nonsense = 1\n[external_routes."bad host"]\nto = ["127.0.0.1:99999"]\n[entrypoints.x]\nprotocol = "htp"\n`;

  it('at a reload: the old one keeps serving, the list is returned, status and a metric say so', async () => {
    const { p, config, target } = await kit.scene();
    const before = await p.status();
    const result = await p.reload(bad(config));
    expect(result.outcome).toBe('refused');
    expect(result.revision).toBe(before.revision);
    const keys = result.problems.map((problem) => problem.key).join(' ');
    for (const key of ['nonsense', 'bad host', 'protocol', 'address']) expect(keys).toContain(key);
    for (const problem of result.problems) {
      expect(problem.file).toContain('config.toml');
      expect(problem.line).toBeGreaterThan(0);
      expect(problem.message).not.toBe('');
    }
    expect(await askOnce(target.plainPort)).toBe('1');
    const status = await p.status();
    expect(status.lastReload?.outcome).toBe('refused');
    expect(status.lastReload?.problems.length).toBe(result.problems.length);
    expect(await p.metrics()).toMatch(/^turnpike_config_last_reload_successful 0$/m);
    expect(await p.metrics()).toMatch(/^turnpike_config_reloads_total\{outcome="refused"\} 1$/m);
    // By the command line: the same list, exit code 1.
    const command = turnpikeCommand(['reload', '--config', p.configFile]);
    expect(command.code).toBe(1);
    expect(command.stderr).toContain('nonsense');
    expect(command.stderr).toMatch(/config\.toml:\d+:\d+/);
    const screen = turnpikeCommand(['status', '--config', p.configFile]);
    expect(screen.code).toBe(0);
    expect(screen.stdout + screen.stderr).toContain('refused');
    expect((await p.reload(config)).outcome).toBe('unchanged');
    expect(await p.metrics()).toMatch(/^turnpike_config_last_reload_successful 1$/m);
    await p.stop();
  });

  it('at start: a clear list, exit code 1, nothing listens', async () => {
    const { p, config, target } = await kit.scene();
    await p.stop();
    const directory = mkdtempSync(join(tmpdir(), 'turnpike-bad-'));
    const file = join(directory, 'config.toml');
    writeFileSync(file, bad(config));
    for (const verb of ['serve', 'check']) {
      const { code, stdout, stderr } = turnpikeCommand([verb, '--config', file]);
      expect(code, verb).toBe(1);
      const text = stdout + stderr;
      for (const part of ['nonsense', 'bad host', 'htp', '99999']) expect(text, verb).toContain(part);
      expect(text.match(/config\.toml:\d+:\d+/g)!.length).toBeGreaterThanOrEqual(4);
      expect(text).not.toMatch(/\n\s+at /);
    }
    await expect(RawClient.connect({ port: target.plainPort })).rejects.toThrow(/ECONNREFUSED/);
    rmSync(directory, { recursive: true });
  });

  it('that asks for a port somebody else has: refused as a whole, at a reload and at start', async () => {
    const squatter = await Recorder.start();
    const { p, config, target } = await kit.scene();
    const clash = `${config}[entrypoints.taken]\naddress = "127.0.0.1:${squatter.port}"\nprotocol = "http"\n[external_routes."more.test"]\nrespond = { status = 200 }\n`;
    const result = await p.reload(clash);
    expect(result.outcome).toBe('refused');
    expect(JSON.stringify(result)).toContain('taken');
    expect(await askOnce(target.plainPort)).toBe('1');
    expect(await askOnce(target.plainPort, 'more.test')).toBe('status 404');
    await p.stop();
    const directory = mkdtempSync(join(tmpdir(), 'turnpike-bad-'));
    writeFileSync(join(directory, 'config.toml'), clash);
    const { code, stderr } = turnpikeCommand(['serve', '--config', join(directory, 'config.toml')]);
    expect(code).toBe(1);
    expect(stderr).toContain(String(squatter.port));
    rmSync(directory, { recursive: true });
    await squatter.close();
  });
});

describe('a reload', () => {
  it('happens by SIGHUP, and by itself when the file changes', async () => {
    const { p, config, target } = await kit.scene();
    const withMore = `${config}[external_routes."more.test"]\nrespond = { status = 200, body = "more" }\n`;
    writeFileSync(p.configFile, withMore);
    await until('the watcher', async () => (await askOnce(target.plainPort, 'more.test')) === 'more', { everyMs: 100 });
    // The same text with a new time is no change.
    const { revision } = await p.status();
    utimesSync(p.configFile, new Date(), new Date());
    await sleep(1000);
    expect((await p.status()).revision).toBe(revision);
    copyFileSync(p.configFile, `${p.configFile}.copy`);
    writeFileSync(p.configFile, withMore.replace('body = "more"', 'body = "hup"'));
    p.child.kill('SIGHUP');
    await until('the signal', async () => (await askOnce(target.plainPort, 'more.test')) === 'hup', { everyMs: 50 });
    await p.stop();
  });

  it('of state_dir, workers or runtime says that it needs a restart', async () => {
    const { p, config } = await kit.scene();
    const result = await p.reload(config.replace('workers = 2', 'workers = 3\nruntime = "none"'));
    expect(result.needsRestart).toEqual(['workers', 'runtime']);
    expect((await p.status()).workers.length).toBe(2);
    await p.stop();
  });

  it('adds and removes an entrypoint without touching the others', async () => {
    const { p, config, target } = await kit.scene();
    const port = await freePort();
    const kept = await RawClient.connect({ port: target.plainPort });
    await kept.ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
    await expect(RawClient.connect({ port })).rejects.toThrow(/ECONNREFUSED/);
    const more = `${config}[entrypoints.extra]\naddress = "127.0.0.1:${port}"\nprotocol = "http"\n`;
    expect((await p.reload(more)).outcome).toBe('applied');
    const extra = await RawClient.connect({ port });
    expect((await extra.ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n')).body.toString()).toBe('1');
    expect((await p.reload(config)).outcome).toBe('applied');
    await until('the port to be closed', () =>
      RawClient.connect({ port }).then(
        (client) => {
          client.destroy();
          return false;
        },
        () => true,
      ),
    );
    expect(kept.ended).toBe(false);
    expect((await kept.ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n')).body.toString()).toBe('1');
    await p.stop();
  });

  it('that narrows trusted_cidrs closes who does not belong any more, at once', async () => {
    const port = await freePort();
    const extra = (cidrs: string): string =>
      `[entrypoints.private]\naddress = "127.0.0.1:${port}"\nprotocol = "http"\ntrusted_cidrs = ${cidrs}\n`;
    const { p, config } = await kit.scene({ more: extra('["127.0.0.0/8"]') });
    const [inside, outside] = await Promise.all(
      ['127.0.0.5', '127.0.1.5'].map((localAddress) => RawClient.connect({ port, localAddress })),
    );
    for (const client of [inside!, outside!]) await client.ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
    await p.reload(config.replace('["127.0.0.0/8"]', '["127.0.0.0/24"]'));
    await outside!.waitForEnd(1000);
    expect(inside!.ended).toBe(false);
    expect((await inside!.ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n')).body.toString()).toBe('1');
    await p.stop();
  });
});
