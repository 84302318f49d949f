// Replacement without downtime, by the log of the processes that are replaced and by the log of their clients.
import { afterEach, describe, expect, it } from 'vitest';
import { AppKit, epoch } from '../support/app-kit.ts';
import { ClientLog } from '../support/client-log.ts';
import { LastingWebSocket, Load } from '../support/generations.ts';
import { askOnce } from '../support/process-kit.ts';
import { closeRawClients, RawClient } from '../support/raw-client.ts';
import { sleep, until } from '../support/wait.ts';

let kit: AppKit;
afterEach(async () => {
  closeRawClients();
  await kit.end();
});

const timesOf = (kit: AppKit, revision: number, what: string): readonly number[] =>
  kit.events.filter((each) => each.revision === revision && each.what === what).map(({ at }) => at);

describe('50 replacements in a row', () => {
  it('lose nothing under load, in the order start, ready, switched, SIGTERM', { timeout: 150_000 }, async () => {
    const count = 50;
    kit = await AppKit.start({ services: ['blog/web'] });
    await kit.serve('blog', kit.blog(1));
    const log = new ClientLog();
    const target = { plainPort: kit.port, tlsPort: 0, ca: '' };
    const load = new Load({
      target,
      host: 'blog.test',
      log,
      h1Clients: 8,
      h2Connections: 0,
      h2Streams: 0,
      wsClients: 2,
    });
    const switched = new Map<number, number>();
    for (let revision = 2; revision <= count + 1; revision++) {
      // A request on the old generation that ends only after the switch was seen to be acknowledged.
      const lasting = await RawClient.connect({ port: kit.port });
      lasting.write('POST / HTTP/1.1\r\nHost: blog.test\r\nContent-Length: 2\r\n\r\na');
      await until('the request to be in work', async () => {
        const { services } = await kit.p.status();
        return services.some(({ name, active }) => name === 'blog/web' && active > 0);
      });
      const { report, switched: at } = await kit.serve('blog', kit.blog(revision));
      expect(report, JSON.stringify(report)).toMatchObject({ outcome: 'done', revision, clean: true });
      log.acknowledgements.push({ at: at.get('web')! - performance.timeOrigin, generation: revision });
      switched.set(revision, at.get('web')!);
      lasting.write('b');
      expect(Number((await lasting.readAnswer()).body.toString())).toBe(revision - 1);
      lasting.destroy();
    }
    await load.stop();
    await until('the old ones to be gone', () => kit.alive('blog/web').length === 1, { timeoutMs: 10_000 });
    const failures = log.failures.map(({ kind, failure, sentAt }) => `${kind} at ${Math.round(sentAt)}: ${failure}`);
    expect(failures.slice(0, 20), `${failures.length} of ${log.entries.length} failed`).toEqual([]);
    expect(log.afterAcknowledgement.slice(0, 5), 'answers of the old one after the acknowledgement').toEqual([]);
    expect(log.goingBack.slice(0, 5), 'answers of the old one after one of the new one').toEqual([]);
    expect(log.count('h1')).toBeGreaterThan(count * 10);
    expect(log.count('ws')).toBeGreaterThan(count);
    for (let revision = 2; revision <= count + 1; revision++) {
      const [start, ready, acknowledged, term, exit] = [
        timesOf(kit, revision, 'start'),
        timesOf(kit, revision, 'ready'),
        [switched.get(revision)!],
        timesOf(kit, revision - 1, 'term'),
        timesOf(kit, revision - 1, 'exit'),
      ];
      const order = [...start, ...ready, ...acknowledged, ...term, ...exit];
      expect(order.length, `each once, replacement by revision ${revision}`).toBe(5);
      expect(order, `order of the replacement by revision ${revision}`).toEqual(order.toSorted((a, b) => a - b));
    }
    await kit.p.stop();
  });
});

