import { lookup } from 'node:dns/promises';
import net from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Fault } from '../../src/base/fault.ts';
import { Fields } from '../../src/message/fields.ts';
import type { Service } from '../../src/model/snapshot.ts';
import { Backends } from '../../src/upstream/backends.ts';
import { Attempt } from '../../src/upstream/connect.ts';
import { freePort } from '../support/ports.ts';
import { Recorder, type RecorderOptions } from '../support/recorder.ts';
import { limits, service } from '../support/routing.ts';
import { until } from '../support/wait.ts';
import { ask, HandClock, Heard, requestHead, upstreamDeps } from './upstream-kit.ts';

let deps = upstreamDeps();
const open: { close(): unknown }[] = [];
beforeEach(() => {
  deps = upstreamDeps();
});
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
  deps.deadlines.close();
});

/** Deadlines that only move by hand. */
function handClock(): HandClock {
  const clock = new HandClock();
  deps.deadlines.close();
  deps = { ...upstreamDeps(clock), ...(deps.onEjected === undefined ? {} : { onEjected: deps.onEjected }) };
  return clock;
}

async function recorder(options: RecorderOptions = {}): Promise<Recorder> {
  const started = await Recorder.start(options);
  open.push(started);
  return started;
}

function backendsOf(addresses: readonly string[], over: Partial<Service> = {}, down: readonly string[] = []): Backends {
  const backends = new Backends(service('app.test', 1, addresses, over), down, deps);
  open.push(backends);
  return backends;
}

async function get(backends: Backends, over: Parameters<typeof ask>[0] = {}): Promise<Heard> {
  const heard = new Heard((stream) => stream.sendHead(over.head ?? requestHead(), true));
  backends.open(ask(over), heard);
  return heard.end();
}

