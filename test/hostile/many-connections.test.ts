// Connections by the thousand: idle ones, ones that come and go, and more than may be.
//
// The C10k of an edge: an idle connection must cost little, one that has gone must cost nothing, and the one over the limit
// must not be what is remembered. How many is bounded by the descriptors that this process may have; the same with ten
// thousand is a matter of that limit alone.
import { readdirSync } from 'node:fs';
import type { Socket } from 'node:net';
import { connect as connectTcp } from 'node:net';
import { expect, it } from 'vitest';
import { freePort } from '../support/ports.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import { residentSize } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';
import { handshake } from '../support/websocket-frames.ts';
import { connect, get, post } from './support/flood.ts';

let narrowPort = 0;

const f = useProxy({
  workers: 1,
  more: async () => {
    narrowPort = await freePort();
    return `
[entrypoints.narrow]
address = "127.0.0.1:${narrowPort}"
protocol = "http"
max_connections = 50
`;
  },
});

const good = 'GET / HTTP/1.1\r\nHost: alive.test\r\n\r\n';
const kiB = 1024;

async function worker(): Promise<{ readonly size: number; readonly descriptors: number }> {
  const [pid] = await f.p.workerPids();
  return { size: residentSize(pid!), descriptors: readdirSync(`/proc/${pid}/fd`).length };
}

async function connections(entrypoint: string): Promise<number> {
  const found = new RegExp(`^turnpike_entrypoint_connections\\{entrypoint="${entrypoint}"\\} (\\d+)$`, 'm');
  return Number(found.exec(await f.p.metrics())?.[1] ?? -1);
}

function tcp(port: number): Promise<Socket> {
  const socket = connectTcp({ port });
  return new Promise((resolve, reject) => {
    socket.once('connect', () => {
      socket.on('error', () => {});
      resolve(socket);
    });
    socket.once('error', reject);
  });
}

/** In lots of 50, so that the backlog of the listener holds them. */
async function many<T>(count: number, open: (i: number) => Promise<T>): Promise<T[]> {
  const all: T[] = [];
  for (let i = 0; i < count; i += 50) {
    all.push(...(await Promise.all(Array.from({ length: Math.min(50, count - i) }, (_each, k) => open(i + k)))));
  }
  return all;
}

it('idle connections cost little, and nothing once they are gone', { timeout: 60_000 }, async () => {
  const kinds: readonly (readonly [string, number, number, () => Promise<{ destroy(): void }>])[] = [
    ['silent', 1500, 24 * kiB, () => tcp(f.webPort)],
    [
      'kept alive',
      500,
      96 * kiB,
      async () => {
        const client = await RawClient.connect({ port: f.webPort });
        await client.ask(good);
        return client;
      },
    ],
    [
      'kept alive over TLS',
      150,
      256 * kiB,
      async () => {
        const client = await f.secure();
        await client.ask(good);
        return client;
      },
    ],
    ['HTTP/2', 150, 256 * kiB, () => connect(f, 'h2c')],
  ];
  for (const [name, count, most, open] of kinds) {
    // The first ones bring what all of them share.
    const warm = await many(20, open);
    const before = await worker();
    const idle = await many(count, open);
    await sleep(100);
    const during = await worker();
    expect((during.size - before.size) / count, `${name}, each`).toBeLessThan(most);
    expect((await f.requester('h1').request({ host: 'alive.test' })).status).toBe(200);
    for (const each of [...warm, ...idle]) each.destroy();
    await until(
      `the descriptors of ${name} to be closed`,
      async () => (await worker()).descriptors < before.descriptors,
    );
  }
});

it('connections that come and go leave nothing', { timeout: 60_000 }, async () => {
  const base = await worker();
  const ways: readonly ((i: number) => Promise<void>)[] = [
    async () => {
      (await tcp(f.webPort)).destroy();
    },
    async () => {
      (await tcp(f.webPort)).resetAndDestroy();
    },
    async () => {
      const socket = await tcp(f.webPort);
      socket.end('GET / HT');
      socket.resume();
    },
    async () => {
      const socket = await tcp(f.webPort);
      socket.write('POST / HTTP/1.1\r\nHost: app1.test\r\nContent-Length: 9\r\n\r\nhalf');
      await sleep(1);
      socket.resetAndDestroy();
    },
    async () => {
      const socket = await tcp(f.webPort);
      socket.write('GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n');
      socket.destroy();
    },
    async () => {
      const socket = await tcp(f.webPort);
      socket.write(handshake('app1.test'));
      await sleep(1);
      socket.resetAndDestroy();
    },
    async (i) => {
      const socket = await tcp(f.securePort);
      if (i % 2 === 0) socket.write(Buffer.of(0x16, 3, 1, 1, 0));
      socket.destroy();
    },
    async () => {
      const connection = await connect(f, 'h2c');
      connection.write(Buffer.concat([get(1), post(3)]));
      connection.reset();
    },
    async (i) => {
      if (i % 10 === 0) (await f.secure()).destroy();
    },
  ];
  await many(1800, (i) => ways[i % ways.length]!(i));
  await until(
    'the connections to be gone',
    async () => (await connections('web')) + (await connections('websecure')) === 0,
    {
      timeoutMs: 15_000,
    },
  );
  await until('the backend sockets to be given up', () => f.app1.connections.every((connection) => connection.idle));
  // Pooled backend sockets may stay; there are few.
  await until('the descriptors to be closed', async () => (await worker()).descriptors < base.descriptors + 60);
  const metrics = await f.p.metrics();
  expect(metrics).toMatch(/^turnpike_http_requests_in_flight 0$/m);
});

it('those over the limit are closed at once, counted, and not remembered', async () => {
  const held = await many(50, async () => {
    const client = await RawClient.connect({ port: narrowPort });
    expect((await client.ask(good)).status).toBe(200);
    return client;
  });
  const before = await worker();
  const over = await many(500, () => tcp(narrowPort));
  await until('the others to be closed', () => {
    for (const socket of over) socket.resume();
    return over.every((socket) => socket.destroyed || socket.readableEnded);
  });
  expect(await connections('narrow')).toBe(50);
  expect((await worker()).descriptors).toBeLessThan(before.descriptors + 5);
  expect(await f.p.metrics()).toMatch(/^turnpike_entrypoint_refused_total\{entrypoint="narrow",reason="limit"\} 500$/m);
  // Those who hold a place keep it, and other entrypoints do not notice.
  expect((await held[0]!.ask(good)).status).toBe(200);
  expect((await f.requester('h1').request({ host: 'alive.test' })).status).toBe(200);
  for (const client of held) client.destroy();
  await until('a place', async () => {
    const client = await RawClient.connect({ port: narrowPort });
    const answer = await client.ask(good).catch(() => null);
    client.destroy();
    return answer?.status === 200;
  });
});
