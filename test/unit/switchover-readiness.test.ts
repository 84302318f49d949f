import { expect, test } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import type { HealthCheck } from '../../src/model/snapshot.ts';
import { ActiveHealth, type Probe } from '../../src/switchover/active-health.ts';
import type { ProbeResult } from '../../src/switchover/probe-result.ts';
import { defaultReadiness, waitUntilReady } from '../../src/switchover/readiness.ts';
import { HandClock, settle } from '../support/hand-clock.ts';
import { backend, networkService, service } from '../support/routing.ts';

const health: HealthCheck = {
  type: 'http',
  path: '/healthz',
  host: '',
  intervalMs: 1000,
  timeoutMs: 5000,
  healthyAfter: 2,
  unhealthyAfter: 2,
};
const checked = (addresses: readonly string[], over: Partial<HealthCheck> = {}, number = 1) =>
  service('a', number, addresses, { health: { ...health, ...over } });

/** Answers '+' or '-' in turn, for every address alike; the last one goes on. */
function scripted(script: string) {
  const asked: string[] = [];
  let at = 0;
  const probe: Probe = async (of, { address }): Promise<ProbeResult> => {
    asked.push(`${address} ${of.health?.timeoutMs}`);
    const result = script[Math.min(at++, script.length - 1)];
    return result === '+' ? { ok: true, detail: 'fine' } : { ok: false, detail: 'refused' };
  };
  return { asked, probe };
}

function waiting(script: string, rules = defaultReadiness) {
  const clock = new HandClock();
  const { asked, probe } = scripted(script);
  const said: string[] = [];
  const giveUp = new AbortController();
  let result: unknown = null;
  waitUntilReady(
    checked(['h:1']),
    backend('h:1'),
    rules,
    clock,
    giveUp.signal,
    (detail) => said.push(detail),
    probe,
  ).then((ready) => {
    result = ready;
  });
  const seconds = async (n: number): Promise<void> => {
    for (let i = 0; i < n; i++) {
      await settle();
      clock.advance(1000);
    }
    await settle();
  };
  return { clock, asked, said, giveUp, seconds, result: () => result };
}

test('readiness is asked for once a second until it is there, each attempt at most 2 s', async () => {
  const it = waiting('--+');
  await it.seconds(1);
  expect(it.result()).toBeNull();
  await it.seconds(1);
  expect(it.result()).toEqual({ ready: true });
  expect(it.asked).toEqual(['h:1 2000', 'h:1 2000', 'h:1 2000']);
  expect(it.said).toEqual(['refused', 'refused', 'fine']);
});

test('one lucky answer among failures is not readiness when two in a row are asked for', async () => {
  const it = waiting('+-+-++', { ...defaultReadiness, consecutive: 2 });
  await it.seconds(4);
  expect(it.result()).toBeNull();
  await it.seconds(1);
  expect(it.result()).toEqual({ ready: true });
});

test('what is not ready in time is told with its last words, and nothing is asked after that', async () => {
  const it = waiting('-');
  await it.seconds(30);
  expect(it.result()).toEqual({ ready: false, detail: 'not ready within 30000 ms, last: refused' });
  const { length } = it.asked;
  await it.seconds(3);
  expect(it.asked).toHaveLength(length);
  expect(it.clock.pending).toBe(0);
});

test('giving up ends the waiting at once', async () => {
  const it = waiting('-');
  await it.seconds(2);
  it.giveUp.abort();
  await settle();
  expect(it.result()).toMatchObject({ ready: false });
  expect(it.clock.pending).toBe(0);
});

function watched(script: string) {
  const clock = new HandClock();
  const { asked, probe } = scripted(script);
  let changes = 0;
  const active = new ActiveHealth(clock, silentLog, () => changes++, probe);
  const seconds = async (n: number): Promise<void> => {
    for (let i = 0; i < n; i++) {
      await settle();
      clock.advance(1000);
    }
    await settle();
  };
  return { clock, asked, active, seconds, changes: () => changes };
}

test('a backend goes down and comes back after as many results in a row as the check says', async () => {
  const { active, clock, seconds, changes } = watched('+--++');
  active.follow([checked(['h:1'])]);
  clock.advance(0);
  await seconds(1);
  expect(active.down().size).toBe(0);
  await seconds(1);
  expect([...active.down()]).toEqual([['a', ['h:1']]]);
  await seconds(2);
  expect(active.down().size).toBe(0);
  expect(changes()).toBe(2);
});

test('services without a check are not asked', async () => {
  const { active, clock, asked } = watched('-');
  active.follow([service('a', 1, ['h:1'])]);
  clock.advance(5000);
  await settle();
  expect(asked).toEqual([]);
});

test('a reload that leaves the check alone keeps what was found out; another check begins anew', async () => {
  const { active, clock, seconds } = watched('-');
  active.follow([checked(['h:1', 'h:2'])]);
  clock.advance(0);
  await seconds(2);
  expect(active.down().get('a')).toEqual(['h:1', 'h:2']);
  active.follow([checked(['h:2'], {}, 2)]);
  expect(active.down().get('a')).toEqual(['h:2']);
  active.follow([checked(['h:2'], { path: '/other' }, 2)]);
  expect(active.down().size).toBe(0);
});

test('a backend that is to get a PROXY header from now on is looked at anew', async () => {
  const { active, clock, seconds } = watched('-');
  const of = networkService('db', 1, ['h:1'], { health });
  active.follow([of]);
  clock.advance(0);
  await seconds(2);
  expect(active.down().get('db')).toEqual(['h:1']);
  active.follow([{ ...of, network: { ...of.network!, sendProxyProtocol: 2 } }]);
  expect(active.down().size).toBe(0);
});

test('with a first pause of its own it looks quickly in the beginning, then every second', async () => {
  const { asked, clock } = waiting('-', { ...defaultReadiness, firstMs: 250 });
  const times: number[] = [];
  for (let ms = 0; ms < 5000; ms += 50) {
    await settle();
    while (times.length < asked.length) times.push(ms);
    clock.advance(50);
  }
  expect(times).toEqual([0, 250, 750, 1750, 2750, 3750, 4750]);
});

test('an address that just passed a probe is not asked again before its interval', async () => {
  const { active, clock, asked } = watched('+');
  active.follow([checked(['h:1', 'h:2'])], new Map([['a', ['h:1']]]));
  clock.advance(999);
  await settle();
  expect(asked).toEqual(['h:2 5000']);
});

test('a backend that is down counts as up again once a switch has proven it', async () => {
  const { active, clock, seconds } = watched('-');
  active.follow([checked(['h:1', 'h:2'])]);
  clock.advance(0);
  await seconds(2);
  active.pardon('other', ['h:1']);
  expect(active.down().get('a')).toEqual(['h:1', 'h:2']);
  active.pardon('a', ['h:1']);
  expect(active.down().get('a')).toEqual(['h:2']);
  await seconds(2);
  expect(active.down().get('a')).toEqual(['h:1', 'h:2']);
});

test('what is no longer followed is left alone', async () => {
  const { active, clock } = watched('+');
  active.follow([checked(['h:1'])]);
  clock.advance(0);
  await settle();
  active.follow([]);
  expect(clock.pending).toBe(0);
});
