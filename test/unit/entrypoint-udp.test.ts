// The UDP sockets of one worker: bound when owned and wanted, never twice, never without need.
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { afterEach, expect, test } from 'vitest';
import { Deadlines } from '../../src/base/deadlines.ts';
import { silentLog } from '../../src/base/log.ts';
import { Metrics } from '../../src/base/metrics.ts';
import { UdpEntrypoints } from '../../src/entrypoint/udp-entrypoints.ts';
import type { Entrypoint, RoutingPart } from '../../src/model/snapshot.ts';
import { listenerKey } from '../../src/process/listener-key.ts';
import { Traffic } from '../../src/traffic/traffic.ts';
import { Backends } from '../../src/upstream/backends.ts';
import { HandClock } from '../support/hand-clock.ts';
import { entrypoint, limits, noRouters, routing, snapshot, wholeDelta } from '../support/routing.ts';
import { closeUdp, freeUdpPort, isUdpPortFree, UdpBackend, UdpClient } from '../support/udp.ts';
import { sleep, until } from '../support/wait.ts';
import { udpService } from './udp-kit.ts';

const workers: TestWorker[] = [];
const foreign: Socket[] = [];
afterEach(() => {
  for (const worker of workers.splice(0)) worker.end();
  for (const socket of foreign.splice(0)) socket.close();
  closeUdp();
});

/** The UDP side of a worker process. */
class TestWorker {
  readonly clock = new HandClock();
  readonly metrics = new Metrics();
  readonly traffic: Traffic<Backends>;
  readonly udp: UdpEntrypoints;
  readonly warnings: object[] = [];
  interfaces: ReturnType<typeof networkInterfaces> = {};
  readonly #deadlines = new Deadlines(this.clock);
  #revision = 0;

  constructor() {
    const { clock, metrics } = this;
    const deadlines = this.#deadlines;
    this.traffic = new Traffic<Backends>(
      clock,
      (of, down) =>
        new Backends(of, down, {
          clock,
          deadlines,
          log: silentLog,
          metrics,
          limits: () => limits,
          cookieKey: () => Buffer.alloc(32),
        }),
      () => {},
    );
    this.udp = new UdpEntrypoints({
      traffic: this.traffic,
      clock,
      deadlines,
      log: { ...silentLog, warn: (event, members = {}) => void this.warnings.push({ event, ...members }) },
      metrics,
      accessLog: { wanted: null, write() {} },
      keyOf: listenerKey,
      interfaces: () => this.interfaces,
    });
    this.traffic.register(this.udp);
    workers.push(this);
  }

  own(...entrypoints: readonly Entrypoint[]): void {
    this.udp.own(entrypoints.map(listenerKey));
  }

  prepare(part: RoutingPart) {
    return this.traffic.prepare(wholeDelta(snapshot(++this.#revision, part)));
  }

  publish(part: RoutingPart): void {
    this.traffic.commit(this.prepare(part));
  }

  series(name: string, labels: Record<string, string>): number | undefined {
    const family = this.metrics.collect().find((each) => each.name === `turnpike_${name}`);
    const match = (each: Record<string, unknown>): boolean =>
      Object.entries(labels).every(([key, value]) => each[key] === value);
    return family?.values.find((each) => match(each.labels))?.value;
  }

  end(): void {
    this.udp.destroy();
    this.#deadlines.close();
  }
}

const games = (port: number, over: Partial<Entrypoint> = {}): Entrypoint =>
  entrypoint('games', { protocol: 'udp', port, ...over });

function part(entrypoints: readonly Entrypoint[], backend: UdpBackend, generation = 1): RoutingPart {
  return routing({
    entrypoints,
    services: [udpService(generation, [backend.address])],
    routers: {
      ...noRouters,
      udp: entrypoints.map(({ name }) => ({ entrypoint: name, service: 'game', origin: `test routers.udp ${name}` })),
    },
  });
}

async function occupy(port: number): Promise<Socket> {
  const socket = createSocket('udp4');
  foreign.push(socket);
  socket.bind(port, '127.0.0.1');
  await once(socket, 'listening');
  return socket;
}

test('the owner binds in prepare and serves from the commit on', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.own(web);
  const prepared = worker.prepare(part([web], backend));
  const client = UdpClient.to(web.port);
  client.send('before the commit');
  await sleep(50);
  worker.traffic.commit(prepared);
  expect(await client.ask('after')).toBe('after');
  expect(client.refused).toBe(0);
  expect(backend.texts).toEqual(['after']);
});

test('a worker that does not own it follows without a socket', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.publish(part([web], backend));
  expect(await isUdpPortFree(web.port)).toBe(true);
  expect(worker.udp.stats()).toEqual([]);
});

test('a port that is taken refuses the publication and names who is affected, and nothing stays bound', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const [one, two] = [
    games(await freeUdpPort()),
    games(await freeUdpPort(), { name: 'voice', origin: 'config.toml:7 entrypoints.voice' }),
  ];
  await occupy(two.port);
  worker.own(one, two);
  expect(() => worker.prepare(part([one, two], backend))).toThrow(
    /entrypoint voice \(config\.toml:7 entrypoints\.voice\) cannot listen on 127\.0\.0\.1:\d+: another socket holds the port; "ss -lunp/,
  );
  expect(await isUdpPortFree(one.port)).toBe(true);
});

