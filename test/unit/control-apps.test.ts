// `turnpike apps …` against operations that answer from memory: what is asked of them, what is printed, exit codes.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Fault } from '../../src/base/fault.ts';
import { silentLog } from '../../src/base/log.ts';
import { createControlHandler } from '../../src/control/server.ts';
import { checkUpstream } from '../../src/control/upstream-check.ts';
import type { AppOperations, UpstreamRow } from '../../src/process/apps-operations.ts';
import { run } from '../support/command.ts';
import { cleanDeploy, fakeAppOperations, replacedWeb } from '../support/fake-app-operations.ts';
import { fakeOperations } from '../support/fake-operations.ts';

let directory: string;
let server: Server | null = null;
/** What the operations were asked. */
let asked: unknown[] = [];

beforeEach(() => {
  asked = [];
  directory = mkdtempSync(join(tmpdir(), 'turnpike-apps-cmd-'));
  mkdirSync(join(directory, '.turnpike'));
  writeFileSync(join(directory, 'config.toml'), 'workers = 1\n');
});
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((done) => server?.close(done) ?? done(null));
  server = null;
  rmSync(directory, { recursive: true });
});

async function serve(over: Partial<AppOperations> = {}): Promise<void> {
  const operations = fakeOperations({ apps: fakeAppOperations(over) });
  const listening = createServer(createControlHandler(operations, silentLog));
  server = listening;
  await new Promise<void>((done) => listening.listen(join(directory, '.turnpike/turnpike.sock'), done));
}

const apps = (...argv: string[]) => run(['apps', ...argv], directory);

describe('apply', () => {
  it('sends the path, and prints what changes by name', async () => {
    await serve({
      apply: async (request) => {
        asked.push(request);
        return fakeAppOperations().apply(request);
      },
    });
    const { code, out } = await apps('apply', '--file', 'blog.toml');
    expect(code).toBe(0);
    expect(out).toContain('  env/GREETING\n');
    expect(out).toContain('Serve it with:  turnpike apps deploy blog');
    expect(asked).toEqual([{ path: join(directory, 'blog.toml'), shown: 'blog.toml', dryRun: false }]);
  });

  it('prints every problem and exits with 1', async () => {
    const problem = {
      file: 'blog.toml',
      line: 3,
      column: 1,
      key: 'services.web.image',
      message: 'is missing',
      accepted: '',
    };
    await serve({ apply: async () => ({ applied: null, problems: [problem], warnings: [] }) });
    const { code, out, err } = await apps('apply', '--file', 'blog.toml');
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain('blog.toml:3:1: services.web.image: is missing');
  });

  it('with --deploy deploys exactly the revision that was stored', async () => {
    await serve({
      deploy: async (order) => {
        asked.push(order);
        return cleanDeploy;
      },
    });
    expect((await apps('apply', '--file', 'blog.toml', '--deploy')).code).toBe(0);
    expect(asked).toEqual([{ app: 'blog', revision: 3, service: null, backends: [], wait: false }]);
    expect((await apps('apply', '--file', 'blog.toml', '--deploy', '--dry-run')).code).toBe(2);
  });
});

