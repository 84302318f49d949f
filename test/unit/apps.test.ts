// Apps over a world of processes and traffic in memory: order, concurrency, and a kill between any two steps.
import { describe, expect, test } from 'vitest';
import type { Apps } from '../../src/apps/apps.ts';
import type { DeployReport } from '../../src/apps/reports.ts';
import type { Revision } from '../../src/apps/state.ts';
import type { Fault } from '../../src/base/fault.ts';
import type { App } from '../../src/manifest/app.ts';
import { AppWorld, app, manifest, volume, webService } from '../support/apps.ts';
import { HandClock, settle } from '../support/hand-clock.ts';
import { entrypoint, routing } from '../support/routing.ts';

const quiet = (): void => {};
const env = (value: string) => [{ name: 'GREETING', value }];

/** `blog` with one service, whose environment tells its versions apart. */
const blog = (version: string, over: Parameters<typeof webService>[2] = {}): App =>
  app('blog', [webService('web', 'blog.test', { env: env(version), ...over })]);

function deploy(apps: Apps, over: Partial<Parameters<Apps['deploy']>[0]> = {}): Promise<DeployReport> {
  const request = { app: 'blog', kind: 'deploy', revision: null, only: null, given: new Map(), wait: false } as const;
  return apps.deploy({ ...request, ...over }, quiet);
}

/** `blog`, which runs outside and has a port for the gate. */
const outside = (title: string): App =>
  app('blog', [], {
    external: true,
    display: { title, version: null, description: null, upstream: null, launch: [], extensions: {} },
    ports: [
      {
        host: 3000,
        container: 3000,
        protocol: 'tcp',
        binds: ['127.0.0.1'],
        auth: 'local',
        rationale: null,
        sessionPassthrough: false,
      },
    ],
  });

async function end<T>(world: AppWorld, promise: Promise<T>): Promise<T> {
  let over = false;
  const watched = promise.finally(() => {
    over = true;
  });
  watched.catch(() => {});
  for (let i = 0; i < 400 && !over; i++) {
    await settle();
    world.clock.advance(250);
  }
  await settle();
  return watched;
}

async function deployed(first: App = blog('one')): Promise<{ world: AppWorld; apps: Apps }> {
  const world = new AppWorld(new HandClock());
  const apps = world.supervisor();
  apps.apply(manifest(first), false);
  expect((await end(world, deploy(apps))).outcome).toBe('done');
  world.events.length = 0;
  return { world, apps };
}

const code = async (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'done',
    (error: Fault) => error.code,
  );

