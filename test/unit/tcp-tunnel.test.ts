// Tunnels over real sockets: what passes between a client and a backend, and how each end of it ends the other.
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import type { RoutingPart, Service } from '../../src/model/snapshot.ts';
import { entrypoint, networkService, noRouters, routing } from '../support/routing.ts';
import { sleep, until } from '../support/wait.ts';
import { DataPlane, type End, type PlaneOptions, type TestBackend } from './tcp-kit.ts';
import { HandClock } from './upstream-kit.ts';

let plane: DataPlane;
let port: number;

afterEach(() => plane.close());

function start(options: PlaneOptions = {}): void {
  plane = new DataPlane(options);
  port = plane.lend();
}

function part(services: readonly Service[], over: Partial<RoutingPart> = {}): RoutingPart {
  return routing({
    entrypoints: [entrypoint('pg', { port, protocol: 'tcp', maxConnections: 1024 })],
    services,
    routers: { ...noRouters, tcp: [{ entrypoint: 'pg', service: 'db', terminate: null, origin: 'test' }] },
    ...over,
  });
}

const db = (addresses: readonly string[], over: Partial<Service> = {}): Service =>
  networkService('db', 1, addresses, over);

/** A client, and the backend's end of its tunnel. */
async function join(backend: TestBackend): Promise<[End, End]> {
  const known = backend.ends.length;
  const client = await plane.client(port);
  await until('the backend to be dialled', () => backend.ends.length > known);
  return [client, backend.ends[known]!];
}

