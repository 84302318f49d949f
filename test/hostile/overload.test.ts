// A machine that is not enough: descriptors run out, or the event loop comes late to everything.
//
// caddyserver/caddy#1964, traefik/traefik#2673: "accept: too many open files", and with the last descriptor goes every
// connection to a backend, so that those who are served already are hurt as well. nodejs/node#1188 and its kind: a process
// that is behind takes on more and falls further behind. Here idle connections go first, then new work, then accepting;
// what Turnpike answers itself goes on, and it comes back by itself.
import { describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import { sleep, until } from '../support/wait.ts';
import { handshake } from '../support/websocket-frames.ts';

const own = 'GET / HTTP/1.1\r\nHost: alive.test\r\n\r\n';
const forwarded = 'GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n';

type Fixture = ReturnType<typeof useProxy>;

const rungs = (f: Fixture): unknown[] =>
  f.p.log.filter((line) => line.event === 'overload').map((line) => line['rung']);

const load = async (f: Fixture) => (await f.p.status()).workers[0]?.load ?? null;

function calmAgain(f: Fixture): Promise<boolean> {
  return until('the worker to be calm again', async () => (await load(f))?.rung === 'calm', {
    timeoutMs: 25_000,
    everyMs: 100,
    seen: () => rungs(f),
  });
}

async function value(f: Fixture, series: string): Promise<number> {
  const line = (await f.p.metrics()).split('\n').find((each) => each.startsWith(`${series} `));
  return Number(line?.split(' ')[1] ?? 0);
}

/** Asks again and again until stopped; statuses and the longest wait. */
class Visitor {
  readonly statuses: number[] = [];
  longestMs = 0;
  #running = true;
  readonly #client: RawClient;
  readonly #done: Promise<void>;

  constructor(client: RawClient, request: string) {
    this.#client = client;
    this.#done = this.#run(request);
  }

  async stop(): Promise<void> {
    this.#running = false;
    await this.#done;
    this.#client.destroy();
  }

  async #run(request: string): Promise<void> {
    while (this.#running) {
      const started = performance.now();
      const answer = await this.#client.ask(request);
      this.longestMs = Math.max(this.longestMs, performance.now() - started);
      this.statuses.push(answer.status);
      if (answer.status === 503) expect(answer.head).toMatch(/^Retry-After: 5\r$/m);
      await sleep(20);
    }
  }
}

