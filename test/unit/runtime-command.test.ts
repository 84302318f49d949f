// `runtime = "none"`: real processes, started and stopped by commands, found again by who did not start them.
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import type { DeclaredProcess } from '../../src/config/declared-apps.ts';
import { parseBackend } from '../../src/model/backend.ts';
import { CommandRuntime } from '../../src/runtime/command-runtime.ts';
import type { InstanceRef, Launch } from '../../src/runtime/runtime.ts';
import { app, appService, webService } from '../support/apps.ts';
import { until } from '../support/wait.ts';

let directory: string;
let processes: Map<string, Map<string, DeclaredProcess>>;
const started: { runtime: CommandRuntime; instance: InstanceRef }[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'turnpike-runtime-'));
  processes = new Map();
});
afterEach(async () => {
  for (const { runtime, instance } of started.splice(0)) await runtime.stop(instance, 0, () => {});
  rmSync(directory, { recursive: true, force: true });
});

const runtimeIn = (stateDir = directory): CommandRuntime =>
  new CommandRuntime({ clock: systemClock, stateDir, directory, processes: () => processes });

function declare(script: string, over: Partial<DeclaredProcess> = {}): void {
  const process = { start: ['/bin/sh', '-c', script], stop: [], address: parseBackend('127.0.0.1:0'), origin: '' };
  processes.set(
    'blog',
    new Map([['web', { ...process, address: { address: '127.0.0.1:0', host: '127.0.0.1', port: 0 }, ...over }]]),
  );
}

const launch = (instance: string, over: Partial<Launch> = {}): Launch => {
  const service = webService('web', 'blog.test', { readiness: null, env: [{ name: 'GREETING', value: 'hello' }] });
  const of = app('blog', [service], { env: [{ name: 'SHARED', value: 'all' }] });
  return { instance, incarnation: 'i', app: of, service, revision: 7, given: [], ...over };
};

async function start(runtime: CommandRuntime, instance: string) {
  const { backends, managed, ended } = await runtime.start(launch(instance));
  const reference: InstanceRef = { id: instance, app: 'blog', service: 'web', backends, managed };
  started.push({ runtime, instance: reference });
  return { reference, ended };
}

async function output(runtime: CommandRuntime, instance: InstanceRef, word: string): Promise<string> {
  return until(`"${word}"`, async () => {
    const text = await runtime.output(instance);
    return text.includes(word) ? text : null;
  });
}

const lasting = 'echo up; while :; do sleep 0.02; done';