describe('apply', () => {
  test('the same manifest again changes nothing, and a dry run stores nothing', () => {
    const world = new AppWorld(new HandClock());
    const apps = world.supervisor();
    expect(apps.apply(manifest(blog('one')), true)).toMatchObject({ outcome: 'dry-run', revision: 1, isNew: true });
    expect(world.rows.incarnations).toEqual([]);
    expect(apps.apply(manifest(blog('one')), false)).toMatchObject({ outcome: 'stored', revision: 1 });
    expect(apps.apply(manifest(blog('one')), false)).toMatchObject({ outcome: 'unchanged', revision: 1, diff: [] });
    const second = apps.apply(manifest(blog('two')), false);
    expect(second).toMatchObject({ outcome: 'stored', revision: 2, diff: ['service/web/env/GREETING'] });
    expect(world.served).toEqual({});
  });

  test('a watched manifest that did not change does not undo a rollback, one that did is stored', async () => {
    const { world, apps } = await deployed();
    const watched = (version: string) => ({ ...manifest(blog(version)), watched: true });
    apps.apply(watched('two'), false);
    await end(world, deploy(apps));
    await end(world, apps.rollback('blog', 1, false, quiet));
    expect(apps.apply(watched('two'), false)).toMatchObject({ outcome: 'unchanged', revision: 3, diff: [] });
    expect(apps.apply(manifest(blog('two')), true).outcome).toBe('dry-run');
    expect(apps.apply(watched('three'), false)).toMatchObject({ outcome: 'stored', revision: 4 });
    expect(apps.apply(watched('two'), false)).toMatchObject({ outcome: 'stored', revision: 5 });
    world.settings = { autoRollback: false, history: 2 };
    for (let i = 0; i < 3; i++) {
      await end(world, apps.rollback('blog', apps.book.app('blog')?.active ?? 0, false, quiet));
    }
    expect(apps.book.revisions(apps.book.app('blog')!.id).map(({ number }) => number)).toEqual([3, 5, 7, 8]);
    expect(apps.apply(watched('two'), false).outcome).toBe('unchanged');
  });

  test('a host of another app is refused with both owners, and nothing is stored', async () => {
    const { world, apps } = await deployed();
    const rival = app('shop', [webService('web', 'blog.test')]);
    expect(() => apps.apply(manifest(rival), false)).toThrow(
      'host blog.test belongs to app blog (blog.toml services.web.http "blog.test"); app shop wants it too (shop.toml services.web.http "blog.test")',
    );
    expect(world.rows.incarnations.map(({ name }) => name)).toEqual(['blog']);
  });

  test('a host stays reserved until nothing serves it any more', async () => {
    const { world, apps } = await deployed();
    apps.apply(manifest(app('blog', [webService('web', 'other.test')])), false);
    const rival = manifest(app('shop', [webService('web', 'blog.test')]));
    expect(() => apps.apply(rival, false)).toThrow('belongs to app blog');
    await end(world, deploy(apps));
    expect(apps.apply(rival, false).outcome).toBe('stored');
  });

  test('history is kept to its length, and what serves is never forgotten', async () => {
    const { world, apps } = await deployed();
    world.settings = { autoRollback: false, history: 3 };
    for (let i = 0; i < 6; i++) apps.apply(manifest(blog(`later ${i}`)), false);
    expect(world.rows.revisions.map(({ number }) => number)).toEqual([1, 5, 6, 7]);
  });
});