describe('deploy', () => {
  it('tells its steps, then the report of each service', async () => {
    await serve({
      deploy: async (order, progress) => {
        asked.push(order);
        progress({ app: 'blog', service: 'web', step: 'starting', elapsedMs: 1, detail: null });
        progress({ app: 'blog', service: 'web', step: 'done', elapsedMs: 2, detail: null });
        return cleanDeploy;
      },
    });
    const { code, out, err } = await apps(
      'deploy',
      'blog',
      '--service',
      'web',
      '--backend',
      'web=127.0.0.1:3002',
      '--wait',
    );
    expect(code).toBe(0);
    expect(err).toBe('web: the new one is started\nweb: switched: every new request goes to the new one\n');
    expect(out).toContain('web: 127.0.0.1:3001 → 127.0.0.1:3002, overlapping, after 763 ms');
    expect(out).toContain('37 in flight, 12 held for at most 2 ms');
    expect(asked).toEqual([
      { app: 'blog', revision: null, service: 'web', backends: ['web=127.0.0.1:3002'], wait: true },
    ]);
  });

  it('exits with 1 when it failed or lost something, and says what serves', async () => {
    const detail = 'web is not ready: refused\nThe old generation serves on, untouched.';
    const failed = {
      ...cleanDeploy,
      outcome: 'failed',
      clean: false,
      fault: { code: 'deploy-failed', detail },
    } as const;
    await serve({ deploy: async () => ({ ...failed, services: [{ ...replacedWeb, outcome: 'failed', detail }] }) });
    const { code, out } = await apps('deploy', 'blog');
    expect(code).toBe(1);
    expect(out).toContain('    The old generation serves on, untouched.');
    const json = JSON.parse((await apps('deploy', 'blog', '--json')).out) as typeof cleanDeploy;
    expect(json.fault?.code).toBe('deploy-failed');
  });

  it('that was superseded is an error that says what to do', async () => {
    await serve({
      deploy: async (_order, progress) => {
        progress({ app: 'blog', service: '', step: 'waiting', elapsedMs: 1, detail: null });
        throw new Fault('deploy-superseded', 'superseded by a later rollback of blog');
      },
    });
    const { code, err } = await apps('deploy', 'blog');
    expect(code).toBe(1);
    expect(err).toContain('superseded by a later rollback of blog (deploy-superseded)');
    expect(err).toContain('turnpike apps status');
  });

  it.each([
    ['--backend', 'web'],
    ['--backend', 'web=127.0.0.1'],
    ['--backend', 'web:x=127.0.0.1:1'],
  ])('%s %s is wrong usage', async (...wrong) => {
    await serve();
    const { code, err } = await apps('deploy', 'blog', ...wrong);
    expect(code).toBe(2);
    expect(err).toContain('SERVICE=HOST:PORT');
  });

  it('of an app that is not there says how to see what is', async () => {
    await serve({ deploy: async () => Promise.reject(new Fault('unknown-app', 'no app is named nobody')) });
    const { code, err } = await apps('deploy', 'nobody');
    expect(code).toBe(1);
    expect(err).toContain('turnpike apps list');
  });
});

describe('rollback, restart, remove', () => {
  it('ask for what they say', async () => {
    await serve({
      rollback: async (order) => {
        asked.push(order);
        return { ...cleanDeploy, kind: 'rollback' };
      },
      restart: async (order) => {
        asked.push(order);
        return { ...cleanDeploy, kind: 'restart' };
      },
      remove: async (app) => {
        asked.push(app);
        return { ...cleanDeploy, kind: 'remove', services: [] };
      },
    });
    for (const argv of [
      ['rollback', 'blog'],
      ['rollback', 'blog', '2'],
      ['restart', 'blog', '--service', 'web'],
      ['remove', 'blog'],
    ]) {
      expect((await apps(...argv)).code, argv.join(' ')).toBe(0);
    }
    expect(asked).toEqual([
      { app: 'blog', revision: null, wait: false },
      { app: 'blog', revision: 2, wait: false },
      { app: 'blog', service: 'web', wait: false },
      'blog',
    ]);
    expect((await apps('rollback', 'blog', 'two')).code).toBe(2);
  });
});

describe('questions', () => {
  it('list, status and diff are tables for people and the same facts as JSON', async () => {
    await serve();
    expect((await apps('list')).out).toMatch(/blog +active +3 +3 +1 +blog\.test +blog\.toml/);
    expect((await apps('status', 'blog')).out).toMatch(/web +serving +3 +127\.0\.0\.1:3002/);
    expect((await apps('diff', 'blog', '2', '3')).out).toBe('env/GREETING\n');
    expect(JSON.parse((await apps('diff', 'blog', '2', '3', '--json')).out)).toMatchObject({ from: 2, to: 3 });
    expect((await apps('diff', 'blog', 'x')).code).toBe(2);
  });

  it('an app without a source is UNTRACKED, never skipped', async () => {
    await serve();
    const { code, out } = await apps('upstream');
    expect(code).toBe(0);
    expect(out).toMatch(/blog +- +UNTRACKED/);
  });

  it('leftovers are given up only with --yes', async () => {
    await serve({ prune: async (app) => [{ app, incarnation: 'i', removedAt: 0, leftovers: ['volume data'] }] });
    expect((await apps('leftovers', 'prune', 'blog')).code).toBe(2);
    expect((await apps('leftovers', 'prune', 'blog', '--yes')).out).toBe('blog: volume data given up\n');
  });
});