test('an address that would need the port of an entrypoint that is there refuses with the way out', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  const wide = games(web.port, { host: '' });
  worker.own(web, wide);
  worker.publish(part([web], backend));
  const client = UdpClient.to(web.port);
  await client.ask('before');
  const ours = `this program listens on 127.0.0.1:${web.port}, and no reload can do both`;
  expect(() => worker.prepare(part([wide], backend, 2))).toThrow(ours);
  await client.ask('after');
  // Also while the flows of one that was removed go on.
  worker.publish(part([], backend, 3));
  expect(() => worker.prepare(part([wide], backend, 4))).toThrow(ours);
});

test('an aborted publication gives back what it had bound', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.own(web);
  const prepared = worker.prepare(part([web], backend));
  expect(await isUdpPortFree(web.port)).toBe(false);
  worker.traffic.abort(prepared);
  expect(await isUdpPortFree(web.port)).toBe(true);
});

test('an entrypoint that keeps its address keeps its flows, whatever else changes', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.own(web);
  worker.publish(part([web], backend));
  const client = UdpClient.to(web.port);
  await client.ask('one');
  for (let i = 0; i < 5; i++) worker.publish(part([{ ...web, name: `games-${i}` }], backend));
  await client.ask('two');
  expect(backend.flows).toBe(1);
  expect(worker.udp.stats()).toMatchObject([{ name: 'games-4', connections: 1 }]);
  expect(worker.series('entrypoint_connections', { entrypoint: 'games-3' })).toBeUndefined();
  worker.clock.advance(121_000);
  expect(worker.udp.stats()).toMatchObject([{ name: 'games-4', connections: 0 }]);
});

test('entrypoints that swap their names swap their counts', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const [one, two] = [games(await freeUdpPort()), games(await freeUdpPort(), { name: 'voice' })];
  worker.own(one, two);
  worker.publish(part([one, two], backend));
  const open = (): unknown => worker.udp.stats().map(({ name, connections }) => [name, connections]);
  await UdpClient.to(one.port).ask('one');
  await UdpClient.to(one.port).ask('two');
  await UdpClient.to(two.port).ask('three');
  worker.publish(
    part(
      [
        { ...one, name: 'voice' },
        { ...two, name: 'games' },
      ],
      backend,
    ),
  );
  expect(open()).toEqual([
    ['voice', 2],
    ['games', 1],
  ]);
  worker.clock.advance(121_000);
  expect(open()).toEqual([
    ['voice', 0],
    ['games', 0],
  ]);
});

test('a narrowed trusted_cidrs ends flows at once, says nothing to the client, and counts what it refuses', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort(), { host: '' });
  worker.own(web);
  worker.publish(part([web], backend));
  const [one, two] = [UdpClient.to(web.port), UdpClient.to(web.port, { from: '127.0.0.2' })];
  await one.ask('hello');
  await two.ask('hello');
  worker.publish(part([{ ...web, trustedCidrs: ['127.0.0.1/32'] }], backend));
  expect(worker.udp.stats()[0]).toMatchObject({ connections: 1, refused: 0 });
  two.send('let me in');
  await until('the refusal', () => worker.udp.stats()[0]!.refused === 1);
  await one.ask('still here');
  expect(two.got.length).toBe(1);
  expect(two.refused).toBe(0);
  expect(worker.series('udp_flows_ended_total', { reason: 'not-admitted' })).toBe(1);
});

test('the wildcard address takes IPv4 and IPv6, and replies leave from the port that was asked', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort(), { host: '', trustedCidrs: ['127.0.0.0/8', '::1/128'] });
  worker.own(web);
  worker.publish(part([web], backend));
  // Both clients are connected: they hear nobody but the address and port that they asked.
  expect(await UdpClient.to(web.port).ask('four')).toBe('four');
  expect(await UdpClient.to(web.port, { host: '::1' }).ask('six')).toBe('six');
});

const info = (address: string, internal = false): NetworkInterfaceInfo => ({
  address,
  internal,
  netmask: '',
  mac: '',
  cidr: null,
  ...(address.includes(':') ? { family: 'IPv6' as const, scopeid: 0 } : { family: 'IPv4' as const }),
});