describe('a deploy', () => {
  test('starts, probes and switches before it stops the old one', async () => {
    const { world, apps } = await deployed();
    apps.apply(manifest(blog('two')), false);
    const report = await end(world, deploy(apps));
    expect(report).toMatchObject({
      outcome: 'done',
      clean: true,
      services: [{ outcome: 'replaced', mode: 'overlap' }],
    });
    expect(world.events).toEqual(['start web#2', 'serve blog/web=web#2', 'term web#1', 'gone web#1']);
  });

  test('withdraws, stops, and only then starts, when either generation writes alone', async () => {
    for (const [from, to] of [
      [{ volumes: [volume] }, {}],
      [{}, { volumes: [volume] }],
      [{ volumes: [volume] }, { volumes: [volume] }],
    ]) {
      const { world, apps } = await deployed(blog('one', from));
      apps.apply(manifest(blog('two', to)), false);
      await end(world, deploy(apps));
      expect(world.events).toEqual([
        'hold blog/web',
        'term web#1',
        'gone web#1',
        'start web#2',
        'serve blog/web=web#2',
      ]);
    }
  });

  test('keeps what did not change, and goes in sorted order to the first failure', async () => {
    const three = (version: string, b = version) =>
      app('blog', [
        webService('c', 'c.test', { env: env(version) }),
        webService('b', 'b.test', { env: env(b) }),
        webService('a', 'a.test', { env: env('same') }),
      ]);
    const { world, apps } = await deployed(three('one'));
    world.unready.add(2);
    apps.apply(manifest(three('two')), false);
    const report = await end(world, deploy(apps));
    expect(report.services.map(({ service, outcome }) => `${service} ${outcome}`)).toEqual(['a kept', 'b failed']);
    expect(world.processes()).toEqual(['a#1', 'b#1', 'c#1']);
    expect(report.fault?.detail).toContain('"ready" did not appear in its output');
    expect(report.fault?.detail).toContain('it boots');
    expect(report.fault?.detail).toContain('The old generation serves on, untouched.');
  });

  test('that withdraws a service frees its host for another one of the same revision', async () => {
    const { world, apps } = await deployed(app('blog', [webService('web', 'blog.test')]));
    apps.apply(manifest(app('blog', [webService('api', 'blog.test')])), false);
    await end(world, deploy(apps));
    expect(world.served).toEqual({ 'blog/api': 'api#2' });
    expect(world.processes()).toEqual(['api#2']);
  });

  test('a failed withdrawal blocks the stop', async () => {
    const { world, apps } = await deployed(blog('one', { volumes: [volume] }));
    apps.apply(manifest(blog('two', { volumes: [volume] })), false);
    world.failMoves.add(world.countMoves() + 1);
    const report = await end(world, deploy(apps));
    expect(report).toMatchObject({ outcome: 'failed', fault: { code: 'publish-refused' } });
    expect(world.events).toEqual([]);
    expect(world.served).toEqual({ 'blog/web': 'web#1' });
  });

  test('what cannot be stopped serves on, and nothing is started beside it', async () => {
    const { world, apps } = await deployed(blog('one', { volumes: [volume] }));
    apps.apply(manifest(blog('two', { volumes: [volume] })), false);
    for (const { address } of world.alive.values()) world.unstoppable.add(address);
    const report = await end(world, deploy(apps));
    expect(report).toMatchObject({ outcome: 'failed', fault: { code: 'stop-failed' } });
    expect(world.events).not.toContain('start web#2');
    expect(world.served).toEqual({ 'blog/web': 'web#1' });
  });

  test('sequential: when the new one is not ready, the old revision is started again', async () => {
    const { world, apps } = await deployed(blog('one', { volumes: [volume] }));
    apps.apply(manifest(blog('two', { volumes: [volume] })), false);
    world.unready.add(2);
    const report = await end(world, deploy(apps));
    expect(report.outcome).toBe('failed');
    expect(report.fault?.detail).toContain('The old revision serves.');
    expect(world.served).toEqual({ 'blog/web': 'web#1' });
    expect(world.processes()).toEqual(['web#1']);
  });

  test('sequential: when nothing can be started, nobody is left waiting', async () => {
    const { world, apps } = await deployed(blog('one', { volumes: [volume] }));
    apps.apply(manifest(blog('two', { volumes: [volume] })), false);
    world.unready.add(1).add(2);
    const report = await end(world, deploy(apps));
    expect(report.fault?.detail).toContain('web is down');
    expect(world.served).toEqual({ 'blog/web': 'nothing' });
    expect(world.processes()).toEqual([]);
  });

  test('of one service is refused while the environment of the whole app has changed', async () => {
    const { apps } = await deployed();
    apps.apply(manifest({ ...blog('one'), env: env('for all') }), false);
    expect(await code(deploy(apps, { only: 'web' }))).toBe('deploy-refused');
  });

  test('of one service leaves the others, and the active revision, as they were', async () => {
    const two = (version: string) =>
      app('blog', [webService('a', 'a.test', { env: env(version) }), webService('b', 'b.test', { env: env(version) })]);
    const { world, apps } = await deployed(two('one'));
    apps.apply(manifest(two('two')), false);
    await end(world, deploy(apps, { only: 'b' }));
    expect(world.served).toEqual({ 'blog/a': 'a#1', 'blog/b': 'b#2' });
    expect(apps.activeApps().map(({ revision }) => revision)).toEqual([1]);
    await end(world, deploy(apps, { only: 'a' }));
    expect(apps.activeApps().map(({ revision }) => revision)).toEqual([2]);
  });

  test('of an app that runs outside makes it active, and moves nothing', async () => {
    const { world, apps } = await deployed(app('blog', [], { external: true }));
    expect(apps.activeApps().map((each) => each.app.name)).toEqual(['blog']);
    expect(world.served).toEqual({});
  });

  test('of an app that runs outside is judged with its ports before it is active, and refused with them', async () => {
    const world = new AppWorld(new HandClock());
    const apps = world.supervisor();
    world.refused = (incarnations) => incarnations.some(({ active }) => active === 1);
    apps.apply(manifest(outside('3000')), false);
    const report = await end(world, deploy(apps));
    expect(report).toMatchObject({ outcome: 'failed', fault: { code: 'gate-refused' } });
    expect(apps.activeApps()).toEqual([]);
    apps.apply(manifest(outside('3001')), false);
    expect((await end(world, deploy(apps))).outcome).toBe('done');
    expect(apps.activeApps().map(({ revision }) => revision)).toEqual([2]);
    const moves = world.countMoves();
    expect((await end(world, deploy(apps))).outcome).toBe('done');
    expect(world.countMoves()).toBe(moves);
    apps.apply(manifest(outside('3002')), false);
    world.refused = () => {
      apps.apply(manifest(outside('wanted meanwhile')), false);
      return false;
    };
    expect((await end(world, deploy(apps))).outcome).toBe('done');
    expect(apps.book.app('blog')).toMatchObject({ active: 3, desired: 4 });
  });

  test('waits for an app that it needs', async () => {
    const { apps } = await deployed();
    const needy = app('shop', [webService('web', 'shop.test')], {
      dependencies: [{ kind: 'app', app: 'bank', version: null }],
    });
    apps.apply(manifest(needy), false);
    expect(await code(deploy(apps, { app: 'shop' }))).toBe('deploy-refused');
  });

  test('is refused when the entrypoint listens elsewhere than the manifest said', async () => {
    const { world, apps } = await deployed();
    world.file = routing({
      entrypoints: [entrypoint('web'), entrypoint('game', { protocol: 'tcp', host: '', port: 25565 })],
    });
    const tcp = (publish: string | null) => [{ entrypoint: 'game', port: 1, publish }];
    apps.apply(manifest(blog('two', { tcp: tcp(':25565') })), false);
    expect((await end(world, deploy(apps))).outcome).toBe('done');
    world.file = routing({
      entrypoints: [entrypoint('web'), entrypoint('game', { protocol: 'tcp', host: '', port: 25566 })],
    });
    await expect(deploy(apps)).rejects.toThrow('web is reached by tcp on game, and :25565 is not where it listens');
    apps.apply(manifest(blog('two', { tcp: tcp(null) })), false);
    expect((await end(world, deploy(apps))).outcome).toBe('done');
  });

  test('does not wait for the drain of the one before it, nor for its own', async () => {
    const { world, apps } = await deployed();
    world.lasting = true;
    for (const version of ['two', 'three', 'four']) {
      apps.apply(manifest(blog(version)), false);
      expect((await end(world, deploy(apps))).outcome).toBe('done');
    }
    expect(world.processes()).toEqual(['web#1', 'web#2', 'web#3', 'web#4']);
    expect(world.events.filter((event) => event.startsWith('term'))).toEqual([]);
    world.drain();
    await settle();
    expect(world.processes()).toEqual(['web#4']);
  });

  test('sequential: ends even those that an earlier overlap left draining', async () => {
    const { world, apps } = await deployed();
    world.lasting = true;
    apps.apply(manifest(blog('two')), false);
    await end(world, deploy(apps));
    world.lasting = false;
    apps.apply(manifest(blog('three', { volumes: [volume] })), false);
    await end(world, deploy(apps));
    const started = world.events.indexOf('start web#3');
    expect(world.events.indexOf('gone web#1')).toBeLessThan(started);
    expect(world.events.indexOf('gone web#2')).toBeLessThan(started);
    expect(world.events.indexOf('gone web#1')).toBeGreaterThan(0);
  });
});

