// Small requests that would cost a lot of processor time: long lists, many lines, many pieces.
//
// The kind of expressjs/express and llhttp reports about quadratic header parsing: a list that is searched once for each
// of its members, a text that is copied once for each of its lines. Found here: 14 000 names in one Connection field,
// each of them looked for among 150 others, cost a hundred times what its bytes do; so did a trailer section of 8 000
// lines. What is asserted is a ratio within one run, against an honest request of the same size.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { H2Connection } from '../support/h2-frames.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import type { Line } from '../support/recorder.ts';

const f = useProxy({
  workers: 1,
  entrypoint: 'trusted_proxies = ["127.0.0.2/32"]',
  app1: 'compression = true',
});

/** Processor time of the worker so far, in clock ticks of 10 ms. */
async function ticks(): Promise<number> {
  const [pid] = await f.p.workerPids();
  const [, rest = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
  const fields = rest.split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

const repeats = 60;

/** Ticks for so many of these, each on a connection of its own: what ends its connection must not look cheap. */
async function cost(bytes: string, localAddress?: string): Promise<number> {
  const before = await ticks();
  for (let i = 0; i < repeats; i++) {
    const client = await RawClient.connect({
      port: f.webPort,
      ...(localAddress === undefined ? {} : { localAddress }),
    });
    await client.ask(bytes, { timeoutMs: 20_000 });
    client.destroy();
  }
  return (await ticks()) - before;
}

const head = (lines: string): string => `GET / HTTP/1.1\r\nHost: app1.test\r\n${lines}\r\n`;
const chunkedHead = (lines: string, body: string): string =>
  `POST / HTTP/1.1\r\nHost: app1.test\r\n${lines}Transfer-Encoding: chunked\r\n\r\n${body}`;
const fields = Array.from({ length: 150 }, (_each, i) => `X${i}y: a\r\n`).join('');
const distinct = Array.from({ length: 6500 }, (_each, i) => i.toString(36)).join(',');

const traps: readonly (readonly [name: string, bytes: string, localAddress?: string])[] = [
  ['one name nominated 14 000 times beside 150 fields', head(`Connection: ${'a,'.repeat(14_000)}b\r\n${fields}`)],
  ['6 500 names nominated beside 150 fields', head(`Connection: ${distinct}\r\n${fields}`)],
  ['150 Connection lines', head(`Connection: ${'a,'.repeat(90)}b\r\n`.repeat(150))],
  ['15 000 TE codings', head(`TE: ${'a,'.repeat(15_000)}b\r\n`)],
  ['15 000 upgrades', head(`Connection: upgrade\r\nUpgrade: ${'a,'.repeat(15_000)}b\r\n`)],
  ['3 500 content codings', head(`Accept-Encoding: ${'a;q=0.1,'.repeat(3500)}b\r\n`)],
  ['a chain of 3 700 addresses', head(`X-Forwarded-For: ${'1.1.1.1,'.repeat(3700)}1.1.1.1\r\n`), '127.0.0.2'],
  ['a chain of trusted addresses', head(`X-Forwarded-For: ${'127.0.0.2,'.repeat(3000)}127.0.0.2\r\n`), '127.0.0.2'],
  ['180 cookies', head(`Cookie: ${'a'.repeat(150)}\r\n`.repeat(180))],
  ['190 names full of underscores', head(`X_F${'_a'.repeat(70)}: a\r\n`.repeat(190))],
  ['a trailer section of 8 000 lines', chunkedHead('TE: trailers\r\n', `0\r\n${'a:\r\n'.repeat(8000)}\r\n`)],
  [
    'chunk extensions full of quotes',
    chunkedHead('', `${`1;${'a="\\"";'.repeat(100)}b\r\na\r\n`.repeat(20)}0\r\n\r\n`),
  ],
  ['a host that is nearly an IDNA name', `GET / HTTP/1.1\r\nHost: ${'\xfc.'.repeat(120)}a\r\n\r\n`],
  ['a host of 30 000 hyphens', `GET / HTTP/1.1\r\nHost: ${'-'.repeat(30_000)}a\r\n\r\n`],
  ['a path of 4 000 segments', `GET ${'/a'.repeat(4000)} HTTP/1.1\r\nHost: app1.test\r\n\r\n`],
];

describe('a request that is made to be expensive', () => {
  let honest = 0;

  it('is measured against an honest one of its size', async () => {
    const bytes = head(`X: ${'a'.repeat(29_000)}\r\n`);
    await cost(bytes);
    honest = await cost(bytes);
    expect(honest).toBeGreaterThan(0);
  });

  it.each(traps.map(([name, bytes, localAddress]) => ({ name, bytes, localAddress })))(
    'costs no more than eight of them: $name',
    async ({ bytes, localAddress }) => {
      expect(await cost(bytes, localAddress)).toBeLessThan(8 * Math.max(honest, 6));
    },
  );

  it('nor do crumbs of a cookie over HTTP/2', async () => {
    const connection = await H2Connection.connect({ port: f.webPort });
    const crumbs = Array.from({ length: 190 }, (_each, i): Line => ['cookie', `c${i}=${'a'.repeat(100)}`]);
    const before = await ticks();
    for (let i = 0; i < repeats; i++) {
      const answer = await connection.open(H2Connection.request('GET', 'app1.test', '/', crumbs)).answer();
      expect(answer.status).toBe(200);
    }
    expect((await ticks()) - before).toBeLessThan(8 * Math.max(honest, 6));
  });
});
