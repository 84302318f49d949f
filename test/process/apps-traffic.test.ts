// Apps beside the configuration file: routes, listeners and names that they share, and what a reload makes of them.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { paths } from '../../src/control/api.ts';
import { appPaths } from '../../src/control/apps-api.ts';
import type { Explanation } from '../../src/control/explain/trace.ts';
import type { RouteRow } from '../../src/process/operations.ts';
import { AppKit } from '../support/app-kit.ts';
import { GenerationBackend } from '../support/generation-backend.ts';
import { LastingWebSocket } from '../support/generations.ts';
import { freePorts } from '../support/ports.ts';
import { askOnce } from '../support/process-kit.ts';
import { closeRawClients, RawClient } from '../support/raw-client.ts';
import { turnpikeCommand } from '../support/turnpike.ts';
import { until } from '../support/wait.ts';

let kit: AppKit;
const backends: GenerationBackend[] = [];
afterEach(async () => {
  closeRawClients();
  await kit.end();
  for (const backend of backends.splice(0)) backend.stop();
});

async function backend(number: number): Promise<GenerationBackend> {
  const started = await GenerationBackend.start(number);
  backends.push(started);
  return started;
}

const reason = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'it was done',
    (error: Error) => error.message,
  );

describe('an app whose processes somebody else runs', () => {
  it('is served at the addresses that its deploys name, also after a reload and a restart', {
    timeout: 60_000,
  }, async () => {
    const [one, two] = [await backend(1), await backend(2)];
    kit = await AppKit.start({ services: [], workers: 2 });
    await kit.apply('blog', kit.blog(1));
    expect(await reason(kit.deploy('blog'))).toContain('--backend web=HOST:PORT');
    expect((await kit.deploy('blog', [`web=${one.address}`])).report).toMatchObject({ outcome: 'done' });
    expect(await askOnce(kit.port, 'blog.test')).toBe('1');
    const socket = await LastingWebSocket.open(kit.port, 'blog.test');
    expect(await socket.ask()).toBe(1);
    // Nothing new is nothing to do; the file's own changes do not touch it.
    expect((await kit.deploy('blog')).report.services).toMatchObject([{ outcome: 'kept' }]);
    const reloaded = await kit.p.reload(`${kit.config}\n[external_routes."other.test"]\nto = ["${two.address}"]\n`);
    expect(reloaded).toMatchObject({
      outcome: 'applied',
      changes: { services: [{ kind: 'added', name: 'other.test' }] },
    });
    expect(await socket.ask()).toBe(1);
    expect((await kit.deploy('blog', [`web=${two.address}`])).report).toMatchObject({ outcome: 'done', clean: true });
    expect(await askOnce(kit.port, 'blog.test')).toBe('2');
    expect(await socket.ask()).toBe(1);
    socket.close();
    await kit.p.stop();
    await kit.startAgain();
    expect(await askOnce(kit.port, 'blog.test')).toBe('2');
    // The old one runs still: who goes back finds it.
    const back = await kit.verb('blog', 'rollback', { revision: 1, wait: false });
    expect(back.report).toMatchObject({ outcome: 'done', revision: 2 });
    await kit.p.stop();
  });

  it('gets no traffic at a backend that flaps, and keeps the old one', { timeout: 60_000 }, async () => {
    // basecamp/kamal-proxy#71, basecamp/kamal#1041: one lucky answer among failures is not readiness.
    const one = await backend(1);
    const flapping = await import('node:http').then(({ createServer }) => {
      let asked = 0;
      const server = createServer((_request, response) => {
        response.statusCode = [502, 502, 200, 500, 200, 500][asked++] ?? 200;
        response.end('2');
      });
      return new Promise<import('node:http').Server>((resolve) => {
        server.listen(0, '127.0.0.1', () => resolve(server));
      });
    });
    const address = `127.0.0.1:${(flapping.address() as { port: number }).port}`;
    kit = await AppKit.start({ services: [], workers: 1 });
    const probe = (timeout: string, consecutive: number): string =>
      kit.blog(
        timeout,
        `[services.web.readiness]\ntype = "http"\npath = "/"\ntimeout = "${timeout}"\nconsecutive = ${consecutive}\n`,
      );
    await kit.apply('blog', kit.blog(1));
    await kit.deploy('blog', [`web=${one.address}`]);
    await kit.apply('blog', probe('1s', 3));
    const never = await kit.deploy('blog', [`web=${address}`]);
    expect(never.report).toMatchObject({ outcome: 'failed', fault: { code: 'deploy-failed' } });
    expect(await askOnce(kit.port, 'blog.test')).toBe('1');
    await kit.apply('blog', probe('30s', 3));
    expect((await kit.deploy('blog', [`web=${address}`])).report).toMatchObject({ outcome: 'done' });
    expect(await askOnce(kit.port, 'blog.test')).toBe('2');
    flapping.close();
    await kit.p.stop();
  });
});