describe('rollback', () => {
  test('to a generation that still runs takes one step: no start, no stop of it', async () => {
    const { world, apps } = await deployed();
    world.lasting = true;
    apps.apply(manifest(blog('two')), false);
    await end(world, deploy(apps));
    world.events.length = 0;
    const report = await end(world, apps.rollback('blog', null, false, quiet));
    expect(report).toMatchObject({ outcome: 'done', revision: 3, services: [{ warm: true }] });
    expect(world.events).toEqual(['serve blog/web=web#1']);
    world.drain();
    await settle();
    expect(world.processes()).toEqual(['web#1']);
  });

  test('afterwards is a deploy like any other, as a new revision', async () => {
    const { world, apps } = await deployed();
    apps.apply(manifest(blog('two')), false);
    await end(world, deploy(apps));
    const report = await end(world, apps.rollback('blog', null, false, quiet));
    expect(report).toMatchObject({ outcome: 'done', revision: 3, services: [{ warm: false, mode: 'overlap' }] });
    expect(world.rows.revisions.at(-1)).toMatchObject({ number: 3, why: 'rollback to 1' });
    expect(world.processes()).toEqual(['web#3']);
  });

  test.each([
    { errors: 5, answered: 5, serves: 'web#1' },
    { errors: 4, answered: 0, serves: 'web#2' },
    { errors: 50, answered: 51, serves: 'web#2' },
  ])(
    'happens by itself when $errors exchanges fail beside $answered answered ones',
    async ({ errors, answered, serves }) => {
      const { world, apps } = await deployed();
      world.settings = { autoRollback: true, history: 20 };
      apps.apply(manifest(blog('two')), false);
      const deploying = deploy(apps);
      for (let i = 0; i < 10; i++) await settle();
      expect((await deploying).outcome).toBe('done');
      world.errors = errors;
      world.answered = answered;
      for (let i = 0; i < 10; i++) {
        world.clock.advance(1000);
        await settle();
      }
      expect(world.served).toEqual({ 'blog/web': serves });
    },
  );

  const both = (version: string, b = version): App =>
    app('blog', [webService('a', 'a.test', { env: env(version) }), webService('b', 'b.test', { env: env(b) })]);

  test('after a deploy that stopped half way goes back to what was active, not one further', async () => {
    const { world, apps } = await deployed(both('one'));
    apps.apply(manifest(both('two')), false);
    await end(world, deploy(apps));
    apps.apply(manifest(both('three')), false);
    await end(world, deploy(apps, { only: 'b' }));
    expect(world.served).toEqual({ 'blog/a': 'a#2', 'blog/b': 'b#3' });
    expect((await end(world, apps.rollback('blog', null, false, quiet))).outcome).toBe('done');
    expect(apps.book.revisions(apps.book.app('blog')!.id).at(-1)?.why).toBe('rollback to 2');
  });

  test('does not take a service that a whole deploy kept for one of a deploy that stopped half way', async () => {
    const { world, apps } = await deployed(both('one'));
    apps.apply(manifest(both('two', 'one')), false);
    await end(world, deploy(apps));
    expect(world.served).toEqual({ 'blog/a': 'a#2', 'blog/b': 'b#1' });
    await end(world, apps.rollback('blog', null, false, quiet));
    expect(apps.book.revisions(apps.book.app('blog')!.id).at(-1)?.why).toBe('rollback to 1');
  });

  test('goes back from what is active when its turn comes', async () => {
    const { world, apps } = await deployed();
    apps.apply(manifest(blog('two')), false);
    await end(world, deploy(apps));
    const backs: Promise<DeployReport>[] = [];
    const later = world.supervisor((step) => {
      if (step === 'write-end' && backs.length === 0) backs.push(later.rollback('blog', null, false, quiet));
    });
    later.apply(manifest(blog('three')), false);
    expect((await end(world, deploy(later))).outcome).toBe('done');
    expect((await end(world, backs[0]!)).outcome).toBe('done');
    expect(later.book.revisions(later.book.app('blog')!.id).at(-1)?.why).toBe('rollback to 2');
  });

  test('of what was never replaced is refused', async () => {
    const { apps } = await deployed();
    expect(await code(apps.rollback('blog', null, false, quiet))).toBe('deploy-refused');
    expect(await code(apps.rollback('blog', 9, false, quiet))).toBe('unknown-app');
  });
});