test.each([
  ['one address of each family', { eth0: [info('192.0.2.1'), info('2001:db8::1'), info('fe80::1')] }, []],
  ['one on each of several interfaces', { eth0: [info('192.0.2.1')], br0: [info('172.17.0.1')] }, []],
  ['several of the loopback', { lo: [info('127.0.0.1', true), info('127.0.0.2', true)] }, []],
  ['two of IPv4', { eth0: [info('192.0.2.1'), info('192.0.2.2'), info('2001:db8::1')] }, ['192.0.2.1', '192.0.2.2']],
  [
    'a lasting and a passing one of IPv6',
    { eth0: [info('2001:db8::1'), info('2001:db8::2'), info('fe80::1')] },
    ['2001:db8::1', '2001:db8::2'],
  ],
] as const)('%s: a wildcard entrypoint is warned of what its replies may leave from', async (_, interfaces, told) => {
  const worker = new TestWorker();
  worker.interfaces = interfaces as unknown as TestWorker['interfaces'];
  const backend = await UdpBackend.start();
  const [wild, exact] = [games(await freeUdpPort(), { host: '' }), games(await freeUdpPort(), { name: 'exact' })];
  worker.own(wild, exact);
  worker.publish(part([wild, exact], backend));
  const warning = { event: 'udp-wildcard-replies', entrypoint: 'games', addresses: told.join(' ') };
  expect(worker.warnings).toMatchObject(told.length === 0 ? [] : [warning]);
  expect(worker.warnings).toHaveLength(told.length === 0 ? 0 : 1);
});

test('entrypoints on several addresses and one port number answer from the address that was asked', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const both = [games(port), games(port, { name: 'second', host: '127.0.0.2' })];
  worker.own(...both);
  worker.publish(part(both, backend));
  const sources: string[] = [];
  for (const { host } of both) {
    // Not connected: it hears from any address, and tells from which.
    const client = createSocket('udp4');
    foreign.push(client);
    client.send('hello', port, host);
    const [, from] = (await once(client, 'message')) as [Buffer, { address: string; port: number }];
    sources.push(`${from.address}:${from.port}`);
  }
  expect(sources).toEqual([`127.0.0.1:${port}`, `127.0.0.2:${port}`]);
});

test('an IPv6 backend is reached from an IPv4 client', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start(undefined, 0, '::1');
  const web = games(await freeUdpPort());
  worker.own(web);
  worker.publish({
    ...part([web], backend),
    services: [
      {
        ...udpService(1, []),
        generation: {
          number: 1,
          origin: 'test',
          backends: [{ address: `[::1]:${backend.port}`, host: '::1', port: backend.port }],
        },
      },
    ],
  });
  expect(await UdpClient.to(web.port).ask('hello')).toBe('hello');
});

// ---- hand-over -------------------------------------------------------------------------------------------------------

test('an owner that gives up closes at once, and the next one binds as soon as it can', async () => {
  const [old, next] = [new TestWorker(), new TestWorker()];
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  old.own(web);
  for (const worker of [old, next]) worker.publish(part([web], backend));
  const client = UdpClient.to(web.port);
  await client.ask('one');
  // In the wrong order, as two processes may do it.
  next.own(web);
  expect(next.udp.stats()).toEqual([]);
  old.own();
  expect(old.traffic.service('game')!.current.active).toBe(0);
  expect(old.series('udp_flows_ended_total', { reason: 'drained' })).toBe(1);
  await sleep(0);
  next.clock.advance(2);
  expect(await client.ask('two')).toBe('two');
  expect(backend.flows).toBe(2);
  expect(next.udp.stats()[0]).toMatchObject({ connections: 1 });
});

test('a port that a stranger took meanwhile is tried again, ever more slowly, until it is free', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.publish(part([web], backend));
  const stranger = await occupy(web.port);
  worker.own(web);
  worker.clock.advance(500);
  expect(worker.udp.stats(), 'it may be the last owner that is just leaving').toEqual([]);
  worker.clock.advance(10_000);
  expect(worker.udp.stats()).toMatchObject([
    { name: 'games', problem: expect.stringContaining('another socket holds the port'), connections: 0 },
  ]);
  expect(worker.series('udp_unbound', { entrypoint: 'games' })).toBe(1);
  // Another publication is not held up by it.
  worker.publish(part([games(web.port, { name: 'toys' })], backend, 2));
  worker.clock.advance(10_000);
  expect(worker.udp.stats()).toMatchObject([{ name: 'toys', problem: expect.stringContaining('entrypoint toys') }]);
  expect(worker.series('udp_unbound', { entrypoint: 'games' })).toBeUndefined();
  foreign.length = 0;
  stranger.close();
  await once(stranger, 'close');
  worker.clock.advance(1000);
  expect(await UdpClient.to(web.port).ask('hello')).toBe('hello');
  expect(worker.udp.stats()).toMatchObject([{ name: 'toys', problem: null }]);
  expect(worker.series('udp_unbound', {})).toBeUndefined();
});

