// The guarantees of a switch, by an independent client log: nothing fails, nothing is stale, old backends may go.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { TestCa } from '../support/certificates.ts';
import { ClientLog } from '../support/client-log.ts';
import { GenerationBackend, LastingWebSocket, Load } from '../support/generations.ts';
import { closeH2Connections } from '../support/h2-frames.ts';
import { freePorts } from '../support/ports.ts';
import { closeRawClients, RawClient } from '../support/raw-client.ts';
import { repository, Turnpike } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

const ca = new TestCa('Switchover tests');
const pair = ca.leaf(['app.test', 'still.test']);
const backends: GenerationBackend[] = [];

afterEach(() => {
  closeRawClients();
  closeH2Connections();
  for (const backend of backends.splice(0)) backend.stop();
});

async function backend(number: number): Promise<GenerationBackend> {
  const started = await GenerationBackend.start(number);
  backends.push(started);
  return started;
}

interface StartOptions {
  readonly workers?: number;
  readonly route?: string;
  readonly more?: string;
  readonly entry?: string;
  readonly env?: Readonly<Record<string, string>>;
}

async function start(first: GenerationBackend, options: StartOptions = {}) {
  const [web, secure] = (await freePorts(2)) as [number, number];
  const { entry, env } = options;
  const p = await Turnpike.start({
    ...(entry === undefined ? {} : { entry }),
    ...(env === undefined ? {} : { env }),
    config: `
workers = ${options.workers ?? 2}
[entrypoints.web]
address = "127.0.0.1:${web}"
protocol = "http"
[entrypoints.websecure]
address = "127.0.0.1:${secure}"
protocol = "https"
[tls]
redirect = false
[[tls.certificate]]
cert_file = "${pair.certFile}"
key_file = "${pair.keyFile}"
[log]
access = false
format = "json"
[external_routes."app.test"]
to = ["${first.address}"]
${options.route ?? ''}
${options.more ?? ''}
`,
  });
  return { p, target: { plainPort: web, tlsPort: secure, ca: ca.pem } };
}

async function switches(count: number, workers: number): Promise<void> {
  const first = await backend(0);
  const still = await backend(1000);
  const { p, target } = await start(first, {
    workers,
    route: 'stream_drain = "2s"',
    more: `[external_routes."still.test"]\nto = ["${still.address}"]\n`,
  });
  const log = new ClientLog();
  const load = new Load({ target, host: 'app.test', log, h1Clients: 12, h2Connections: 3, h2Streams: 4, wsClients: 4 });
  // Another service's WebSockets, which nothing here may touch.
  const lasting = await Promise.all(
    Array.from({ length: 10 }, () => LastingWebSocket.open(target.plainPort, 'still.test')),
  );
  await sleep(200);
  const reports: Promise<void>[] = [];
  const problems: string[] = [];
  let previous = first;
  for (let number = 1; number <= count; number++) {
    const next = await backend(number);
    const old = previous;
    await new Promise<void>((resolve, reject) => {
      const done = p
        .switchService('app.test', [next.address], {
          acknowledged: (at) => {
            log.acknowledgements.push({ at, generation: number });
            resolve();
          },
        })
        .then(({ report }) => {
          // Guarantee (e): "drained" means that the old backends may be stopped, and here they are.
          if (old.number > 0 || count > 0) old.stop();
          if (!report.clean) problems.push(`switch ${number}: ${JSON.stringify(report)}`);
        })
        .catch(reject);
      reports.push(done as Promise<void>);
    });
    previous = next;
    if (number % 20 === 0) for (const each of lasting) expect(await each.ask()).toBe(1000);
  }
  await sleep(300);
  await load.stop();
  await Promise.all(reports);
  expect(lasting.filter((each) => !each.open).length, 'WebSockets of another service that ended').toBe(0);
  for (const each of lasting) expect(await each.ask()).toBe(1000);
  expect(log.acknowledgements.length).toBe(count);
  const failures = log.failures.map(({ kind, failure, sentAt }) => `${kind} at ${Math.round(sentAt)}: ${failure}`);
  expect(failures.slice(0, 20), `${failures.length} of ${log.entries.length} failed`).toEqual([]);
  expect(log.afterAcknowledgement.slice(0, 5), 'guarantee (a)').toEqual([]);
  expect(log.goingBack.slice(0, 5), 'guarantee (b)').toEqual([]);
  for (const kind of ['h1', 'h2', 'ws'] as const) expect(log.count(kind), kind).toBeGreaterThan(count);
  expect(problems, 'what the reports say').toEqual([]);
  closeRawClients();
  closeH2Connections();
  await p.stop();
}

describe('200 switches under load', () => {
  it('with two workers lose nothing and never go back', { timeout: 180_000 }, async () => {
    await switches(200, 2);
  });

  it('with one worker as well (50 of them)', { timeout: 90_000 }, async () => {
    await switches(50, 1);
  });
});