describe('at once', () => {
  test('two deploys: the second waits; a third takes its place and it is told', async () => {
    const { world, apps } = await deployed();
    world.slow.add(2);
    apps.apply(manifest(blog('two')), false);
    const first = deploy(apps);
    await settle();
    const second = code(deploy(apps));
    const third = deploy(apps);
    expect(await second).toBe('deploy-superseded');
    apps.apply(manifest(blog('three')), false);
    world.letReady();
    expect((await end(world, first)).outcome).toBe('done');
    expect((await end(world, third)).revision).toBe(3);
    expect(world.served).toEqual({ 'blog/web': 'web#3' });
    expect(world.processes()).toEqual(['web#3']);
  });

  test('a rollback during a deploy that has decided nothing: the deploy gives up, and is told', async () => {
    const { world, apps } = await deployed();
    apps.apply(manifest(blog('two')), false);
    await end(world, deploy(apps));
    apps.apply(manifest(blog('three')), false);
    world.slow.add(3);
    const losing = deploy(apps);
    await settle();
    expect(world.processes()).toEqual(['web#2', 'web#3']);
    const back = apps.rollback('blog', 1, false, quiet);
    expect((await end(world, losing)).outcome).toBe('superseded');
    expect((await end(world, back)).outcome).toBe('done');
    expect(world.served).toEqual({ 'blog/web': 'web#4' });
    expect(world.processes()).toEqual(['web#4']);
  });

  test('a removal during a deploy: the removal wins, and nothing begins behind it', async () => {
    const { world, apps } = await deployed();
    apps.apply(manifest(blog('two')), false);
    world.slow.add(2);
    const losing = deploy(apps);
    await settle();
    const removal = apps.remove('blog', quiet);
    expect(await code(deploy(apps))).toBe('deploy-refused');
    expect(() => apps.apply(manifest(blog('three')), false)).toThrow('is being removed');
    expect((await end(world, losing)).outcome).toBe('superseded');
    expect((await end(world, removal)).outcome).toBe('done');
    expect(world.served).toEqual({});
    expect(world.processes()).toEqual([]);
    expect(await code(deploy(apps))).toBe('unknown-app');
  });

  test('a removal right behind a deploy that is still being looked at: the deploy gives up', async () => {
    const { world, apps } = await deployed();
    apps.apply(manifest(blog('two')), false);
    world.slow.add(2);
    const losing = deploy(apps);
    const removal = apps.remove('blog', quiet);
    expect((await end(world, losing)).outcome).toBe('superseded');
    expect((await end(world, removal)).outcome).toBe('done');
    expect(world.events).not.toContain('start web#2');
  });

  test('deploys of two apps do not wait for each other', async () => {
    const { world, apps } = await deployed();
    apps.apply(manifest(blog('two')), false);
    world.slow.add(2);
    const slow = deploy(apps);
    await settle();
    apps.apply(manifest(app('shop', [webService('web', 'shop.test')])), false);
    expect((await end(world, deploy(apps, { app: 'shop' }))).outcome).toBe('done');
    world.letReady();
    expect((await end(world, slow)).outcome).toBe('done');
  });
});