describe('a tunnel', () => {
  it('passes bytes both ways as they are', async () => {
    start();
    const backend = await plane.backend();
    plane.publish(part([db([backend.address])]));
    const [client, server] = await join(backend);
    const everyByte = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    client.send(everyByte);
    await server.hasSize(256);
    expect(server.bytes).toEqual(everyByte);
    server.send('\r\n\0reply');
    await client.has('\r\n\0reply');
    expect(plane.metric('tcp_tunnels', { service: 'db' })).toBe(1);
    expect(plane.metric('tcp_bytes_total', { direction: 'received' })).toBe(256);
    expect(plane.metric('tcp_bytes_total', { direction: 'sent' })).toBe(8);
  });

  it('reaches a backend that speaks first', async () => {
    start();
    const backend = await plane.backend((end) => end.send('220 ready\r\n'));
    plane.publish(part([db([backend.address])]));
    await (await plane.client(port)).has('220 ready\r\n');
  });

  it('passes on an end of the client, and then everything that the backend still says', async () => {
    // yyyar/gobetween#117, envoyproxy/envoy#2067
    start();
    const backend = await plane.backend();
    plane.publish(part([db([backend.address])]));
    const [client, server] = await join(backend);
    const answer = randomBytes(1024 * 1024);
    client.send('req').fin();
    await server.hasFin();
    expect(server.text).toBe('req');
    await sleep(50);
    server.send(answer).fin();
    await client.hasFin();
    expect(client.bytes.equals(answer)).toBe(true);
    expect(await client.isClosed()).toBe('');
    expect(await server.isClosed()).toBe('');
    expect((await plane.log(1))[0]).toMatchObject({
      protocol: 'tcp',
      reason: 'ended',
      bytes_in: 3,
      bytes_out: answer.length,
      service: 'db',
      generation: 1,
      backend: backend.address,
      entrypoint: 'pg',
      client: '127.0.0.1',
    });
    expect(plane.metric('tcp_tunnels', { service: 'db' })).toBe(0);
  });

  it('passes on an end of the backend, and then everything that the client still says', async () => {
    start();
    const backend = await plane.backend();
    plane.publish(part([db([backend.address])]));
    const [client, server] = await join(backend);
    const upload = randomBytes(1024 * 1024);
    server.fin();
    await client.hasFin();
    client.send(upload).fin();
    await server.hasFin();
    expect(server.bytes.equals(upload)).toBe(true);
    expect(await client.isClosed()).toBe('');
  });

  it('passes on an end that came before the backend was connected', async () => {
    start();
    const backend = await plane.backend();
    plane.publish(part([db([backend.address])]));
    const client = await plane.client(port);
    client.fin();
    await until('the backend', () => backend.ends.length === 1);
    await backend.ends[0]!.hasFin();
    backend.ends[0]!.send('after the end').fin();
    await client.has('after the end');
  });

  it('passes a reset of the client on as a reset', async () => {
    start();
    const backend = await plane.backend();
    plane.publish(part([db([backend.address])]));
    const [client, server] = await join(backend);
    client.send('x');
    await server.has('x');
    client.reset();
    expect(await server.isClosed()).toBe('ECONNRESET');
    expect((await plane.log(1))[0]).toMatchObject({ reason: 'client-gone', detail: 'ECONNRESET' });
  });

  it('passes a reset of the backend on as a reset', async () => {
    start();
    const backend = await plane.backend();
    plane.publish(part([db([backend.address])]));
    const [client, server] = await join(backend);
    server.reset();
    expect(await client.isClosed()).toBe('ECONNRESET');
    expect((await plane.log(1))[0]).toMatchObject({ reason: 'upstream-failed', detail: 'ECONNRESET' });
  });

  it('delivers what the backend said before its end, although the client goes on talking to it', async () => {
    start();
    const answer = randomBytes(8 * 1024 * 1024);
    const backend = await plane.backend();
    plane.publish(part([db([backend.address])]));
    const client = await plane.client(port);
    client.socket.pause();
    await until('the backend', () => backend.ends.length === 1);
    const server = backend.ends[0]!;
    server.socket.write(answer);
    await sleep(50);
    client.socket.resume();
    server.fin();
    await client.hasSize(answer.length);
    await client.hasFin();
    // It is gone for good now: what is sent to it meets a reset, which must not reach back into what it had said.
    server.socket.destroy();
    client.send('still here?');
    await sleep(50);
    client.fin();
    expect(createHash('sha256').update(client.bytes).digest('hex')).toBe(
      createHash('sha256').update(answer).digest('hex'),
    );
  });

  it('reads a client out that talks to a backend which has ended and is gone', async () => {
    start();
    const backend = await plane.backend((end) => end.socket.pause());
    plane.publish(part([db([backend.address])]));
    const [client, server] = await join(backend);
    const upload = randomBytes(16 * 1024 * 1024);
    client.send(upload).fin();
    await sleep(200);
    server.send('enough').fin();
    await client.has('enough');
    await client.hasFin();
    server.reset();
    expect(await client.isClosed()).toBe('');
    expect((await plane.log(1))[0]).toMatchObject({ reason: 'upstream-failed', bytes_out: 6 });
  });

  it('costs little when one side stalls, and goes on when it reads again', async () => {
    start();
    const backend = await plane.backend();
    plane.publish(part([db([backend.address])]));
    const [client, server] = await join(backend);
    client.socket.pause();
    const size = 64 * 1024 * 1024;
    const block = randomBytes(64 * 1024);
    const hash = createHash('sha256');
    let sent = 0;
    const pump = async (): Promise<void> => {
      while (sent < size) {
        hash.update(block);
        sent += block.length;
        if (!server.socket.write(block)) await once(server.socket, 'drain');
      }
      server.fin();
    };
    const pumped = pump();
    let before = -1;
    await until('the sender to be stopped', async () => {
      const stopped = sent === before;
      before = sent;
      await sleep(200);
      return stopped;
    });
    // What the kernel holds on both sides is not ours; the two buffers in between are.
    expect(sent).toBeLessThan(size);
    const got = createHash('sha256');
    client.socket.removeAllListeners('data');
    client.socket.on('data', (chunk: Buffer) => got.update(chunk));
    client.socket.resume();
    await pumped;
    await client.hasFin();
    expect(got.digest('hex')).toBe(hash.digest('hex'));
  });

  it('ends when nothing moved in either direction; each direction alone keeps it alive', async () => {
    const clock = new HandClock();
    start({ clock });
    const backend = await plane.backend();
    plane.publish(part([db([backend.address])]));
    const [client, server] = await join(backend);
    client.send('a');
    await server.has('a');
    for (let i = 0; i < 3; i++) {
      clock.advance(299_000);
      server.send('b');
      await client.has('b'.repeat(i + 1));
    }
    for (let i = 0; i < 3; i++) {
      clock.advance(299_000);
      client.send('c');
      await server.has(`a${'c'.repeat(i + 1)}`);
    }
    clock.advance(299_000);
    expect([client.closed, server.closed]).toEqual([null, null]);
    clock.advance(1100);
    expect(await client.isClosed()).toBe('ECONNRESET');
    expect(await server.isClosed()).toBe('ECONNRESET');
    expect((await plane.log(1))[0]).toMatchObject({ reason: 'idle' });
  });
});

