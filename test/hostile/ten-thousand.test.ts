// Ten thousand connections that have asked once and now wait: the C10k of an edge, from four addresses.
//
// nodejs/node#46573 and its kind: kilobytes of parser, timers and closures for each connection that does nothing. Here one
// costs a socket and a few small objects, one coarse timer serves all of them, and who comes new is served as ever.
import { connect, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import { residentSize } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

const count = 10_000;
const kiB = 1024;
/** Of resident memory, all that the collector has not taken yet included. */
const mostEach = 20 * kiB;

const f = useProxy({
  workers: 1,
  entrypoint: 'max_connections = 20000\nkeep_alive_timeout = "10m"',
  // Two cores are shared with the client: being late is not what this is about.
  limits: 'overload_delay = "unlimited"',
});

const request = Buffer.from('GET / HTTP/1.1\r\nHost: alive.test\r\n\r\n');

/** A connection that was answered once and then rests. */
function resting(i: number): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port: f.webPort, localAddress: `127.0.0.${10 + (i % 4)}` });
  return new Promise((resolve, reject) => {
    socket.once('error', reject);
    socket.once('data', (data: Buffer) => {
      socket.off('error', reject);
      socket.on('error', () => {});
      socket.resume();
      if (data.toString('latin1', 0, 15) === 'HTTP/1.1 200 OK') resolve(socket);
      else reject(new Error(data.toString('latin1')));
    });
    socket.write(request);
  });
}

async function connections(): Promise<number> {
  const found = /^turnpike_entrypoint_connections\{entrypoint="web"\} (\d+)$/m.exec(await f.p.metrics());
  return Number(found?.[1] ?? -1);
}

it('cost little, keep nobody else from being served, and are gone when they go', { timeout: 120_000 }, async () => {
  const [pid = 0] = await f.p.workerPids();
  const open = async (total: number): Promise<Socket[]> => {
    const all: Socket[] = [];
    for (let i = 0; i < total; i += 100) {
      all.push(...(await Promise.all(Array.from({ length: 100 }, (_each, k) => resting(i + k)))));
    }
    return all;
  };
  // What all of them share is there before anything is measured.
  const first = await open(500);
  const before = residentSize(pid);
  const rest = await open(count - first.length);
  const all = [...first, ...rest];
  expect(await connections()).toBe(count);
  await sleep(1000);
  const each = (residentSize(pid) - before) / rest.length;
  console.log(`  ${(each / kiB).toFixed(1)} KiB for each idle connection`);
  expect(each).toBeLessThan(mostEach);

  const waits: number[] = [];
  const client = await RawClient.connect({ port: f.webPort });
  for (let i = 0; i < 200; i++) {
    const started = performance.now();
    expect((await client.ask(request.toString())).status).toBe(200);
    waits.push(performance.now() - started);
  }
  client.destroy();
  for (let i = 0; i < 50; i++) {
    const newcomer = await f.requester('h1').request();
    expect(newcomer.status).toBe(200);
  }
  waits.sort((a, b) => a - b);
  console.log(`  meanwhile p50 ${waits[100]!.toFixed(1)} ms, p99 ${waits[198]!.toFixed(1)} ms`);
  // Any of them may ask again.
  for (const socket of [all[0]!, all[count / 2]!, all[count - 1]!]) {
    const answered = new Promise<string>((resolve) => {
      socket.once('data', (data: Buffer) => resolve(data.toString('latin1', 0, 15)));
    });
    socket.write(request);
    expect(await answered).toBe('HTTP/1.1 200 OK');
  }
  expect(all.filter((socket) => socket.destroyed || socket.readableEnded)).toEqual([]);

  for (const socket of all) socket.destroy();
  // The newcomers are still there.
  await until('all of them to be gone', async () => (await connections()) === 50, { timeoutMs: 20_000, everyMs: 100 });
});