describe('remove', () => {
  test('withdraws, stops, and frees the names only then; what is left stays with the old incarnation', async () => {
    const secret = { env: 'KEY', secret: 'key', delivery: 'env' } as const;
    const { world, apps } = await deployed(blog('one', { volumes: [volume], secrets: [secret] }));
    world.lasting = true;
    const removal = apps.remove('blog', quiet);
    await settle();
    expect(world.events).toEqual(['withdraw blog/web']);
    expect(() => apps.apply(manifest(app('shop', [webService('web', 'blog.test')])), false)).toThrow(
      'belongs to app blog',
    );
    world.drain();
    expect((await end(world, removal)).outcome).toBe('done');
    expect(world.events).toEqual(['withdraw blog/web', 'term web#1', 'gone web#1']);
    const [old] = world.rows.incarnations;
    expect(old?.leftovers).toEqual(['secret web/key', 'volume data']);
    apps.apply(manifest(blog('again')), false);
    const [, fresh] = world.rows.incarnations.toSorted((a, b) => a.createdAt - b.createdAt || (a.removedAt ? -1 : 1));
    expect(fresh?.id).not.toBe(old?.id);
    expect((await apps.prune('blog')).map(({ id }) => id)).toEqual([old?.id]);
    await expect(apps.prune('blog')).rejects.toThrow('has left anything behind');
  });

  test('takes the ports along: a publication that refuses them does not refuse their end', async () => {
    const { world, apps } = await deployed(outside('3000'));
    world.refused = (incarnations) => incarnations.some(({ active }) => active !== null);
    expect((await end(world, apps.remove('blog', quiet))).outcome).toBe('done');
    expect(apps.book.apps()).toEqual([]);
  });
});