describe('the check of sources', () => {
  const row = (over: Partial<UpstreamRow>): UpstreamRow => ({
    app: 'blog',
    version: '1.4.2',
    images: [],
    upstream: null,
    ...over,
  });
  const github = { kind: 'github', repo: 'example/blog', url: null } as const;
  const releases =
    (...tags: string[]) =>
    async (url: string) =>
      url.includes('/releases') ? tags.map((tag) => ({ tag_name: tag, prerelease: tag.includes('-') })) : [];

  it.each([
    ['behind', row({ upstream: github }), releases('v1.5.0', 'v1.4.2')],
    ['current', row({ upstream: github }), releases('v1.4.2', 'v2.0.0-rc.1')],
    ['untracked', row({}), releases()],
    ['internal', row({ upstream: { kind: 'internal', repo: null, url: null } }), releases()],
    ['unknown', row({ upstream: github }), releases()],
    ['unknown', row({ upstream: github }), async () => Promise.reject(new Error('api.github.com answered 403'))],
  ])('says %s', async (verdict, upstream, fetchJson) => {
    expect((await checkUpstream(upstream, fetchJson)).verdict).toBe(verdict);
  });

  it('looks at the tags of a project without releases, and of Docker Hub', async () => {
    const tags = async (url: string): Promise<unknown> =>
      url.includes('/tags?per_page')
        ? [{ name: 'v1.9' }]
        : url.includes('hub.docker')
          ? { results: [{ name: '17' }] }
          : [];
    expect(await checkUpstream(row({ upstream: github }), tags)).toMatchObject({ verdict: 'behind', newest: 'v1.9' });
    const hub = { kind: 'dockerhub', repo: 'library/postgres', url: null } as const;
    expect(await checkUpstream(row({ upstream: hub, version: '17' }), tags)).toMatchObject({ verdict: 'current' });
  });
});

describe('secrets', () => {
  it('are listed by name, with where they are found and whether they are set', async () => {
    await serve({
      secrets: {
        ...fakeAppOperations().secrets,
        list: async () => [
          { service: 'web', name: 'key', env: 'API_KEY', delivery: 'env', isSet: false },
          { service: 'web', name: 'pass', env: 'DB_PASS', delivery: 'file', isSet: true },
          { service: 'web', name: 'old', env: null, delivery: null, isSet: true },
        ],
      },
    });
    const { code, out } = await apps('secrets', 'list', 'blog');
    expect(code).toBe(0);
    expect(out).toMatch(/web +key +API_KEY +not set\n/);
    expect(out).toMatch(/web +pass +\/run\/secrets\/DB_PASS +set\n/);
    expect(out).toMatch(/web +old +- +not used any more\n/);
  });

  it('are removed by name; a refusal is told with exit code 1', async () => {
    await serve({
      secrets: {
        ...fakeAppOperations().secrets,
        remove: async (app, service, name) => {
          asked.push([app, service, name]);
          if (name === 'none') throw new Fault('secret-refused', 'blog/web has no value for none');
        },
      },
    });
    expect(await apps('secrets', 'remove', 'blog', 'web', 'key')).toMatchObject({
      code: 0,
      out: 'blog/web: key is forgotten.\n',
    });
    const { code, err } = await apps('secrets', 'remove', 'blog', 'web', 'none');
    expect([code, err]).toEqual([1, expect.stringContaining('has no value for none')]);
    expect(asked).toEqual([
      ['blog', 'web', 'key'],
      ['blog', 'web', 'none'],
    ]);
  });

  it('cannot be given as an argument', async () => {
    await serve();
    const { code, err } = await apps('secrets', 'set', 'blog', 'web', 'key', 'value');
    expect(code).toBe(2);
    expect(err).toContain('too many arguments');
  });
});

describe('logs', () => {
  it('are what was written, or an object a line, across the parts in which they come', async () => {
    await serve({
      logs: async function* (order) {
        asked.push(order);
        yield Buffer.from('one\ntw');
        yield Buffer.from('o \u00e9\n').subarray(0, 3);
        yield Buffer.from('o \u00e9\n').subarray(3);
      },
    });
    expect(await apps('logs', 'blog')).toEqual({ code: 0, out: 'one\ntwo \u00e9\n', err: '' });
    const { out } = await apps('logs', 'blog', '--service', 'web', '-f', '--json');
    expect(out).toBe('{"line":"one"}\n{"line":"two \u00e9"}\n');
    expect(asked).toEqual([
      { app: 'blog', service: null, follow: false },
      { app: 'blog', service: 'web', follow: true },
    ]);
  });

  it('that cannot be had are an error, and nothing else', async () => {
    await serve({
      logs: () => {
        throw new Fault('unknown-app', 'blog has several services: name one by --service (db, web)');
      },
    });
    const { code, out, err } = await apps('logs', 'blog');
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain('name one by --service (db, web)');
  });
});