describe('a process', () => {
  test('is known as one of a command until it is forgotten, whatever is declared later', async () => {
    declare(lasting);
    const { reference } = await start(runtimeIn(), 'begun');
    processes.clear();
    expect([runtimeIn().began('begun'), runtimeIn().began('another')]).toEqual([true, false]);
    await runtimeIn().stop(reference, 0, () => {});
    await runtimeIn().forget('begun');
    expect(runtimeIn().began('begun')).toBe(false);
  });

  test('is told where to listen and who it is, and nothing that is ours', async () => {
    process.env['NOTIFY_SOCKET'] = '/run/secret-of-ours';
    declare('env; echo "{address} {port}"; echo up; while :; do sleep 0.02; done');
    const runtime = runtimeIn();
    const { reference } = await start(runtime, 'a1');
    const text = await output(runtime, reference, 'up');
    delete process.env['NOTIFY_SOCKET'];
    const { address } = reference.backends[0]!;
    expect(text).toContain(`${address} ${address.split(':')[1]}`);
    for (const line of [`TURNPIKE_ADDRESS=${address}`, 'GREETING=hello', 'SHARED=all', 'TURNPIKE_REVISION=7']) {
      expect(text).toContain(line);
    }
    expect(text).not.toContain('secret-of-ours');
    expect(statSync(join(directory, 'output/a1.log')).mode & 0o777).toBe(0o600);
    expect(statSync(join(directory, 'output')).mode & 0o777).toBe(0o700);
  });

  test('is found, and stopped, by a runtime that did not start it; another installation leaves it alone', async () => {
    declare(lasting);
    const { reference } = await start(runtimeIn(), 'a2');
    const again = runtimeIn();
    expect(await again.alive(reference)).toBe(true);
    expect(await again.list()).toEqual(['a2']);
    expect(await runtimeIn('/elsewhere').list()).toEqual([]);
    await again.stop(reference, 5000, () => {});
    expect(await again.alive(reference)).toBe(false);
    expect(await again.list()).toEqual([]);
  });

  test('gets SIGTERM, and SIGKILL only when its grace is over; what it started goes with it', async () => {
    declare('trap "echo asked" TERM; (while :; do sleep 0.02; done) & echo up; while :; do sleep 0.02; done');
    const runtime = runtimeIn();
    const { reference } = await start(runtime, 'a3');
    await output(runtime, reference, 'up');
    const steps: string[] = [];
    await runtime.stop(reference, 300, (step) => steps.push(step));
    expect(steps).toEqual(['term', 'kill']);
    expect(await runtime.output(reference)).toContain('asked');
    expect(await runtime.list()).toEqual([]);
  });

  test('that ends by itself within its grace is not killed, and stopping it again is no failure', async () => {
    declare(lasting);
    const runtime = runtimeIn();
    const { reference } = await start(runtime, 'a4');
    const steps: string[] = [];
    await runtime.stop(reference, 10_000, (step) => steps.push(step));
    await runtime.stop(reference, 10_000, (step) => steps.push(step));
    expect(steps).toEqual(['term']);
  });

  test('that fails says how; one that cannot be started at all refuses', async () => {
    declare('echo oops >&2; exit 3');
    const runtime = runtimeIn();
    const { reference, ended } = await start(runtime, 'a5');
    expect(await ended).toBe('it ended with exit code 3');
    expect(await runtime.output(reference)).toBe('oops\n');
    declare('', { start: ['/no/such/program'] });
    await expect(runtime.start(launch('a6'))).rejects.toThrow('/no/such/program could not be started');
  });

  test("is stopped by the operator's own command, where there is one", async () => {
    declare(lasting, { stop: ['/bin/sh', '-c', 'echo "stopped $TURNPIKE_APP at {address}" > stopped.txt'] });
    const runtime = runtimeIn();
    const { reference } = await start(runtime, 'a7');
    const steps: string[] = [];
    await runtime.stop(reference, 200, (step) => steps.push(step));
    expect(steps).toEqual(['term', 'kill']);
    const { readFileSync } = await import('node:fs');
    expect(readFileSync(join(directory, 'stopped.txt'), 'utf8')).toBe(
      `stopped blog at ${reference.backends[0]!.address}\n`,
    );
    declare(lasting, { stop: ['/bin/sh', '-c', 'exit 4'] });
    const other = await start(runtime, 'a8');
    await expect(runtime.stop(other.reference, 200, () => {})).rejects.toThrow('ended with exit code 4');
    declare(lasting);
  });

  test("that is somebody else's is neither started nor stopped", async () => {
    const runtime = runtimeIn();
    const given = [{ port: 3000, address: '127.0.0.1:9' }];
    const { backends, managed } = await runtime.start(launch('a9', { given }));
    expect({ backends, managed }).toEqual({ backends: given, managed: false });
    const reference = { id: 'a9', app: 'blog', service: 'web', backends, managed };
    await runtime.stop(reference, 0, () => expect.unreachable('it is not ours'));
    expect(await runtime.alive(reference)).toBeNull();
  });
});

describe('before anything is started', () => {
  const check = async (over: Partial<Launch> = {}) => (await runtimeIn().check(launch('x', over))).problems;

  test('an address must be known, one for each port', async () => {
    expect(await check()).toEqual([expect.stringContaining('turnpike apps deploy blog --backend web=HOST:PORT')]);
    expect(await check({ given: [{ port: 3000, address: '127.0.0.1:9' }] })).toEqual([]);
    expect(await check({ given: [{ port: 1, address: '127.0.0.1:9' }] })).toHaveLength(2);
    const two = appService('web', {
      http: [
        { visibility: 'public', host: 'a.test', port: 3000, tls: 'auto' },
        { visibility: 'public', host: 'b.test', port: 3001, tls: 'auto' },
      ],
    });
    declare(lasting, { address: parseBackend('127.0.0.1:4000') });
    expect(await check({ service: two })).toEqual([expect.stringContaining('--backend web:3000=HOST:PORT')]);
    declare(lasting);
    expect(await check({ service: two })).toEqual([]);
  });

  test('a port of a container only is not asked for readiness', async () => {
    const inner = appService('web', {
      http: [{ visibility: 'internal', port: 9000 }],
      readiness: { type: 'tcp', port: 9000, timeoutMs: 1000, consecutive: 1 },
    });
    expect(await check({ service: inner })).toEqual([expect.stringContaining('at port 9000')]);
  });

  test('output is waited for only of what is started here', async () => {
    const given = [{ port: 3000, address: '127.0.0.1:9' }];
    const loud = webService('web', 'blog.test', { readiness: { type: 'log', contains: 'up', timeoutMs: 1000 } });
    expect(await check({ service: loud, given })).toEqual([expect.stringContaining('nobody here starts it')]);
  });
});