describe('connections over HTTP/1.1', () => {
  it('are kept and found again at once', async () => {
    const target = await recorder();
    const backends = backendsOf([target.address]);
    await get(backends);
    const again = new Heard();
    backends.open(ask(), again);
    expect(again.events).toEqual(['ready']);
    expect(again.stream!.reused).toBe(true);
    await again.end();
    expect(target.connections.length).toBe(1);
    expect(backends.stats()[0]).toMatchObject({ inflight: 0, connections: 1, total: 2, failures: 0 });
  });

  it('are reused latest first', async () => {
    const target = await recorder();
    const backends = backendsOf([target.address]);
    await Promise.all([get(backends), get(backends), get(backends)]);
    expect(target.connections.length).toBe(3);
    for (let i = 0; i < 5; i++) await get(backends);
    expect(target.connections.map((each) => each.exchanges.length).sort()).toEqual([1, 1, 6]);
  });

  it('serve the request that waits longest, new or freed, whichever is ready first', async () => {
    const target = await recorder();
    target.script = () => {};
    const backends = backendsOf([target.address], { backendLimits: { ...limits, backendConnections: 1 } });
    const [first, second, third] = [new Heard(), new Heard(), new Heard()];
    for (const each of [first, second, third]) backends.open(ask(), each);
    await target.waitForExchange(1);
    expect(backends.stats()[0]).toMatchObject({ inflight: 1, connections: 1, waiting: 2 });
    target.exchanges[0]!.ok();
    await target.waitForExchange(2);
    expect([first.ended, second.stream !== null, third.stream]).toEqual([true, true, null]);
    target.exchanges[1]!.ok();
    await target.waitForExchange(3);
    target.exchanges[2]!.ok();
    await third.end();
    expect(target.connections.length).toBe(1);
  });

  it('are never more than the limit; who waits too long is told so', async () => {
    const clock = handClock();
    const target = await recorder();
    target.script = () => {};
    const backends = backendsOf([target.address], { backendLimits: { ...limits, backendConnections: 2 } });
    const heard = Array.from({ length: 4 }, () => new Heard());
    for (const each of heard) backends.open(ask(), each);
    await target.waitForExchange(2);
    clock.advance(5100);
    expect(heard.map((each) => each.fault?.code)).toEqual([undefined, undefined, 'over-capacity', 'over-capacity']);
    expect(target.connections.length).toBe(2);
  });

  it('have a bounded queue', async () => {
    const target = await recorder();
    target.script = () => {};
    const backends = backendsOf([target.address], { backendLimits: { ...limits, backendConnections: 1 } });
    const heard = Array.from({ length: 1200 }, () => new Heard());
    for (const each of heard) backends.open(ask(), each);
    expect(heard.filter((each) => each.fault?.code === 'over-capacity').length).toBe(1200 - 1024);
  });

  it('give a cancelled request no connection, and keep the connection for the next one', async () => {
    const target = await recorder();
    const backends = backendsOf([target.address]);
    const gone = new Heard();
    backends.open(ask(), gone).cancel();
    await until('the connection', () => backends.stats()[0]!.connections === 1);
    expect(gone.events).toEqual([]);
    const next = new Heard();
    backends.open(ask(), next);
    expect(next.events).toEqual(['ready']);
  });

  it('are closed when they were idle for too long, and only then', async () => {
    const clock = handClock();
    const target = await recorder();
    const backends = backendsOf([target.address], {
      backendLimits: { ...limits, backendKeepAliveTimeoutMs: 10_000 },
    });
    await Promise.all([get(backends), get(backends)]);
    clock.advance(6000);
    await get(backends);
    clock.advance(6000);
    await until('the surplus to be closed', () => target.open.length === 1);
    await get(backends);
    expect(target.connections.length).toBe(2);
    clock.advance(11_000);
    await until('the last to be closed', () => target.open.length === 0);
    expect(backends.stats()[0]!.connections).toBe(0);
  });

  it('are given up before the backend does, when it says how long it keeps them', async () => {
    const clock = handClock();
    const target = await recorder();
    target.script = (exchange) => void exchange.ok('ok', 'Keep-Alive: timeout=5, max=100\r\n');
    const backends = backendsOf([target.address]);
    await get(backends);
    clock.advance(3900);
    await get(backends);
    clock.advance(3900);
    expect(backends.stats()[0]!.connections).toBe(1);
    clock.advance(200);
    await until('the connection to be closed', () => target.open.length === 0);
    expect(target.connections.length).toBe(1);
  });

  it('are not used again once the backend closed them', async () => {
    const target = await recorder();
    const backends = backendsOf([target.address]);
    await get(backends);
    target.connections[0]!.fin();
    await until('the close to be noticed', () => backends.stats()[0]!.connections === 0);
    const heard = await get(backends);
    expect([heard.ended, heard.stream!.reused]).toEqual([true, false]);
  });

  it('are not used again when bytes nobody asked for arrive on them', async () => {
    const target = await recorder();
    const backends = backendsOf([target.address]);
    await get(backends);
    target.connections[0]!.send('HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad');
    await until('the connection to be dropped', () => backends.stats()[0]!.connections === 0);
    expect((await get(backends)).body).toBe(target.name);
  });

  it('are not used again after bytes behind an answer', async () => {
    const target = await recorder();
    target.script = (exchange) =>
      void exchange.reply('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n');
    const backends = backendsOf([target.address]);
    expect((await get(backends)).body).toBe('ok');
    await until('the connection to be dropped', () => backends.stats()[0]!.connections === 0);
  });

  it('are fresh for a second try, even when idle ones stand by or the limit is reached', async () => {
    const target = await recorder();
    const backends = backendsOf([target.address], { backendLimits: { ...limits, backendConnections: 2 } });
    await Promise.all([get(backends), get(backends)]);
    expect(backends.stats()[0]!.connections).toBe(2);
    const heard = await get(backends, { replay: true });
    expect([heard.ended, heard.stream!.reused]).toEqual([true, false]);
    expect(target.open.length).toBeLessThanOrEqual(2);
  });

  it('tell a stale one from a failing backend: retry what is harmless, count nothing', async () => {
    const target = await recorder();
    const backends = backendsOf([target.address, '127.0.0.1:1'], { passive: { failures: 1, ejectMs: 10_000 } }, [
      '127.0.0.1:1',
    ]);
    await get(backends);
    target.script = (exchange) => exchange.connection.reset();
    const heard = await get(backends);
    expect([heard.stream!.reused, heard.fault?.code, heard.fault?.retry]).toEqual([
      true,
      'upstream-reset',
      'idempotent',
    ]);
    expect(backends.stats()[0]).toMatchObject({ state: 'live', failures: 0 });
  });
});

