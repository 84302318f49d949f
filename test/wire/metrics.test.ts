// What clients can do to the metrics: numbers grow, series do not.
import { describe, expect, it } from 'vitest';
import { freePort } from '../support/ports.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import { residentSize } from '../support/turnpike.ts';
import { until } from '../support/wait.ts';

let metricsPort = 0;

const f = useProxy({
  more: async ({ app1 }) => {
    metricsPort = await freePort();
    return `
[external_routes."leaving.test"]
to = ["${app1.address}"]
[metrics]
address = "127.0.0.1:${metricsPort}"
`;
  },
});

interface Sample {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

/** A strict reader of the text format: anything it does not know is an error. */
function parseMetrics(text: string): Sample[] {
  const samples: Sample[] = [];
  const types = new Map<string, string>();
  expect(text.endsWith('\n')).toBe(true);
  for (const line of text.slice(0, -1).split('\n')) {
    if (line === '') continue;
    const comment = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/.exec(line);
    if (comment !== null) {
      if (comment[1] === 'TYPE') {
        expect(types.has(comment[2]!), `TYPE of ${comment[2]} twice`).toBe(false);
        types.set(comment[2]!, comment[3]!);
      }
      continue;
    }
    const match = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match === null) throw new Error(`not a sample: ${line}`);
    const labels = new Map<string, string>();
    let rest = match[2] ?? '';
    while (rest !== '') {
      const label = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/.exec(rest);
      if (label === null) throw new Error(`bad labels: ${line}`);
      expect(labels.has(label[1]!), `label ${label[1]} twice in ${line}`).toBe(false);
      labels.set(label[1]!, label[2]!);
      rest = rest.slice(label[0].length);
    }
    const value = match[3] === '+Inf' ? Number.POSITIVE_INFINITY : Number(match[3]);
    expect(Number.isNaN(value), line).toBe(false);
    const family = match[1]!.replace(/_(?:bucket|sum|count)$/, '');
    expect(types.has(match[1]!) || types.has(family), `no TYPE for ${match[1]}`).toBe(true);
    samples.push({ name: match[1]!, labels, value });
  }
  const keys = samples.map(({ name, labels }) => `${name}${JSON.stringify([...labels].toSorted())}`);
  expect(new Set(keys).size, 'a series twice').toBe(keys.length);
  return samples;
}

const samples = async (): Promise<Sample[]> => parseMetrics(await f.p.metrics());

function total(all: readonly Sample[], name: string, labels: Record<string, string> = {}): number {
  return all
    .filter((each) => each.name === name && Object.entries(labels).every(([k, v]) => each.labels.get(k) === v))
    .reduce((sum, each) => sum + each.value, 0);
}