describe('names and listeners', () => {
  it('have one owner: file and apps are refused what the other one has, and both are named', {
    timeout: 60_000,
  }, async () => {
    const [one, two] = [await backend(1), await backend(2)];
    kit = await AppKit.start({
      services: [],
      workers: 1,
      more: `[external_routes."taken.test"]\nto = ["${two.address}"]\n`,
    });
    const rival = kit.blog(1).replace('blog.test', 'taken.test');
    expect(await reason(kit.apply('blog', rival))).toMatch(
      /host taken\.test belongs to the configuration \(config\.toml:\d+ external_routes\."taken\.test"\); app blog wants it too \(blog\.toml:8 services\.web\.http\[0\]\.host\)/,
    );
    expect(await kit.list()).toEqual([]);
    await kit.apply('blog', kit.blog(1));
    await kit.deploy('blog', [`web=${one.address}`]);
    const refused = await kit.p.reload(`${kit.config}\n[external_routes."blog.test"]\nto = ["${two.address}"]\n`);
    expect(refused).toMatchObject({ outcome: 'refused', fault: { code: 'reservation-conflict' } });
    expect(refused.fault?.message).toMatch(
      /host blog\.test belongs to the configuration .*app blog wants it too \(blog\.toml:8/,
    );
    expect(await askOnce(kit.port, 'blog.test')).toBe('1');
    expect(await reason(kit.p.switchService('blog/web', [two.address]))).toContain('apps deploy blog --backend web=');
    // What the operator is shown says whose it is.
    const rows = await kit.p.control.get<readonly RouteRow[]>(paths.routes);
    expect(rows.find(({ host }) => host === 'blog.test')).toMatchObject({
      service: 'blog/web',
      origin: 'blog.toml:8 services.web.http[0].host',
    });
    const explained = await kit.p.control.post<Explanation>(paths.explain, {
      url: `http://blog.test:${kit.port}/`,
      method: 'GET',
      from: null,
      sni: null,
      entrypoint: null,
    });
    expect(JSON.stringify(explained)).toContain('blog.toml:8');
    await kit.p.service('blog/web', 'stop');
    expect(await askOnce(kit.port, 'blog.test')).toBe('status 503');
    await kit.p.service('blog/web', 'start');
    expect(await askOnce(kit.port, 'blog.test')).toBe('1');
    await kit.verb('blog', 'remove', {});
    expect(await askOnce(kit.port, 'blog.test')).toBe('status 404');
    expect(
      (await kit.p.reload(`${kit.config}\n[external_routes."blog.test"]\nto = ["${two.address}"]\n`)).outcome,
    ).toBe('applied');
    expect(await askOnce(kit.port, 'blog.test')).toBe('2');
    await kit.p.stop();
  });

  it('TCP and UDP interfaces are served on entrypoints, which a reload may not take away', {
    timeout: 60_000,
  }, async () => {
    const one = await backend(1);
    const [tcp] = (await freePorts(1)) as [number];
    const more = `[entrypoints.git]\naddress = "127.0.0.1:${tcp}"\nprotocol = "tcp"\n`;
    kit = await AppKit.start({ services: [], workers: 2, more });
    const text = (publish: string): string => `name = "forge"
[services.git]
image = "docker.io/library/git:1"
[[services.git.tcp]]
entrypoint = "git"
port = 22
publish = "${publish}"
`;
    const wrong = await kit.apply('forge', text(`0.0.0.0:${tcp}`));
    expect(wrong.applied).toBeNull();
    expect((await kit.apply('forge', text(`127.0.0.1:${tcp}`))).applied).toMatchObject({ outcome: 'stored' });
    expect((await kit.deploy('forge', [`git=${one.address}`])).report).toMatchObject({ outcome: 'done' });
    const client = await RawClient.connect({ port: tcp });
    expect((await client.ask('GET / HTTP/1.1\r\nHost: any\r\n\r\n')).body.toString()).toBe('1');
    const rival = await reason(kit.apply('other', text(`127.0.0.1:${tcp}`).replace('forge', 'other')));
    expect(rival).toMatch(/tcp 127\.0\.0\.1:\d+ belongs to app forge/);
    const gone = await kit.p.reload(kit.config.replace(more, ''));
    expect(gone.fault?.message).toContain('forge/git is reached by tcp on git, and there is no entrypoint git');
    expect((await client.ask('GET / HTTP/1.1\r\nHost: any\r\n\r\n')).body.toString()).toBe('1');
    client.destroy();
    await kit.p.stop();
  });
});

describe('a shutdown in the middle of a deploy', () => {
  it('ends in order; the deploy is undone by the next start, and its process with it', {
    timeout: 60_000,
  }, async () => {
    kit = await AppKit.start({ services: ['blog/web'], workers: 1 });
    await kit.serve('blog', kit.blog(1));
    await kit.apply('blog', kit.blog(2, '[services.web.env]\nMANNER = "never-listens"\n'));
    const answer = reason(kit.deploy('blog'));
    await until('the new one to be started', () => kit.alive('blog/web').length === 2, { timeoutMs: 10_000 });
    await kit.p.stop();
    expect(await answer).not.toBe('it was done');
    expect(kit.alive('blog/web').length, 'processes outlive a restart').toBe(2);
    await kit.startAgain();
    await until('only one to be left', () => kit.alive('blog/web').length === 1, { timeoutMs: 15_000 });
    expect(await askOnce(kit.port, 'blog.test')).toBe('1');
    const latest = await until('the journal to be settled', async () => {
      const [deploy] = (await kit.status('blog')).deploys;
      return deploy?.endedAt == null ? null : deploy;
    });
    expect(latest).toMatchObject({ revision: 2, outcome: 'undone' });
    await kit.p.stop();
  });
});

describe('a watched directory', () => {
  it('applies and deploys what changes in it; problems and vanished files change nothing', {
    timeout: 60_000,
  }, async () => {
    kit = await AppKit.start({ services: ['blog/web'], workers: 1 });
    const directory = join(kit.directory, 'apps');
    mkdirSync(directory);
    const file = join(directory, 'blog.toml');
    await kit.p.reload(`${kit.config}\n[apps]\ndirectory = "apps"\nwatch = true\ndeploy = "auto"\n`);
    writeFileSync(file, kit.blog(1));
    await until('revision 1 to be served', async () => (await askOnce(kit.port, 'blog.test')) === '1', {
      timeoutMs: 20_000,
    });
    writeFileSync(file, kit.blog(2));
    await until('revision 2 to be served', async () => (await askOnce(kit.port, 'blog.test')) === '2', {
      timeoutMs: 20_000,
    });
    expect(await reason(kit.apply('blog', kit.blog(3)))).toContain('is applied from');
    writeFileSync(file, kit.blog(3).replace('port = 3000', 'port = 0'));
    const trouble = async (): Promise<string | null> => (await kit.status('blog')).manifestTrouble;
    await until('the problem to be told', async () => (await trouble())?.includes('port'), { timeoutMs: 20_000 });
    rmSync(file);
    await until('the loss to be told', async () => (await trouble())?.includes('is gone'), { timeoutMs: 20_000 });
    expect(await askOnce(kit.port, 'blog.test')).toBe('2');
    await kit.p.stop();
  });
});

describe('the command line', () => {
  it('tells a deploy from its first step to its report, by exit code too', { timeout: 60_000 }, async () => {
    kit = await AppKit.start({ services: ['blog/web'], workers: 1 });
    const file = join(kit.directory, 'blog.toml');
    const command = (...args: string[]) => turnpikeCommand(['apps', ...args, '--config', kit.p.configFile]);
    writeFileSync(file, kit.blog(1));
    const applied = command('apply', '--file', file, '--deploy');
    expect(applied.stdout).toContain('blog revision 1: deploy done');
    expect(applied.stderr).toContain('web: switched: every new request goes to the new one');
    expect(applied.code).toBe(0);
    writeFileSync(file, kit.blog(2, '[services.web.env]\nMANNER = "ends"\n'));
    const failed = command('apply', '--file', file, '--deploy');
    expect(failed.code).toBe(1);
    expect(failed.stdout).toContain('The old generation serves on, untouched.');
    expect(command('status', 'blog').stdout).toMatch(/web\s+serving\s+1\s+127\.0\.0\.1:\d+/);
    expect(command('diff', 'blog').stdout).toBe('env/VERSION\nservice/web/env/MANNER\n');
    expect(command('deploy', 'nobody').stderr).toContain('turnpike apps list');
    await kit.p.stop();
  });
});

describe('1000 apps', () => {
  it('are applied in seconds, and a deploy of one touches no other', { timeout: 120_000 }, async () => {
    const one = await backend(1);
    const [first, second] = [await backend(11), await backend(12)];
    kit = await AppKit.start({
      services: [],
      workers: 2,
      more: `[external_routes."still.test"]\nto = ["${one.address}"]\n`,
    });
    const begun = performance.now();
    for (let i = 0; i < 1000; i++) {
      const { applied } = await kit.apply(`app-${i}`, kit.blog(1, '', `app-${i}`));
      expect(applied?.outcome).toBe('stored');
    }
    const seconds = (performance.now() - begun) / 1000;
    console.log(`1000 apps applied in ${seconds.toFixed(1)} s`);
    expect(seconds).toBeLessThan(60);
    expect((await kit.p.control.get<readonly unknown[]>(appPaths.list)).length).toBe(1000);
    await kit.deploy('app-1', [`web=${first.address}`]);
    const others = await Promise.all(['still.test', 'app-1.test'].map((host) => LastingWebSocket.open(kit.port, host)));
    const before = await kit.p.status();
    const deployBegun = performance.now();
    expect((await kit.deploy('app-500', [`web=${second.address}`])).report).toMatchObject({ outcome: 'done' });
    console.log(`one of them deployed in ${Math.round(performance.now() - deployBegun)} ms`);
    const after = await kit.p.status();
    expect(after.services.filter(({ name }) => name !== 'app-500/web')).toEqual(before.services);
    expect(await Promise.all(others.map((socket) => socket.ask()))).toEqual([1, 11]);
    expect(await askOnce(kit.port, 'app-500.test')).toBe('12');
    for (const socket of others) socket.close();
    await kit.p.stop();
  });
});