test('an entrypoint that is removed while its port is taken is not tried any more', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.publish(part([web], backend));
  const stranger = await occupy(web.port);
  worker.own(web);
  // The supervisor says that it is not owned any more a moment later.
  worker.publish(part([], backend, 2));
  foreign.length = 0;
  stranger.close();
  await once(stranger, 'close');
  worker.clock.advance(5000);
  expect(await isUdpPortFree(web.port)).toBe(true);
  expect(worker.udp.stats()).toEqual([]);
});

test('a worker that no longer owns what it tries to bind stops trying', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.publish(part([web], backend));
  const stranger = await occupy(web.port);
  worker.own(web);
  worker.own();
  foreign.length = 0;
  stranger.close();
  await once(stranger, 'close');
  worker.clock.advance(5000);
  expect(await isUdpPortFree(web.port)).toBe(true);
});

test('a worker that becomes owner between prepare and commit serves after the commit', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  const prepared = worker.prepare(part([web], backend));
  worker.own(web);
  expect(await isUdpPortFree(web.port)).toBe(true);
  worker.traffic.commit(prepared);
  expect(await UdpClient.to(web.port).ask('hello')).toBe('hello');
});

test('a worker that loses ownership between prepare and commit lets go of the socket', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.own(web);
  const prepared = worker.prepare(part([web], backend));
  worker.own();
  worker.traffic.commit(prepared);
  await sleep(0);
  expect(await isUdpPortFree(web.port)).toBe(true);
});

// ---- leaving ---------------------------------------------------------------------------------------------------------

test('a removed entrypoint lets its flows finish and then gives its port and its series back', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.own(web);
  worker.publish(part([web], backend));
  const client = UdpClient.to(web.port);
  await client.ask('hello');
  worker.publish(part([], backend));
  worker.own();
  expect(await client.ask('last words')).toBe('last words');
  UdpClient.to(web.port).send('too late');
  await until('the drop', () => worker.series('udp_dropped_total', { reason: 'draining' }) === 1);
  worker.clock.advance(1500);
  expect(await isUdpPortFree(web.port)).toBe(true);
  expect(worker.series('udp_datagrams_total', { entrypoint: 'games' })).toBeUndefined();
});

test('flows of a removed entrypoint that never fall silent are ended by the drain limit', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.own(web);
  worker.publish(part([web], backend));
  const client = UdpClient.to(web.port);
  await client.ask('hello');
  const removed = part([], backend);
  worker.publish({ ...removed, settings: { ...removed.settings, limits: { ...limits, streamDrainMs: 3000 } } });
  for (let i = 0; i < 4; i++) {
    await client.ask('still talking');
    worker.clock.advance(700);
  }
  await client.ask('the last');
  worker.clock.advance(300);
  expect(await isUdpPortFree(web.port)).toBe(true);
});

test('an entrypoint that comes back while it drains has never been away', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.own(web);
  worker.publish(part([web], backend));
  const client = UdpClient.to(web.port);
  await client.ask('one');
  worker.publish(part([], backend));
  worker.publish(part([web], backend));
  worker.clock.advance(30_000);
  await client.ask('two');
  expect(await UdpClient.to(web.port).ask('new here')).toBe('new here');
  expect(backend.flows).toBe(2);
});

test('an entrypoint that leaves a second time has its whole drain again', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.own(web);
  worker.publish(part([web], backend));
  const client = UdpClient.to(web.port);
  await client.ask('one');
  worker.publish(part([], backend));
  worker.publish(part([web], backend));
  const step = 100_000;
  for (let passed = step; passed <= limits.streamDrainMs - 1000; passed += step) {
    worker.clock.advance(step);
    await client.ask('there');
  }
  worker.clock.advance((limits.streamDrainMs % step || step) - 1000);
  await client.ask('two');
  worker.publish(part([], backend));
  worker.clock.advance(900);
  await client.ask('three');
  worker.clock.advance(900);
  expect(await client.ask('four')).toBe('four');
  expect(backend.flows).toBe(1);
});

test('a worker that drains is done when its flows have nothing left to say', async () => {
  const worker = new TestWorker();
  const backend = await UdpBackend.start();
  const web = games(await freeUdpPort());
  worker.own(web);
  worker.publish(part([web], backend));
  const client = UdpClient.to(web.port);
  await client.ask('hello');
  let done = false;
  const drained = worker.udp.drain().then(() => {
    done = true;
  });
  await client.ask('finishing');
  worker.clock.advance(900);
  await sleep(0);
  expect(done).toBe(false);
  worker.clock.advance(300);
  await drained;
  expect(await isUdpPortFree(web.port)).toBe(true);
});