test('processes of ours that nothing is written of are ended by the next start, and no others', async () => {
  const { world } = await deployed();
  world.alive.set('stray', { id: 'stray', app: 'blog', service: 'web', address: '127.0.0.1:1', revision: 9 });
  await end(world, world.supervisor().resume());
  expect(world.processes()).toEqual(['web#1']);
});

// ---- kills ---------------------------------------------------------------------------------------------------------

describe('after a kill', () => {
  /** Dies at this step. */
  async function killed(first: App, step: string, next: App | null, run: (apps: Apps) => Promise<unknown>) {
    const { world } = await deployed(first);
    const apps = world.supervisor((each) => {
      if (each === step) throw new Error('killed');
    });
    if (next !== null) apps.apply(manifest(next), false);
    await end(
      world,
      run(apps).catch(() => {}),
    );
    return world;
  }
  const removed = (): Promise<AppWorld> =>
    killed(blog('one', { volumes: [volume] }), 'stop-old', null, (apps) => apps.remove('blog', quiet));
  const withdrawing = (): Promise<AppWorld> =>
    killed(pair('one'), 'withdrawn', app('blog', [webService('b', 'b.test', { env: env('two') })]), (apps) =>
      deploy(apps),
    );

  test('a removal that cannot be finished ends as failed, and the next one finishes it', async () => {
    const world = await removed();
    for (const { address } of world.alive.values()) world.unstoppable.add(address);
    const apps = world.supervisor();
    await end(world, apps.resume());
    expect(world.rows.deploys.at(-1)).toMatchObject({ outcome: 'failed', fault: { code: 'stop-failed' } });
    world.unstoppable.clear();
    expect((await end(world, apps.remove('blog', quiet))).outcome).toBe('done');
    expect(world.rows.incarnations).toMatchObject([{ leftovers: ['volume data'] }]);
  });

  test('a removal that another one has finished meanwhile leaves its leftovers alone', async () => {
    const world = await removed();
    expect((await end(world, world.supervisor().remove('blog', quiet))).outcome).toBe('done');
    const [before] = world.rows.incarnations;
    await end(world, world.supervisor().resume());
    expect(world.rows.deploys.filter(({ endedAt }) => endedAt === null)).toEqual([]);
    expect(world.rows.incarnations).toEqual([{ ...before, leftovers: ['volume data'] }]);
  });

  test('history does not forget the revision of a deploy that is not finished', async () => {
    const world = await withdrawing();
    world.settings = { autoRollback: false, history: 1 };
    const apps = world.supervisor();
    apps.apply(manifest(pair('three')), false);
    apps.apply(manifest(pair('four')), false);
    await end(world, world.supervisor().resume());
    expect(world.served).toEqual({ 'blog/b': 'b#2' });
  });

  test('a deploy whose revision is lost is a deploy that failed, and never a removal', async () => {
    const world = await withdrawing();
    const revisions = world.rows.revisions as Revision[];
    revisions.splice(1, 1);
    const apps = world.supervisor();
    await end(world, apps.resume());
    expect(world.rows.deploys.at(-1)).toMatchObject({ kind: 'deploy', outcome: 'failed' });
    expect(world.served).toEqual({ 'blog/b': 'b#1' });
    expect(apps.book.apps().map(({ name }) => name)).toEqual(['blog']);
  });
});

interface Story {
  readonly name: string;
  readonly first: App;
  readonly next: App | null;
  readonly run: (apps: Apps) => Promise<unknown>;
  /** Everything that may be served afterwards; each is one whole state. */
  readonly whole: readonly string[];
}