describe('a worker that lags behind', () => {
  // One worker commits at once, the other one is told 300 ms later: whatever reaches the late one meanwhile was sent
  // after clients had seen the new backend.
  it('never answers from the old backend once another one answered from the new', { timeout: 60_000 }, async () => {
    const first = await backend(0);
    const stepFile = join(tmpdir(), `turnpike-step-${process.pid}`);
    const { p, target } = await start(first, {
      entry: join(repository, 'test/support/stepping-entry.ts'),
      env: { TURNPIKE_TEST_STEP: stepFile },
    });
    const log = new ClientLog();
    const load = new Load({
      target,
      host: 'app.test',
      log,
      h1Clients: 24,
      h2Connections: 4,
      h2Streams: 2,
      wsClients: 2,
    });
    await sleep(300);
    const reports: Promise<unknown>[] = [];
    for (let number = 1; number <= 12; number++) {
      const next = await backend(number);
      writeFileSync(stepFile, 'commit delay-worker');
      await new Promise<void>((resolve, reject) => {
        const acknowledged = (at: number): void => {
          log.acknowledgements.push({ at, generation: number });
          resolve();
        };
        reports.push(p.switchService('app.test', [next.address], { acknowledged }).catch(reject));
      });
      await sleep(100);
    }
    await load.stop();
    await Promise.all(reports);
    expect(log.failures).toEqual([]);
    expect(log.afterAcknowledgement.slice(0, 5), 'guarantee (a)').toEqual([]);
    expect(log.goingBack.slice(0, 5), 'guarantee (b)').toEqual([]);
    await p.stop();
    rmSync(stepFile, { force: true });
  });
});

describe('a switch', () => {
  // dokku/dokku#5627, #8282, coollabsio/coolify#8627, caprover/caprover#1690: both versions got requests meanwhile.
  it('lets requests in work finish on the old backend, then closes its idle connections', async () => {
    const [one, two] = [await backend(1), await backend(2)];
    const { p, target } = await start(one);
    const clients = await Promise.all(Array.from({ length: 6 }, () => RawClient.connect({ port: target.plainPort })));
    const slow = clients.map((client) => client.ask('GET /slow HTTP/1.1\r\nHost: app.test\r\n\r\n'));
    await until('the requests to be in work', () => one.requests === 6);
    const { report } = await p.switchService('app.test', [two.address]);
    expect((await Promise.all(slow)).map((answer) => answer.body.toString())).toEqual(Array(6).fill('1'));
    // The same client connections now reach the new one.
    for (const client of clients) {
      expect((await client.ask('GET /fast HTTP/1.1\r\nHost: app.test\r\n\r\n')).body.toString()).toBe('2');
    }
    expect(report.inFlightAtFlip).toBe(6);
    expect(report.clean).toBe(true);
    await until('the old pool to be closed', () => one.connections === 0);
    await p.stop();
  });

  it('to a backend that does not answer its probe changes nothing', async () => {
    const one = await backend(1);
    const { p, target } = await start(one, {
      route: 'health = { type = "http", path = "/healthz", interval = "100ms", timeout = "200ms" }',
    });
    const before = await p.status();
    await expect(p.switchService('app.test', ['127.0.0.1:9'], { probe: true })).rejects.toThrow(/probe-failed/);
    const after = await p.status();
    expect(after.revision).toBe(before.revision);
    const client = await RawClient.connect({ port: target.plainPort });
    expect((await client.ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n')).body.toString()).toBe('1');
    await p.stop();
  }, 60_000);

  it('of an unknown service is refused', async () => {
    const one = await backend(1);
    const { p } = await start(one);
    await expect(p.switchService('nobody.test', [one.address])).rejects.toThrow(/unknown-service/);
    await p.stop();
  });

  it('holds over a restart, until the file says something else', async () => {
    const [one, two, three] = [await backend(1), await backend(2), await backend(3)];
    const { p, target } = await start(one);
    await p.switchService('app.test', [two.address]);
    const config = readFileSync(p.configFile, 'utf8');
    const { directory } = p;
    p.child.kill('SIGTERM');
    await p.exited;
    const again = await Turnpike.start({ config, directory });
    const ask = async (): Promise<string> => {
      const client = await RawClient.connect({ port: target.plainPort });
      const answer = await client.ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
      client.destroy();
      return answer.body.toString();
    };
    expect(await ask()).toBe('2');
    // Same `to` in the file: a reload keeps the switch. Another one: the file wins.
    expect((await again.reload()).outcome).toBe('unchanged');
    expect(await ask()).toBe('2');
    expect((await again.reload(config.replace(one.address, three.address))).outcome).toBe('applied');
    expect(await ask()).toBe('3');
    await again.switchService('app.test', [two.address]);
    expect(await ask()).toBe('2');
    await again.switchService('app.test', 'config');
    expect(await ask()).toBe('3');
    await again.stop();
    p.forget();
  });

  it('ends the WebSockets of the old backend with 1012 after stream_drain, and its requests by then', async () => {
    const [one, two] = [await backend(1), await backend(2)];
    const { p, target } = await start(one, { route: 'stream_drain = "1s"\ndrain = "500ms"' });
    const sockets = await Promise.all(
      Array.from({ length: 20 }, () => LastingWebSocket.open(target.plainPort, 'app.test')),
    );
    for (const each of sockets) expect(await each.ask()).toBe(1);
    const switched = p.switchService('app.test', [two.address]);
    await sleep(500);
    // Before the limit they go on as if nothing had happened.
    for (const each of sockets) expect(await each.ask()).toBe(1);
    await until('all of them to end', () => sockets.every((each) => !each.open), { timeoutMs: 10_000 });
    expect(sockets.map((each) => each.closeCode)).toEqual(Array(20).fill(1012));
    const { report } = await switched;
    expect(report.forcedCloses).toBe(20);
    expect(report.clean).toBe(false);
    await p.stop();
  });
});