describe('a backend that cannot be had', () => {
  it('closes the client at once, and counts an error', async () => {
    start();
    const backend = await plane.backend();
    backend.server.close();
    await once(backend.server, 'close');
    plane.publish(part([db([backend.address])]));
    const client = await plane.client(port);
    expect(await client.isClosed()).toBe('ECONNRESET');
    expect((await plane.log(1))[0]).toMatchObject({ reason: 'upstream-failed', backend: backend.address });
    expect(plane.metric('entrypoint_errors_total', { entrypoint: 'pg' })).toBe(1);
    expect(plane.metric('entrypoint_accepted_total', { entrypoint: 'pg' })).toBe(0);
    expect(plane.metric('tcp_failures_total', { service: 'db' })).toBe(1);
  });

  it('is passed over for another one, once', async () => {
    start();
    const dead = await plane.backend();
    dead.server.close();
    await once(dead.server, 'close');
    const live = await plane.backend((end) => end.send('live'));
    plane.publish(part([db([dead.address, live.address], { balance: 'round_robin' })]));
    await (await plane.client(port)).has('live');
    await (await plane.client(port)).has('live');
    expect(plane.metric('entrypoint_errors_total')).toBe(0);
    expect(plane.metric('entrypoint_accepted_total')).toBe(2);
    plane.publish(part([networkService('db', 2, [dead.address, '127.0.0.1:1'])]));
    expect(await (await plane.client(port)).isClosed()).toBe('ECONNRESET');
  });

  it('is not dialled twice when the other one is down', async () => {
    start();
    const dead = await plane.backend();
    dead.server.close();
    await once(dead.server, 'close');
    plane.publish(part([db([dead.address, '127.0.0.1:1'])]), { health: { down: { db: ['127.0.0.1:1'] } } });
    await plane.dial(port).isShut();
    expect(plane.traffic.service('db')!.current.resource.stats()[0]).toMatchObject({ failures: 1, total: 1 });
  });

  it('is not held against it when it was there in between', async () => {
    start();
    const shaky = await plane.backend();
    const live = await plane.backend();
    const passive = { failures: 2, ejectMs: 60_000 };
    plane.publish(part([db([shaky.address, live.address], { balance: 'round_robin', passive })]));
    const state = (): string => plane.traffic.service('db')!.current.resource.stats()[0]!.state;
    const connects = async (): Promise<void> => {
      const open = plane.metric('tcp_tunnels');
      await plane.client(port);
      await until('a tunnel', () => plane.metric('tcp_tunnels') > open);
    };
    const goes = async (): Promise<void> => {
      for (const end of shaky.ends) end.reset();
      shaky.server.close();
      await once(shaky.server, 'close');
    };
    await goes();
    // Its turn comes first, and after a failure it comes again.
    await connects();
    shaky.server.listen(shaky.port, '127.0.0.1');
    await once(shaky.server, 'listening');
    await connects();
    expect(shaky.ends).toHaveLength(1);
    await goes();
    await until('its end', () => plane.metric('tcp_tunnels') === 1);
    await connects();
    await connects();
    expect(plane.metric('backend_failures_total', { service: 'db' })).toBe(2);
    expect(state()).toBe('live');
    await connects();
    expect(state()).toBe('ejected');
  });

  it('is given up after dial_timeout', async () => {
    const clock = new HandClock();
    start({ clock });
    plane.publish(part([db([await plane.hanging()])]));
    const client = await plane.client(port);
    await until('the dial', () => plane.traffic.service('db')!.current.active === 1);
    clock.advance(9900);
    expect(client.closed).toBeNull();
    clock.advance(200);
    expect(await client.isClosed()).toBe('ECONNRESET');
    expect((await plane.log(1))[0]).toMatchObject({ reason: 'upstream-timeout' });
  });

  it('is not dialled any further for a client that left', async () => {
    start();
    plane.publish(part([db([await plane.hanging()])]));
    const client = await plane.client(port);
    await until('the dial', () => plane.traffic.service('db')!.current.active === 1);
    client.reset();
    await until('the claim to be gone', () => plane.traffic.service('db')!.current.active === 0);
    expect((await plane.log(1))[0]).toMatchObject({ reason: 'client-gone' });
  });

  it.each([
    ['stopped', { state: 'stopped' as const }, 'stopped'],
    ['without addresses', { generation: { number: 1, backends: [], origin: '' } }, 'no-live-backend'],
  ])('because its service is %s: the client is closed', async (_, over, reason) => {
    start();
    plane.publish(part([db(['127.0.0.1:1'], over)]));
    expect(await (await plane.client(port)).isClosed()).toBe('ECONNRESET');
    expect((await plane.log(1))[0]).toMatchObject({ reason });
  });

  it('because it is down', async () => {
    start();
    const backend = await plane.backend();
    plane.publish(part([db([backend.address])]), { health: { down: { db: [backend.address] } } });
    expect(await (await plane.client(port)).isClosed()).toBe('ECONNRESET');
    expect(backend.ends).toEqual([]);
    plane.publish(part([db([backend.address])]));
    await join(backend);
  });

  it('because no router leads there', async () => {
    start();
    plane.publish(part([db(['127.0.0.1:1'])], { routers: noRouters }));
    expect(await (await plane.client(port)).isClosed()).toBe('ECONNRESET');
    expect((await plane.log(1))[0]).toMatchObject({ reason: 'no-route' });
  });
});