const pair = (version: string, over: Parameters<typeof webService>[2] = {}): App =>
  app('blog', [
    webService('a', 'a.test', { env: env(version), ...over }),
    webService('b', 'b.test', { env: env(version), ...over }),
  ]);
const bothAt = (revision: number): string => `blog/a=a#${revision} blog/b=b#${revision}`;

const stories: readonly Story[] = [
  {
    name: 'an overlapping deploy',
    first: pair('one'),
    next: pair('two'),
    run: (apps) => deploy(apps),
    whole: [bothAt(1), bothAt(2)],
  },
  {
    name: 'a sequential deploy',
    first: pair('one', { volumes: [volume] }),
    next: pair('two', { volumes: [volume] }),
    run: (apps) => deploy(apps),
    whole: [bothAt(1), bothAt(2)],
  },
  {
    name: 'a restart',
    first: pair('one'),
    next: null,
    run: (apps) => deploy(apps, { kind: 'restart' }),
    whole: [bothAt(1)],
  },
  {
    name: 'a deploy that withdraws a service',
    first: pair('one'),
    next: app('blog', [webService('b', 'b.test', { env: env('two') })]),
    run: (apps) => deploy(apps),
    whole: [bothAt(1), 'blog/b=b#2'],
  },
  {
    name: 'a removal',
    first: pair('one'),
    next: null,
    run: (apps) => apps.remove('blog', quiet),
    whole: [bothAt(1), ''],
  },
];

describe.each(stories)('a kill between any two steps of $name', ({ first, next, run, whole }) => {
  async function killedAt(step: number): Promise<{ world: AppWorld; died: boolean }> {
    const { world } = await deployed(first);
    let count = 0;
    const apps = world.supervisor(() => {
      if (++count === step) throw new Error('killed');
    });
    if (next !== null) apps.apply(manifest(next), false);
    world.events.length = 0;
    await end(
      world,
      run(apps).catch(() => {}),
    );
    return { world, died: count >= step };
  }

  test('leaves one whole state, a settled journal, and nothing lost or doubled', async () => {
    let steps = 0;
    for (let step = 1; ; step++) {
      const { world, died } = await killedAt(step);
      if (!died) break;
      steps = step;
      const at = `step ${step}, after ${world.events.join(', ')}`;
      const again = world.supervisor();
      await end(world, again.resume());
      await end(world, settle());
      const served = Object.entries(world.served).map(([name, what]) => `${name}=${what}`);
      expect(whole, at).toContain(served.sort().join(' '));
      // One process for each service that serves, and no other.
      const expected = Object.values(world.served).sort();
      expect(world.processes(), at).toEqual(expected);
      expect(
        world.rows.deploys.filter(({ endedAt }) => endedAt === null),
        at,
      ).toEqual([]);
      expect(world.rows.retiring, at).toEqual([]);
      expect(world.rows.incarnations.filter(({ removedAt }) => removedAt === null).length, at).toBe(
        served.length > 0 ? 1 : 0,
      );
      neverTwo(world, first, at);
      // And the next one works.
      if (served.length === 0) continue;
      again.apply(manifest(pair('three')), false);
      expect((await end(world, deploy(again))).outcome, at).toBe('done');
      expect(world.processes(), at).toEqual(Object.values(world.served).sort());
    }
    expect(steps).toBeGreaterThan(8);
  });
});

/** In sequential mode a process begins only after every older one of its service has ended. */
function neverTwo(world: AppWorld, first: App, at: string): void {
  if (first.services.every(({ volumes }) => volumes.length === 0)) return;
  const alive = new Map<string, number>(first.services.map(({ name }) => [name, 1]));
  for (const event of world.events) {
    const [what, who] = event.split(' ') as [string, string];
    const service = who.split('#')[0]!;
    if (what === 'start') {
      expect(alive.get(service) ?? 0, `${at}: ${world.events.join(', ')}`).toBe(0);
      alive.set(service, 1);
    } else if (what === 'gone') alive.set(service, 0);
  }
}