describe('the metrics', () => {
  it('add up over the workers', async () => {
    const before = total(await samples(), 'turnpike_http_requests_total', { route: 'app1.test' });
    for (let i = 0; i < 40; i++) {
      const client = await f.plain();
      await client.ask('GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n');
      client.destroy();
    }
    const after = total(await samples(), 'turnpike_http_requests_total', { route: 'app1.test' });
    expect(after - before).toBe(40);
  });

  it('are served at the configured address, and at no app host', async () => {
    const client = await RawClient.connect({ port: metricsPort });
    const answer = await client.ask('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
    expect(answer.status).toBe(200);
    expect(parseMetrics(answer.body.toString()).length).toBeGreaterThan(10);
    await f.requester('h1').request({ path: '/metrics' });
    expect(f.app1.last.target).toBe('/metrics');
    const unknown = await f.requester('h1').request({ host: 'nobody.test', path: '/metrics' });
    expect(unknown.status).toBe(404);
  });

  // linkerd/linkerd2#1378, sigstore/timestamp-authority#1374, authup/authup#3253, ory/hydra#2502
  it('do not grow with what clients invent', { timeout: 120_000 }, async () => {
    f.app1.script = (exchange) => {
      const status = 200 + (Number(exchange.target.slice(2)) % 400);
      exchange.reply(`HTTP/1.1 ${status} X\r\nContent-Length: 0\r\n\r\n`);
    };
    const rounds = async (from: number, count: number): Promise<void> => {
      const clients = await Promise.all(Array.from({ length: 8 }, () => f.plain()));
      await Promise.all(
        clients.map(async (client, lane) => {
          for (let n = from + lane; n < from + count; n += 8 * 16) {
            let batch = '';
            let expected = 0;
            for (let i = 0; i < 16 && n + i * 8 < from + count; i++) {
              const id = n + i * 8;
              const kind = id % 3;
              const method = kind === 1 ? `FOO${id}` : 'GET';
              const host = kind === 0 ? `host-${id}.test` : 'app1.test';
              const upgrade = kind === 2 ? `Connection: Upgrade\r\nUpgrade: proto-${id}\r\n` : '';
              batch += `${method} /p${id} HTTP/1.1\r\nHost: ${host}\r\n${upgrade}\r\n`;
              expected++;
            }
            client.write(batch);
            for (let i = 0; i < expected; i++) await client.readAnswer({ method: 'GET', timeoutMs: 20_000 });
          }
        }),
      );
      for (const client of clients) client.destroy();
    };
    await rounds(0, 4000);
    const before = (await samples()).length;
    const pids = await f.p.workerPids();
    const size = (): number => pids.reduce((sum, pid) => sum + residentSize(pid), 0);
    const sizeBefore = size();
    await rounds(4000, 30_000);
    expect((await samples()).length - before).toBeLessThanOrEqual(4);
    expect((size() - sizeBefore) / 1024 / 1024).toBeLessThan(80);
  });

  it('survive names made to break the format', async () => {
    const before = (await samples()).length;
    for (const bytes of [
      'GET / HTTP/1.1\r\nHost: a"} 1\\nx{b="\r\n\r\n',
      'GET /a"}%201 HTTP/1.1\r\nHost: app1.test\r\n\r\n',
      'G"T / HTTP/1.1\r\nHost: app1.test\r\n\r\n',
      'GET / HTTP/1.1\r\nHost: \xff\xfe.test\r\n\r\n',
      'GET /\xff\xfe HTTP/1.1\r\nHost: app1.test\r\n\r\n',
    ]) {
      const client = await f.plain();
      await client.ask(bytes);
    }
    for (const name of ['a"} 1', 'x{b="', `${'y'.repeat(200)}.test`]) {
      await RawClient.connect({ port: f.securePort, tls: { servername: name, rejectUnauthorized: false } }).catch(
        () => {},
      );
    }
    expect((await samples()).length - before).toBeLessThanOrEqual(6);
  });

  it('drop the series of a route that leaves', async () => {
    await f.requester('h1').request({ host: 'leaving.test' });
    expect(total(await samples(), 'turnpike_http_requests_total', { route: 'leaving.test' })).toBe(1);
    const without = f.config.replace(/\[external_routes\."leaving\.test"\]\nto = .*\n/, '');
    expect((await f.p.reload(without)).outcome).toBe('applied');
    let left: string[] = [];
    await until(
      'the series to go',
      async () => {
        left = (await f.p.metrics()).split('\n').filter((line) => line.includes('leaving.test'));
        return left.length === 0;
      },
      { seen: () => left },
    );
    expect((await f.p.reload(f.config)).outcome).toBe('applied');
  });

  it('say what the last reload was', async () => {
    const result = await f.p.reload(`${f.config}\nnonsense = 1\n[what]\n`);
    expect(result.outcome).toBe('refused');
    const refused = await samples();
    await f.p.reload(f.config);
    const names = new Set(refused.map((each) => each.name));
    expect([...names].some((name) => /reload/.test(name))).toBe(true);
  });

  it('count requests in work back to zero', async () => {
    await until('nothing in flight', async () => total(await samples(), 'turnpike_http_requests_in_flight') === 0);
  });
});
