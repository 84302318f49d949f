// `runtime = "auto"`: which of the two runs a service, and who is asked about an instance.
import { expect, test } from 'vitest';
import { Fault } from '../../src/base/fault.ts';
import { AutoRuntime } from '../../src/runtime/auto-runtime.ts';
import type { InstanceRef, Launch, Runtime } from '../../src/runtime/runtime.ts';
import { app, appService } from '../support/apps.ts';

/** Notes what it is asked. */
function fake(kind: 'none' | 'docker', alive: () => boolean | null, asked: string[]): Runtime {
  const note = (what: string): void => void asked.push(`${kind} ${what}`);
  return {
    kind,
    check: async () => {
      note('check');
      return { problems: [], fixed: [], managed: true };
    },
    start: async () => {
      note('start');
      return { backends: [], managed: true, ended: null };
    },
    stop: async () => note('stop'),
    alive: async () => {
      note('alive');
      return alive();
    },
    list: async () => [`of ${kind}`],
    output: async () => (kind === 'docker' ? 'of docker' : ''),
    forget: async () => note('forget'),
    leave: async () => note('leave'),
  };
}

function scene({ answers = true, used = false, began = false, processes = [] as readonly string[] }) {
  const asked: string[] = [];
  const state = { answers, used };
  const runtime = new AutoRuntime({
    commands: { ...fake('none', () => false, asked), began: () => began },
    containers: fake(
      'docker',
      () => {
        if (state.answers) return true;
        throw new Fault('runtime-unavailable', 'nothing listens there');
      },
      asked,
    ),
    processes: () =>
      new Map([['blog', new Map(processes.map((name) => [name, { start: [], stop: [], address: null, origin: '' }]))]]),
    engine: async () => {
      if (!state.answers) throw new Fault('runtime-unavailable', 'nothing listens there');
    },
    engineUsed: () => state.used,
    useEngine: () => {
      state.used = true;
    },
  });
  return { runtime, asked, state };
}

const service = appService('web');
const launch = (over: Partial<Launch> = {}): Launch => ({
  instance: 'i',
  incarnation: 'a',
  app: app('blog', [service]),
  service,
  revision: 1,
  given: [],
  ...over,
});
const instance: InstanceRef = { id: 'i', app: 'blog', service: 'web', backends: [], managed: true };

test('an engine that answers runs it, and that is remembered before anything is made', async () => {
  const { runtime, asked, state } = scene({});
  await runtime.check(launch());
  expect(state.used).toBe(false);
  await runtime.start(launch());
  expect([asked, state.used]).toEqual([['docker check', 'docker start'], true]);
});

test('without an engine, with an address given, or with a process of its own it is no container', async () => {
  for (const [over, options] of [
    [{}, { answers: false }],
    [{ given: [{ port: 80, address: '127.0.0.1:1' }] }, {}],
    [{}, { processes: ['web'] }],
  ] as const) {
    const { runtime, asked, state } = scene(options);
    await runtime.start(launch(over));
    expect([asked, state.used]).toEqual([['none start'], false]);
  }
});

test('an engine that has run something and is away is not taken for "nothing runs"', async () => {
  const { runtime, state } = scene({ used: true });
  expect(await runtime.alive(instance)).toBe(true);
  state.answers = false;
  await expect(runtime.alive(instance)).rejects.toMatchObject({ code: 'runtime-unavailable' });
  const { asked, runtime: later } = scene({ used: true, answers: false });
  await later.check(launch());
  expect(asked).toEqual(['docker check']);
});

test('an engine that never ran anything is never asked', async () => {
  const { runtime, asked } = scene({ used: false });
  expect(await runtime.alive(instance)).toBe(false);
  await runtime.stop(instance, 0, () => {});
  await runtime.leave('a');
  expect(await runtime.list()).toEqual(['of none']);
  expect(asked).toEqual(['none alive', 'none stop']);
});

test('a service that is given a process of its own later does not lose its container', async () => {
  const { runtime, asked } = scene({ used: true, processes: ['web'] });
  expect(await runtime.alive(instance)).toBe(true);
  await runtime.stop(instance, 0, () => {});
  expect(asked).toEqual(['none alive', 'docker alive', 'none alive', 'docker stop']);
  expect(await runtime.list()).toEqual(['of none', 'of docker']);
});

test('a process of the operator is never looked for among containers', async () => {
  const { runtime, asked } = scene({ used: true, began: true });
  expect(await runtime.alive(instance)).toBe(false);
  await runtime.stop(instance, 0, () => {});
  expect(asked).toEqual(['none alive', 'none stop']);
  expect(await runtime.list()).toEqual(['of none', 'of docker']);
});