describe('with 256 descriptors', () => {
  const f = useProxy({ workers: 1, descriptors: 256, limits: 'backend_connections = 1000' });

  it('those who hold connections and ask for nothing lose them; who asks is served all the time', async () => {
    const [pid] = await f.p.workerPids();
    const visitor = new Visitor(await f.plain(), own);
    const user = new Visitor(await f.plain(), forwarded);
    const greedy: RawClient[] = [];
    for (let i = 0; i < 400; i += 40) {
      const lot = await Promise.all(
        Array.from({ length: 40 }, () => RawClient.connect({ port: f.webPort }).catch(() => null)),
      );
      greedy.push(...lot.filter((each) => each !== null));
      await sleep(20);
    }
    await until('accepting to stop', () => rungs(f).includes('stop-accepting'), { seen: () => rungs(f) });
    // The greedy ones do not give up: nothing but their idleness ends them.
    await until('idle connections to be closed', () => greedy.filter((each) => each.ended).length > 250, {
      timeoutMs: 10_000,
      seen: () => greedy.filter((each) => each.ended).length,
    });
    await until('newcomers to be served', async () => {
      const client = await f.plain();
      const answer = await client.ask(own).catch(() => null);
      client.destroy();
      return answer?.status === 200;
    });
    await visitor.stop();
    await user.stop();
    expect(new Set(visitor.statuses)).toEqual(new Set([200]));
    expect(visitor.statuses.length).toBeGreaterThan(20);
    // Its backend connection is there: at worst it is asked to come again.
    expect(user.statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
    expect(user.statuses.at(0)).toBe(200);
    for (const each of greedy) each.destroy();
    await calmAgain(f);
    expect(await f.p.workerPids()).toEqual([pid]);
    expect(await value(f, 'turnpike_overload_closed_idle_total')).toBeGreaterThan(150);
    expect(await value(f, 'turnpike_overload_changes_total{rung="stop-accepting"}')).toBeGreaterThan(0);
    expect(f.p.output).not.toContain('EMFILE');
  });

  it('those who keep them busy are not cut, and new work is refused until they are done', async () => {
    const before = await value(f, 'turnpike_overload_shed_total{kind="request"}');
    const visitor = new Visitor(await f.plain(), own);
    const uploads: RawClient[] = [];
    // Each holds a descriptor here and one towards the backend.
    for (let i = 0; i < 120 && ((await load(f))?.descriptors ?? 0) < 234; i++) {
      const client = await f.plain();
      client.write(`POST /${i} HTTP/1.1\r\nHost: app1.test\r\nContent-Length: 5\r\n\r\nhalf`);
      uploads.push(client);
    }
    await until('new work to be refused', () => rungs(f).slice(-1)[0] === 'shed', {
      seen: () => rungs(f),
    });
    const statuses: number[] = [];
    const late = await f.plain();
    for (let i = 0; i < 12; i++) {
      const answer = await late.ask(forwarded);
      statuses.push(answer.status);
      await sleep(100);
    }
    expect(statuses).toContain(503);
    const socket = await f.plain();
    socket.write(handshake('app1.test'));
    expect((await socket.readAnswer()).status).toBe(503);
    await visitor.stop();
    expect(new Set(visitor.statuses)).toEqual(new Set([200]));
    for (const each of uploads) each.write('!');
    for (const each of uploads) expect((await each.readAnswer()).status).toBe(200);
    for (const each of [...uploads, late, socket]) each.destroy();
    await calmAgain(f);
    expect(await value(f, 'turnpike_overload_shed_total{kind="request"}')).toBeGreaterThan(before);
    expect(await value(f, 'turnpike_overload_shed_total{kind="websocket"}')).toBeGreaterThan(0);
    const reasons = f.p.accessLog.filter((line) => line['status'] === 503).map((line) => line['reason']);
    expect(new Set(reasons)).toEqual(new Set(['overloaded']));
  });
});

describe('with an event loop that is always late', () => {
  const f = useProxy({ workers: 1, limits: 'overload_delay = "300ms"' });

  it('new work is refused, own answers go on, and it comes back by itself', { timeout: 60_000 }, async () => {
    const [pid = 0] = await f.p.workerPids();
    const late = await f.plain();
    const early = await f.plain();
    expect((await early.ask(forwarded)).status).toBe(200);
    // What a worker sees of a machine that has no time for it: it stands still for most of every second.
    let starved = true;
    const starving = (async () => {
      while (starved) {
        process.kill(pid, 'SIGSTOP');
        await sleep(800);
        process.kill(pid, 'SIGCONT');
        await sleep(120);
      }
    })();
    try {
      const statuses: number[] = [];
      await until(
        'a request to be refused',
        async () => {
          const answer = await late.ask(forwarded);
          statuses.push(answer.status);
          return answer.status === 503;
        },
        { timeoutMs: 20_000, seen: () => [statuses, rungs(f)] },
      );
      const visitor = new Visitor(await f.plain(), own);
      await sleep(2500);
      await visitor.stop();
      expect(new Set(visitor.statuses)).toEqual(new Set([200]));
    } finally {
      starved = false;
      await starving;
    }
    await calmAgain(f);
    // Those that asked for nothing meanwhile are gone.
    expect((await (await f.plain()).ask(forwarded)).status).toBe(200);
    expect(await f.p.workerPids()).toEqual([pid]);
    expect(rungs(f)).toContain('shed');
    expect(rungs(f).at(-1)).toBe('calm');
  });
});