describe('connecting', () => {
  it('reports a refusal, and that trying elsewhere is harmless', async () => {
    const heard = await get(backendsOf([`127.0.0.1:${await freePort()}`]));
    expect(heard.fault).toMatchObject({ code: 'upstream-refused', retry: 'yes', status: 502 });
  });

  it('reports a name that does not resolve', async () => {
    expect((await get(backendsOf(['no-such-host.invalid:80']))).fault?.code).toBe('upstream-refused');
  });

  it('gives up when nothing answers in time', async () => {
    const clock = handClock();
    const faults: Fault[] = [];
    const attempt = new Attempt('192.0.2.1:80', null, deps.deadlines, {
      connected: () => expect.unreachable(),
      connectFailed: (fault) => void faults.push(fault),
    });
    // A socket that never gets anywhere, as behind a firewall that drops.
    const socket = new net.Socket();
    attempt.begin(socket, 5000);
    clock.advance(4900);
    expect(faults).toEqual([]);
    clock.advance(200);
    expect(faults.map((fault) => [fault.code, fault.retry])).toEqual([['upstream-connect-timeout', 'yes']]);
    expect(socket.destroyed).toBe(true);
    clock.advance(60_000);
    expect(faults.length).toBe(1);
  });

  it('reaches IPv6 literals, and localhost on every address that it has', async () => {
    const names = await lookup('localhost', { all: true });
    const reached: boolean[] = [];
    for (const { address, family } of [{ address: '::1', family: 0 }, ...names]) {
      const target = await recorder({ host: address });
      const heard = await get(backendsOf([family === 0 ? `[::1]:${target.port}` : `localhost:${target.port}`]));
      reached.push(heard.ended);
    }
    expect(reached).toEqual(new Array(names.length + 1).fill(true));
  });
});

describe('choosing a backend', () => {
  it('sends a request to the least busy one, and round robin among equals', async () => {
    const targets = [await recorder(), await recorder(), await recorder()];
    const backends = backendsOf(targets.map((each) => each.address));
    for (let i = 0; i < 6; i++) await get(backends);
    expect(targets.map((each) => each.exchanges.length)).toEqual([2, 2, 2]);
    targets[0]!.script = () => {};
    targets[1]!.script = () => {};
    const slow = [new Heard(), new Heard(), new Heard()];
    for (const each of slow) backends.open(ask(), each);
    await slow[2]!.end();
    for (let i = 0; i < 4; i++) await get(backends);
    expect(targets.map((each) => each.exchanges.length)).toEqual([3, 3, 7]);
  });

  it('leaves out backends that are down, follows changes, and fails when none is left', async () => {
    const targets = [await recorder(), await recorder()];
    const addresses = targets.map((each) => each.address);
    const made = service('app.test', 1, addresses);
    const backends = new Backends(made, [addresses[0]!], deps);
    open.push(backends);
    for (let i = 0; i < 3; i++) await get(backends);
    expect(targets.map((each) => each.exchanges.length)).toEqual([0, 3]);
    backends.update(made, addresses);
    const heard = await get(backends);
    expect(heard.fault).toMatchObject({ code: 'no-live-backend', status: 503 });
    backends.update(made, [addresses[1]!]);
    for (let i = 0; i < 3; i++) await get(backends);
    expect(targets.map((each) => each.exchanges.length)).toEqual([3, 3]);
    expect(backends.stats().map((each) => each.state)).toEqual(['returning', 'down']);
  });

  it('avoids the backend that just failed, unless there is no other', async () => {
    const targets = [await recorder(), await recorder()];
    const [a, b] = targets.map((each) => each.address);
    const backends = backendsOf([a!, b!]);
    for (let i = 0; i < 4; i++) await get(backends, { avoid: a! });
    expect(targets.map((each) => each.exchanges.length)).toEqual([0, 4]);
    backends.update(service('app.test', 1, [a!, b!]), [b!]);
    expect((await get(backends, { avoid: a! })).ended).toBe(true);
  });

  it.each([
    ['hash_client', '', (i: number) => ({ clientAddress: `192.0.2.${i}` })],
    ['hash_header', 'X-Tenant', (i: number) => ({ head: requestHead({ fields: Fields.of(['x-tenant', `t${i}`]) }) })],
    ['hash_cookie', 'sid', (i: number) => ({ head: requestHead({ fields: Fields.of(['Cookie', `a=b; sid=s${i}`]) }) })],
  ] as const)(
    '%s keeps a client on its backend and moves only those of a lost one',
    async (balance, balanceKey, over) => {
      const targets = [await recorder(), await recorder(), await recorder()];
      const addresses = targets.map((each) => each.address);
      const made = service('app.test', 1, addresses, { balance, balanceKey });
      const backends = new Backends(made, [], deps);
      open.push(backends);
      const where = async (): Promise<string[]> => {
        const seen: string[] = [];
        for (let i = 0; i < 24; i++) seen.push((await get(backends, over(i))).stream!.address);
        return seen;
      };
      const before = await where();
      expect(await where()).toEqual(before);
      expect(new Set(before).size).toBe(3);
      backends.update(made, [addresses[1]!]);
      const after = await where();
      for (const [i, address] of before.entries()) {
        if (address === addresses[1]) expect(after[i]).not.toBe(address);
        else expect(after[i]).toBe(address);
      }
    },
  );

  it('follows the sticky cookie, sets it when it is missing or names another, and ignores a forged one', async () => {
    const targets = [await recorder(), await recorder(), await recorder()];
    const addresses = targets.map((each) => each.address);
    const backends = backendsOf(addresses, { stickyCookie: 'route' });
    const first = await get(backends);
    const made = backends.stickyAnswer(ask(), first.stream!)!;
    expect(made).toMatch(/^route=[^;]+; Path=\/; HttpOnly; SameSite=Lax$/);
    const pinned = ask({ head: requestHead({ fields: Fields.of(['Cookie', made.split(';')[0]!]) }) });
    for (let i = 0; i < 6; i++) {
      const heard = await get(backends, pinned);
      expect(heard.stream!.address).toBe(first.stream!.address);
      expect(backends.stickyAnswer(pinned, heard.stream!)).toBeNull();
    }
    const forged = ask({ head: requestHead({ fields: Fields.of(['Cookie', `route=${first.stream!.address}`]) }) });
    const seen = new Set<string>();
    for (let i = 0; i < 6; i++) seen.add((await get(backends, forged)).stream!.address);
    expect(seen.size).toBe(3);
    expect(backends.stickyAnswer(forged, first.stream!)).toBe(made);
    backends.update(service('app.test', 1, addresses, { stickyCookie: 'route' }), [first.stream!.address]);
    const moved = await get(backends, pinned);
    expect(moved.stream!.address).not.toBe(first.stream!.address);
    expect(backends.stickyAnswer(pinned, moved.stream!)).toContain('route=');
  });
});

