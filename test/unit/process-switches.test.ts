import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { Fault } from '../../src/base/fault.ts';
import { silentLog } from '../../src/base/log.ts';
import type { Service } from '../../src/model/snapshot.ts';
import type { Drain } from '../../src/process/drains.ts';
import type { SwitchProgress, SwitchRequest } from '../../src/process/operations.ts';
import { addressesOf } from '../../src/process/service-state.ts';
import { Switches, type SwitchGround, type SwitchTarget } from '../../src/process/switches.ts';
import { backend, service } from '../support/routing.ts';

/** A supervisor that publishes when the test says so. */
class Ground implements SwitchGround {
  current: Service = service('app.test', 4, ['10.0.0.1:80']);
  readonly published: SwitchTarget[] = [];
  refusal: Fault | null = null;
  drained: () => void = () => {};
  readonly drain: Drain;
  counted = { retries: 3, errors: 5 };
  /** Resolves `publish`; null: at once. */
  gate: Promise<void> | null = null;

  constructor() {
    const done = new Promise<void>((resolve) => {
      this.drained = () => {
        this.drain.tookMs = 1200;
        this.drain.claimed = 40;
        resolve();
      };
    });
    this.drain = { service: 'app.test', generation: 4, since: 0, done, claimed: 0, forced: 0, tookMs: null };
  }

  service(name: string): Service | null {
    return name === 'app.test' ? this.current : null;
  }

  declared() {
    return [backend('10.0.0.5:80')];
  }

  async publish(target: SwitchTarget, onHold: () => void) {
    this.published.push(target);
    await this.gate;
    if (this.refusal !== null) throw this.refusal;
    onHold();
    this.current = service('app.test', 5, addressesOf(target.backends ?? this.declared()));
    const flips = [
      { service: 'app.test', generation: 4, active: 2, held: 1 },
      { service: 'other.test', generation: 1, active: 9, held: 9 },
      { service: 'app.test', generation: 4, active: 1, held: 0 },
    ];
    return { published: { revision: 12, changed: true, flips, holdMs: 7.4 }, drain: this.drain };
  }

  async claims() {
    return { active: 3, claimed: 17 };
  }

  async troubles() {
    return this.counted;
  }
}

function world() {
  const ground = new Ground();
  const switches = new Switches(systemClock, silentLog, ground);
  const phases: string[] = [];
  const begin = (over: Partial<SwitchRequest> = {}) => {
    const request = { service: 'app.test', to: ['10.0.0.2:80'], drainMs: null, probe: false, ...over };
    const run = switches.run(request, ({ phase }: SwitchProgress) => phases.push(phase));
    run.catch(() => {});
    return run;
  };
  return { ground, switches, phases, begin };
}

test('the report tells what the switch moved and cost', async () => {
  const { ground, begin, phases } = world();
  const run = begin({ drainMs: 5000 });
  await expect.poll(() => phases).toEqual(['preparing', 'holding', 'committed', 'draining']);
  ground.counted = { retries: 4, errors: 5 };
  ground.drained();
  expect(await run).toMatchObject({
    service: 'app.test',
    from: { generation: 4, addresses: ['10.0.0.1:80'] },
    to: { generation: 5, addresses: ['10.0.0.2:80'] },
    revision: 12,
    requestsOld: 40,
    requestsNew: 17,
    inFlightAtFlip: 3,
    held: 1,
    holdMs: 7,
    longestDrainedMs: 1200,
    forcedCloses: 0,
    retries: 1,
    errors: 0,
    clean: true,
  });
  expect(ground.published).toEqual([{ service: 'app.test', backends: [backend('10.0.0.2:80')], drainMs: 5000 }]);
  expect(phases.at(-1)).toBe('done');
});

test.each([
  ['a forced close', 1, 5],
  ['an error', 0, 6],
])('%s makes the switch unclean', async (_what, forced, errors) => {
  const { ground, begin, phases } = world();
  const run = begin();
  await expect.poll(() => phases).toContain('draining');
  ground.drain.forced = forced;
  ground.counted = { retries: 3, errors };
  ground.drained();
  expect((await run).clean).toBe(false);
});

test('a second switch of the same service is refused until the first is committed', async () => {
  const { ground, begin, switches } = world();
  let open = (): void => {};
  ground.gate = new Promise((resolve) => {
    open = resolve;
  });
  const first = begin();
  await expect(begin({ to: ['10.0.0.3:80'] })).rejects.toThrow('is being switched to 10.0.0.2:80 (preparing)');
  open();
  await expect.poll(() => switches.status()[0]?.phase).toBe('draining');
  const second = begin({ to: ['10.0.0.3:80'] });
  ground.drained();
  expect((await first).to.addresses).toEqual(['10.0.0.2:80']);
  expect((await second).to.addresses).toEqual(['10.0.0.3:80']);
});

test('a refused publication is the answer, and the service may be switched again', async () => {
  const { ground, begin, switches } = world();
  ground.refusal = new Fault('publish-timeout', 'worker 1/42 was silent');
  await expect(begin()).rejects.toMatchObject({ code: 'publish-timeout', message: 'worker 1/42 was silent' });
  expect(switches.status()[0]).toMatchObject({ phase: 'aborted', fault: { code: 'publish-timeout' } });
  ground.refusal = null;
  ground.drained();
  expect((await begin()).clean).toBe(true);
});

test('a backend that is not there is not switched to', async () => {
  const { ground, begin, phases } = world();
  const closed = createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const { port } = closed.address() as AddressInfo;
  const open = createServer().listen(0, '127.0.0.1');
  await once(open, 'listening');
  const run = begin({ to: [`127.0.0.1:${(open.address() as AddressInfo).port}`], probe: true });
  await expect.poll(() => ground.published).toHaveLength(1);
  expect(phases.slice(0, 2)).toEqual(['probing', 'probing']);
  ground.drained();
  await run;
  await new Promise((resolve) => closed.close(resolve));
  open.close();
  begin({ to: [`127.0.0.1:${port}`], probe: true });
  await expect.poll(() => phases.filter((phase) => phase === 'probing').length).toBeGreaterThan(3);
  expect(ground.published).toHaveLength(1);
});

test('going back to the file probes and publishes what the file says', async () => {
  const { ground, begin } = world();
  ground.drained();
  expect((await begin({ to: 'config' })).to.addresses).toEqual(['10.0.0.5:80']);
  expect(ground.published[0]?.backends).toBeNull();
});

test.each([
  [{ service: 'nobody.test' }, 'unknown-service'],
  [{ to: [] }, 'config-invalid'],
  [{ to: ['10.0.0.2'] }, 'config-invalid'],
  [{ to: ['10.0.0.2:80', '10.0.0.2:80'] }, 'config-invalid'],
])('%o is refused before anything begins', async (over, code) => {
  const { begin, switches } = world();
  await expect(begin(over)).rejects.toMatchObject({ code });
  expect(switches.status()).toEqual([]);
});

test('status keeps the running switches and the latest twenty ended ones', async () => {
  const { ground, begin, switches } = world();
  ground.refusal = new Fault('publish-refused', 'no');
  for (let i = 0; i < 25; i++) await begin({ to: [`10.0.1.${i}:80`] }).catch(() => {});
  ground.refusal = null;
  begin();
  await expect.poll(() => switches.status()[0]?.phase).toBe('draining');
  expect(switches.status()).toHaveLength(21);
  expect(switches.status()[1]?.to).toEqual(['10.0.1.24:80']);
});
