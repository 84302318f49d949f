// What ends is started again: in the app's turn, less and less often, and never what a deploy is about to change.
import { describe, expect, test } from 'vitest';
import type { Apps } from '../../src/apps/apps.ts';
import { backoffOf } from '../../src/apps/reconciler.ts';
import { AppWorld, app, manifest, webService } from '../support/apps.ts';
import { HandClock, settle } from '../support/hand-clock.ts';

const blog = (version: string) =>
  app('blog', [webService('web', 'blog.test', { env: [{ name: 'GREETING', value: version }] })]);
const order = { app: 'blog', kind: 'deploy', revision: null, only: null, given: new Map(), wait: false } as const;

async function pass(world: AppWorld, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 250) {
    await settle();
    world.clock.advance(Math.min(250, left));
  }
  await settle();
}

async function kept(): Promise<{ world: AppWorld; apps: Apps }> {
  const world = new AppWorld(new HandClock());
  const apps = world.supervisor();
  apps.apply(manifest(blog('one')), false);
  const done = apps.deploy(order, () => {});
  await pass(world, 2000);
  await done;
  apps.keepAlive();
  await settle();
  world.events.length = 0;
  return { world, apps };
}

/** As an instance that crashes. */
const crash = (world: AppWorld): void => world.alive.clear();
const web = (world: AppWorld) => ({ incarnation: world.rows.incarnations[0]!.id, name: 'web' });

describe('a service that serves', () => {
  test('is left alone while it runs', async () => {
    const { world, apps } = await kept();
    await pass(world, 120_000);
    expect(world.events).toEqual([]);
    expect(apps.troubleOf(web(world))).toBeNull();
    apps.close();
  });

  test('is found dead within 30 s, its requests wait, and a new generation of the same revision serves', async () => {
    const { world, apps } = await kept();
    crash(world);
    await pass(world, 29_000);
    expect(world.events).toEqual([]);
    await pass(world, 1500);
    expect(world.events).toEqual(['hold blog/web']);
    await pass(world, 2000);
    expect(world.events).toEqual(['hold blog/web', 'start web#1', 'serve blog/web=web#1']);
    expect(world.processes()).toEqual(['web#1']);
    expect(apps.troubleOf(web(world))).toMatchObject({ restarts: 1, reason: 'it does not run', nextAt: null });
    apps.close();
  });

  test('that never gets ready again is tried less and less often, and told to be down', async () => {
    const { world, apps } = await kept();
    world.unready.add(1);
    crash(world);
    const starts: number[] = [];
    for (let s = 0; s < 1200; s++) {
      const before = world.events.length;
      await pass(world, 1000);
      if (world.events.slice(before).some((each) => each.startsWith('start'))) starts.push(s);
    }
    // Each attempt itself takes the 30 s in which it could become ready.
    const pauses = starts.slice(1).map((at, i) => at - starts[i]! - 30);
    expect(pauses.length).toBeGreaterThan(5);
    expect(pauses).toEqual(pauses.toSorted((a, b) => a - b));
    expect(pauses[0]).toBeLessThanOrEqual(4);
    expect(pauses.at(-1)).toBeGreaterThan(60);
    expect(world.served['blog/web']).toBe('nothing');
    expect(apps.troubleOf(web(world))!.reason).toContain('web is not ready');
    apps.close();
  });

  test('is not touched while a deploy of its app is under way', async () => {
    const { world, apps } = await kept();
    world.slow.add(2);
    apps.apply(manifest(blog('two')), false);
    const deploy = apps.deploy(order, () => {});
    await pass(world, 2000);
    world.alive.delete([...world.alive.values()].find(({ revision }) => revision === 1)!.id);
    await pass(world, 20_000);
    expect(world.events).toEqual(['start web#2']);
    world.letReady();
    await pass(world, 2000);
    expect((await deploy).outcome).toBe('done');
    await pass(world, 60_000);
    expect(world.events).not.toContain('start web#1');
    expect(world.served['blog/web']).toBe('web#2');
    apps.close();
  });

  test('is not taken for dead while no engine answers, and looked at every 2 s until one does', async () => {
    const { world, apps } = await kept();
    world.away = true;
    crash(world);
    await pass(world, 120_000);
    expect(world.events).toEqual([]);
    world.away = false;
    await pass(world, 2250);
    expect(world.events).toEqual(['hold blog/web']);
    await pass(world, 2000);
    expect(world.served['blog/web']).toBe('web#1');
    apps.close();
  });

  test('an instance that no book knows is stopped', async () => {
    const { world, apps } = await kept();
    world.alive.set('stranger', { id: 'stranger', app: 'x', service: 'x', address: 'x:1', revision: 9 });
    await pass(world, 31_000);
    expect(world.events).toEqual(['term x#9', 'gone x#9']);
    apps.close();
  });
});

test('the pauses double from one second to five minutes', () => {
  expect([0, 1, 2, 3, 8, 9, 100].map(backoffOf)).toEqual([1000, 2000, 4000, 8000, 256_000, 300_000, 300_000]);
});