describe('passive health', () => {
  it('ejects after consecutive failures, tells so, and tries again with a single request', async () => {
    const ejected: [string, string, number][] = [];
    deps = { ...deps, onEjected: (...args) => ejected.push(args) };
    const clock = handClock();
    const port = await freePort();
    const bad = `127.0.0.1:${port}`;
    const good = await recorder();
    const backends = backendsOf([bad, good.address], {
      balance: 'round_robin',
      passive: { failures: 3, ejectMs: 10_000 },
    });
    const codes: (string | undefined)[] = [];
    for (let i = 0; i < 8; i++) codes.push((await get(backends)).fault?.code);
    expect(codes.filter((code) => code === 'upstream-refused').length).toBe(3);
    expect(ejected).toEqual([['app.test', bad, clock.now() + 10_000]]);
    expect(backends.stats()[0]).toMatchObject({ state: 'ejected', failures: 3 });

    clock.advance(10_100);
    const back = await recorder({ port });
    back.script = () => {};
    const heard = Array.from({ length: 6 }, () => new Heard());
    for (const each of heard) backends.open(ask(), each);
    await back.waitForExchange(1);
    await until('the others to be served', () => heard.filter((each) => each.ended).length === 5);
    expect(back.exchanges.length).toBe(1);
    expect(backends.stats()[0]!.state).toBe('returning');
    back.exchanges[0]!.ok();
    await until('the trial to end', () => heard.every((each) => each.ended));
    back.script = Recorder.plain;
    for (let i = 0; i < 12; i++) await get(backends);
    expect(backends.stats()[0]!.state).toBe('live');
  });

  it('says so when every backend is out', async () => {
    const clock = handClock();
    const addresses = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
    const backends = backendsOf(addresses, { passive: { failures: 1, ejectMs: 10_000 } });
    await get(backends);
    await get(backends);
    expect((await get(backends)).fault?.code).toBe('no-live-backend');
    clock.advance(10_100);
    expect((await get(backends)).fault?.code).toBe('upstream-refused');
  });

  it('sends more than its share to a returning backend when there is no other', async () => {
    const [target, other] = [await recorder(), await recorder()];
    const addresses = [target.address, other.address];
    const made = service('app.test', 1, addresses);
    const backends = new Backends(made, [target.address], deps);
    open.push(backends);
    backends.update(made, [other.address]);
    target.script = () => {};
    const heard = [new Heard(), new Heard(), new Heard()];
    for (const each of heard) backends.open(ask(), each);
    await target.waitForExchange(3);
    expect(backends.stats()[0]!.state).toBe('returning');
  });

  it('never ejects the only backend of a service', async () => {
    const backends = backendsOf([`127.0.0.1:${await freePort()}`], { passive: { failures: 1, ejectMs: 10_000 } });
    for (let i = 0; i < 4; i++) expect((await get(backends)).fault?.code).toBe('upstream-refused');
  });

  it('counts resets of fresh connections, and no client that left', async () => {
    const bad = await recorder();
    const good = await recorder();
    const backends = backendsOf([bad.address, good.address], { passive: { failures: 2, ejectMs: 10_000 } }, [
      good.address,
    ]);
    bad.script = () => {};
    for (let i = 0; i < 5; i++) {
      const heard = new Heard();
      backends.open(ask(), heard);
      await bad.waitForExchange(i + 1);
      heard.stream!.abort();
    }
    expect(backends.stats()[0]).toMatchObject({ state: 'live', failures: 0 });
    bad.script = (exchange) => exchange.connection.reset();
    for (let i = 0; i < 2; i++) expect((await get(backends)).fault?.code).toBe('upstream-reset');
    expect(backends.stats()[0]).toMatchObject({ state: 'ejected', failures: 2 });
  });
});

