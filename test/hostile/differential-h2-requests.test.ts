// Requests over HTTP/2 whose fields cannot stand in HTTP/1.1, or could stand there as something else: what reaches an origin
// is in our own framing, and every reader finds the same in it.
//
// H2.CL and H2.TE (James Kettle, 2021): a front end that translates HTTP/2 into HTTP/1.1 without a second look lets a field value
// end its line, a length disagree with the frames, or a path bring its own version. CVE-2021-33193 of Apache is the method.
import { beforeAll, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import type { Line } from '../support/recorder.ts';
import { askH2 } from './support/provoke.ts';
import { canonicalRequests, leniencies, lenientStarts, type ReadMessage } from './support/readers.ts';

const f = useProxy({ workers: 1, limits: 'body_idle_timeout = "1s"' });

const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: app1.test\r\n\r\n';
interface H2Case {
  readonly lines?: readonly Line[];
  readonly method?: string;
  readonly path?: string;
  readonly authority?: string;
  readonly whole?: readonly Line[];
}

const splitting = ['\r\n', '\n', '\r', '\0', '\r\n\r\n', ' ', '\t', '\x0b', '\x7f', '\xa0', ':', '#'];
const base: readonly Line[] = [
  [':method', 'POST'],
  [':scheme', 'https'],
  [':authority', 'app1.test'],
  [':path', '/'],
];
const cases: readonly H2Case[] = [
  ...splitting.flatMap((odd): H2Case[] => [
    { lines: [['x', `a${odd}transfer-encoding: chunked`]] },
    { lines: [[`x${odd}transfer-encoding`, 'chunked']] },
    { lines: [[`transfer-encoding${odd}`, 'chunked']] },
    { lines: [[`content-length${odd}`, '5']] },
    { lines: [['cookie', `a=1${odd}content-length: 5`]] },
    { path: `/a${odd}b` },
    { path: `/ HTTP/1.1${odd}content-length: 5${odd}x: ` },
    { method: `POST${odd}` },
    { method: `GET /smuggled HTTP/1.1${odd}x:` },
    { authority: `app1.test${odd}x` },
    { lines: [['host', `app1.test${odd}`]] },
    { lines: [['expect', `100-continue${odd}`]] },
    { lines: [['te', `trailers${odd}`]] },
  ]),
  ...['0', '4', '6', '46', '5, 5', '+5', '0x5', '5\r\ntransfer-encoding: chunked'].map(
    (value): H2Case => ({ lines: [['content-length', value]] }),
  ),
  ...['chunked', 'identity', 'gzip', ''].map((value): H2Case => ({ lines: [['transfer-encoding', value]] })),
  ...['close', 'keep-alive', 'transfer-encoding', 'upgrade, http2-settings'].map(
    (value): H2Case => ({ lines: [['connection', value]] }),
  ),
  { lines: [['Content-Length', '5']] },
  {
    lines: [
      ['content-length', '5'],
      ['content-length', '5'],
    ],
  },
  {
    lines: [
      ['content_length', '5'],
      ['transfer_encoding', 'chunked'],
    ],
  },
  {
    lines: [
      ['host', 'app1.test'],
      ['host', 'app2.test'],
    ],
  },
  { lines: [['host', 'app2.test']] },
  { lines: [[':path', '/smuggled']] },
  { lines: [[':method', 'GET']] },
  {
    lines: [
      ['x', 'y'],
      [':path', '/smuggled'],
    ],
  },
  { lines: [['', 'y']] },
  { lines: [[':', 'y']] },
  { lines: [[':x', 'y']] },
  ...['', '*', 'a', 'http://app1.test/', '//', '/..', '?a', '/\xe9', '/%0d%0a', '/a b'].map(
    (path): H2Case => ({ path }),
  ),
  ...['', 'GE T', 'G/ET', '"GET"', 'get', 'PRI', 'CONNECT', `${'A'.repeat(2000)}`].map(
    (method): H2Case => ({ method }),
  ),
  ...['', 'app1.test:', 'app1.test:99999', 'user@app1.test', 'app1.test/a', 'app2.test', '[::1', 'APP1.TEST.'].map(
    (authority): H2Case => ({ authority }),
  ),
  { whole: base.filter(([name]) => name !== ':path') },
  { whole: base.filter(([name]) => name !== ':method') },
  { whole: base.filter(([name]) => name !== ':scheme') },
  { whole: base.filter(([name]) => name !== ':authority') },
  { whole: base.map(([name, value]) => [name, name === ':scheme' ? 'gopher://x y' : value] as const) },
  { whole: [['x', 'y'], ...base] },
];

let connections: { readonly bytes: string; readonly messages: ReadMessage[] }[] = [];
let outcomes: (number | 'reset' | 'goaway')[] = [];

beforeAll(async () => {
  let next = 0;
  outcomes = new Array(cases.length);
  await Promise.all(
    Array.from({ length: 10 }, async () => {
      for (let i = next++; i < cases.length; i = next++) {
        outcomes[i] = await askH2(f, i % 2 === 0 ? 'h2' : 'h2c', cases[i]!.lines ?? [], {
          ...cases[i]!,
          body: smuggled,
        });
      }
    }),
  );
  // One case names the other app.
  connections = [...f.app1.connections, ...f.app2.connections].map((connection) => ({
    bytes: connection.bytes.toString('latin1'),
    messages: [],
  }));
});

it('is answered, refused or reset, and some of it is served', () => {
  expect(cases.length).toBeGreaterThan(190);
  for (const outcome of outcomes)
    expect([200, 400, 404, 405, 414, 417, 421, 431, 501, 'reset', 'goaway']).toContain(outcome);
  expect(outcomes.filter((outcome) => outcome === 200).length).toBeGreaterThan(20);
});

it('arrives in our own framing, as no more requests than were made, each with its body', () => {
  for (const connection of connections) connection.messages.push(...canonicalRequests(connection.bytes));
  const messages = connections.flatMap((connection) => connection.messages);
  // A length that its frames belie is found out while the request is under way, or when an empty one has gone.
  const served = outcomes.filter((outcome) => outcome === 200).length;
  const lying = cases.filter(({ lines }) => lines?.some(([name]) => name === 'content-length')).length;
  expect(messages.filter((message) => message.whole).length).toBeGreaterThanOrEqual(served);
  expect(messages.length).toBeLessThanOrEqual(served + lying);
  for (const message of messages) {
    expect(message.start).not.toContain('smuggled');
    expect(message.lines.filter(([name]) => /^x-forwarded-for$/i.test(name)).length).toBe(1);
    expect(message.lines.filter(([name]) => /^(?:transfer.encoding|content.length)$/i.test(name)).length).toBeLessThan(
      2,
    );
  }
});

it.each(leniencies)('reads the same when $name', (how) => {
  for (const { bytes, messages } of connections) {
    expect(lenientStarts(bytes, how, 'request')).toEqual(messages.map((message) => message.start));
  }
});