describe('an old generation', () => {
  it('is killed when its own grace is over, not that of the new one', { timeout: 40_000 }, async () => {
    kit = await AppKit.start({ services: ['blog/web'], workers: 1 });
    const manner = '[services.web.env]\nMANNER = "ignores-term"\n';
    const graceful = (grace: string, version: number): string =>
      kit.blog(version, manner).replace('[services.web]\n', `[services.web]\nstop_grace = "${grace}"\n`);
    await kit.serve('blog', graceful('1s', 1));
    const { switched } = await kit.serve('blog', graceful('60s', 2));
    const [old] = kit.events.filter(({ revision }) => revision === 1);
    await until('it to be killed', () => !kit.alive('blog/web').includes(old!.pid), { timeoutMs: 15_000 });
    const [term] = timesOf(kit, 1, 'term');
    expect(term).toBeGreaterThan(switched.get('web')! - 5000);
    expect(epoch() - term!).toBeGreaterThan(950);
    expect(timesOf(kit, 1, 'exit')).toEqual([]);
    expect(await askOnce(kit.port, 'blog.test')).toBe('2');
  });

  it('keeps its WebSockets until they end, at the latest until stream_drain', { timeout: 40_000 }, async () => {
    kit = await AppKit.start({ services: ['blog/web'], workers: 2, limits: 'stream_drain = "2s"\ndrain = "1s"' });
    await kit.serve('blog', kit.blog(1));
    const sockets = await Promise.all([1, 2, 3].map(() => LastingWebSocket.open(kit.port, 'blog.test')));
    const { switched } = await kit.serve('blog', kit.blog(2));
    const at = switched.get('web')!;
    for (const socket of sockets) expect(await socket.ask()).toBe(1);
    const fresh = await LastingWebSocket.open(kit.port, 'blog.test');
    expect(await fresh.ask()).toBe(2);
    expect(timesOf(kit, 1, 'term'), 'while somebody uses it').toEqual([]);
    await until('SIGTERM', () => timesOf(kit, 1, 'term').length === 1, { timeoutMs: 15_000 });
    expect(timesOf(kit, 1, 'term')[0]! - at).toBeGreaterThan(1900);
    expect(sockets.map(({ closeCode }) => closeCode)).toEqual([1012, 1012, 1012]);
    expect(await fresh.ask()).toBe(2);
    // A generation that nobody uses is not waited for.
    fresh.close();
    const third = await kit.serve('blog', kit.blog(3));
    await until('SIGTERM', () => timesOf(kit, 2, 'term').length === 1, { timeoutMs: 10_000 });
    expect(third.report.outcome).toBe('done');
  });
});

describe('a new generation that is not ready', () => {
  it('is removed; the old one serves on, untouched, and its last words are shown without secrets', async () => {
    kit = await AppKit.start({ services: ['blog/web'], workers: 1 });
    await kit.serve('blog', kit.blog(1));
    const log = new ClientLog();
    const target = { plainPort: kit.port, tlsPort: 0, ca: '' };
    const load = new Load({
      target,
      host: 'blog.test',
      log,
      h1Clients: 2,
      h2Connections: 0,
      h2Streams: 0,
      wsClients: 0,
    });
    const ends = await kit.serve('blog', kit.blog(2, '[services.web.env]\nMANNER = "ends"\n'));
    expect(ends.report).toMatchObject({ outcome: 'failed', fault: { code: 'deploy-failed' } });
    expect(ends.report.fault?.detail).toContain('it ended with exit code 3');
    expect(ends.report.fault?.detail).toContain('password=[redacted] cannot be used');
    expect(ends.report.fault?.detail).not.toContain('hunter2');
    const readiness = '[services.web.readiness]\ntype = "http"\npath = "/"\ntimeout = "1s"\n';
    const silent = await kit.serve('blog', kit.blog(3, `${readiness}[services.web.env]\nMANNER = "never-listens"\n`));
    expect(silent.report.fault?.detail).toContain('not ready within 1000 ms');
    expect(silent.report.fault?.detail).toContain('The old generation serves on, untouched.');
    expect(kit.events.filter(({ revision, what }) => revision === 1 && what === 'term')).toEqual([]);
    await until('only the old one to be there', () => kit.alive('blog/web').length === 1);
    await sleep(50);
    await load.stop();
    expect(log.failures).toEqual([]);
    expect(new Set(log.entries.map(({ generation }) => generation))).toEqual(new Set([1]));
    expect((await kit.status('blog')).serviceStates).toMatchObject([{ state: 'serving', revision: 1 }]);
    await kit.p.stop();
  });
});

describe('a new generation that breaks within its first minute', () => {
  it('is rolled back by itself, to the old one that was kept for that', { timeout: 40_000 }, async () => {
    kit = await AppKit.start({ services: ['blog/web'], workers: 2, more: '[apps]\nauto_rollback = true\n' });
    await kit.serve('blog', kit.blog(1));
    expect((await kit.serve('blog', kit.blog(2, '[services.web.env]\nMANNER = "breaks"\n'))).report.outcome).toBe(
      'done',
    );
    await until('the old one to serve', async () => (await askOnce(kit.port, 'blog.test')) === '1', {
      timeoutMs: 15_000,
    });
    // It serves as soon as every worker has said so; the deploy ends a moment later.
    const latest = await until('the rollback to end', async () => {
      const [last] = (await kit.status('blog')).deploys;
      return last?.outcome == null ? null : last;
    });
    expect(latest).toMatchObject({ kind: 'rollback', revision: 3, outcome: 'done' });
    // The very process that served before.
    expect(kit.events.filter(({ what }) => what === 'start').map(({ revision }) => revision)).toEqual([1, 2]);
    expect(timesOf(kit, 1, 'term')).toEqual([]);
    await kit.p.stop();
  });
});