describe('the life of a generation', () => {
  it('keeps nothing idle once retired, and still serves what is claimed', async () => {
    const target = await recorder();
    const backends = backendsOf([target.address]);
    await get(backends);
    target.script = () => {};
    const running = new Heard();
    backends.open(ask(), running);
    await target.waitForExchange(2);
    backends.retire();
    const late = new Heard();
    backends.open(ask(), late);
    await target.waitForExchange(3);
    for (const exchange of target.exchanges.slice(1)) exchange.ok();
    await Promise.all([running.end(), late.end()]);
    expect([running.ended, late.ended]).toEqual([true, true]);
    await until('all sockets to be closed', () => target.open.length === 0);
  });

  it('closes idle connections at once when retired', async () => {
    const target = await recorder();
    const backends = backendsOf([target.address]);
    await Promise.all([get(backends), get(backends)]);
    backends.retire();
    await until('all sockets to be closed', () => target.open.length === 0);
  });

  it('ends everything on close', async () => {
    const target = await recorder();
    target.script = () => {};
    const backends = backendsOf([target.address], { backendLimits: { ...limits, backendConnections: 1 } });
    const [running, waiting] = [new Heard(), new Heard()];
    backends.open(ask(), running);
    backends.open(ask(), waiting);
    await target.waitForExchange(1);
    backends.close();
    await Promise.all([running.end(), waiting.end()]);
    expect(waiting.fault?.code).toBe('drained');
    await until('all sockets to be closed', () => target.open.length === 0);
    expect((await get(backends)).fault).not.toBeNull();
  });

  it('moves to another protocol without disturbing what runs', async () => {
    const target = await recorder();
    target.script = () => {};
    const made = service('app.test', 1, [target.address]);
    const backends = new Backends(made, [], deps);
    open.push(backends);
    const running = new Heard();
    backends.open(ask(), running);
    await target.waitForExchange(1);
    backends.update({ ...made, protocol: 'h2c' }, []);
    const h2 = new Heard();
    backends.open(ask(), h2);
    await until('the preface', () => target.text.includes('PRI * HTTP/2.0'));
    target.exchanges[0]!.ok();
    await running.end();
    expect(running.ended).toBe(true);
    await until('the old connection to be closed', () => !target.connections[0]!.open);
  });

  it('counts a tunnel until its socket closes', async () => {
    const target = await recorder();
    target.script = (exchange) =>
      void exchange.reply('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly');
    const backends = backendsOf([target.address]);
    const heard = new Heard((stream) => stream.sendHead(requestHead({ upgrade: 'websocket' }), true));
    backends.open(ask(), heard);
    await heard.end();
    expect(backends.stats()[0]).toMatchObject({ inflight: 1, connections: 1 });
    heard.tunnel!.on('error', () => {});
    heard.tunnel!.destroy();
    await until('the tunnel to be forgotten', () => backends.stats()[0]!.inflight === 0);
    expect(backends.stats()[0]!.connections).toBe(0);
  });

  it('counts open connections, connects, failures and ejections of the service', async () => {
    const target = await recorder();
    const backends = backendsOf([target.address]);
    await get(backends);
    const series = new Map(deps.metrics.collect().map((each) => [each.name, each.values[0]]));
    expect(series.get('turnpike_backend_connections')).toMatchObject({ labels: { service: 'app.test' }, value: 1 });
    expect(series.get('turnpike_backend_connects_total')).toMatchObject({ value: 1 });
    backends.close();
    await until('the gauge to fall', () => {
      const gauge = deps.metrics.collect().find((each) => each.name === 'turnpike_backend_connections');
      return gauge?.values[0]?.value === 0;
    });
  });
});