describe('several backends', () => {
  it('share connections by how many they have', async () => {
    start();
    const a = await plane.backend();
    const b = await plane.backend();
    plane.publish(part([db([a.address, b.address])]));
    const clients = [];
    for (let i = 0; i < 6; i++) clients.push(await plane.client(port));
    await until('all of them', () => a.ends.length + b.ends.length === 6);
    expect([a.ends.length, b.ends.length]).toEqual([3, 3]);
    for (const end of a.ends) end.fin();
    for (const client of clients) client.fin();
    await until('the ends', () => plane.metric('tcp_tunnels') <= 3);
  });

  it('hash_client sends one address to one backend', async () => {
    start();
    const a = await plane.backend();
    const b = await plane.backend();
    plane.publish(part([db([a.address, b.address], { balance: 'hash_client' })]));
    for (let i = 0; i < 4; i++) await plane.client(port);
    await until('all of them', () => a.ends.length + b.ends.length === 4);
    expect([a.ends.length, b.ends.length].toSorted()).toEqual([0, 4]);
  });

  it('take out one that failed often enough, for a while', async () => {
    start();
    const dead = await plane.backend();
    dead.server.close();
    await once(dead.server, 'close');
    const live = await plane.backend();
    const passive = { failures: 2, ejectMs: 60_000 };
    plane.publish(part([db([dead.address, live.address], { balance: 'round_robin', passive })]));
    for (let i = 0; i < 8; i++) await plane.client(port);
    await until('all of them', () => live.ends.length === 8);
    const [stats] = plane.traffic.service('db')!.current.resource.stats();
    expect(stats).toMatchObject({ state: 'ejected', failures: 2 });
  });
});
