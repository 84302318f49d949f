// Messages drawn at random: good ones, damaged in a few places by the bytes that parsers disagree about. On top of the corpus,
// where a person thought of every case, these are the cases that nobody thought of.
//
// The way of T-Reqs (Jabiyev et al., 2021) and of the differential fuzzing that found most of the reports in this folder; with
// fixed seeds, so that a failure stays one.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import { canonicalAnswers, canonicalRequests, leniencies, lenientStarts } from './support/readers.ts';

const f = useProxy({
  workers: 1,
  limits: 'header_timeout = "1s"\nbody_idle_timeout = "1s"\nbackend_head_timeout = "1s"',
});

const host = 'Host: app1.test\r\n';
const goodRequests = [
  `GET / HTTP/1.1\r\n${host}\r\n`,
  `GET /a?b HTTP/1.1\r\n${host}Connection: keep-alive\r\nX: y\r\n\r\n`,
  `POST / HTTP/1.1\r\n${host}Content-Length: 5\r\n\r\nhello`,
  `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
  `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n`,
  `HEAD / HTTP/1.1\r\n${host}\r\n`,
  `PUT /c HTTP/1.1\r\n${host}Content-Length: 0\r\nTE: trailers\r\n\r\n`,
  `POST http://app1.test/d HTTP/1.1\r\n${host}Content-Length: 29\r\n\r\nGET /smuggled HTTP/1.1\r\nX: y\r\n`,
];
const goodAnswers = [
  'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n',
  'HTTP/1.1 204 No Content\r\nX: y\r\n\r\n',
  'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n',
  'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello',
  'HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello',
];

/** What one parser takes for nothing and another for something. */
const oddities = [
  ...[
    '\r',
    '\n',
    '\r\n',
    '\n\n',
    '\r\n\r\n',
    '\t',
    ' ',
    '\0',
    '\x0b',
    '\x0c',
    '\x7f',
    '\xa0',
    '\xff',
    ':',
    ',',
    ';',
    '"',
    '+',
    '-',
    '0',
    '0x',
    '_',
    '#',
    '@',
  ],
  ...[
    'Content-Length: 5\r\n',
    'Content-Length: 0\r\n',
    'Transfer-Encoding: chunked\r\n',
    'transfer-encoding: identity\r\n',
    'Content_Length: 3\r\n',
  ],
  ...[
    'Connection: close\r\n',
    'Connection: Content-Length\r\n',
    'Expect: 100-continue\r\n',
    'Upgrade: websocket\r\n',
    ' folded\r\n',
    'Host: app2.test\r\n',
  ],
  ...['0\r\n\r\n', '5\r\n', 'GET /smuggled HTTP/1.1\r\n', 'HTTP/1.1 200 OK\r\n', ' HTTP/1.1', 'chunked, '],
];

/** One piece of damage: something put in, taken out, or put in the place of something. Places are parts of the whole. */
const damage = fc.tuple(
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.constantFrom(0, 0, 1, 2, 6),
  fc.constantFrom('', ...oddities),
);

function damaged(text: string, pieces: readonly (readonly [number, number, string])[]): string {
  let result = text;
  for (const [where, taken, put] of pieces) {
    const at = Math.floor(where * result.length);
    result = result.slice(0, at) + put + result.slice(at + taken);
  }
  return result;
}

const stream = (good: readonly string[]): fc.Arbitrary<string> =>
  fc
    .tuple(fc.array(fc.constantFrom(...good), { minLength: 1, maxLength: 3 }), fc.array(damage, { maxLength: 3 }))
    .map(([messages, pieces]) => damaged(messages.join(''), pieces));

/** Sends bytes and FIN, in one piece or in a few, and takes everything that is answered. */
async function send(bytes: string, splits: number): Promise<{ readonly text: string; readonly closed: boolean }> {
  const client = await RawClient.connect({ port: f.webPort });
  const size = Math.ceil(bytes.length / (splits + 1));
  for (let at = 0; at < bytes.length; at += size) client.write(bytes.slice(at, at + size));
  client.fin();
  await client.waitForEnd(8000);
  client.destroy();
  return { text: client.text, closed: client.error === null };
}

const streamsAtOnce = 12;

describe('requests drawn at random', () => {
  it('reach the origin in our own framing, and no reader finds others in it', { timeout: 120_000 }, async () => {
    let forwarded = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(stream(goodRequests), { minLength: streamsAtOnce, maxLength: streamsAtOnce }),
        fc.nat(3),
        async (streams, splits) => {
          f.app1.reset();
          await Promise.all(streams.map((each) => send(each, splits)));
          for (const connection of f.app1.connections) {
            const bytes = connection.bytes.toString('latin1');
            // A tunnel is not HTTP any more.
            if (/^upgrade:/im.test(bytes)) continue;
            const strict = canonicalRequests(bytes);
            forwarded += strict.length;
            for (const message of strict) {
              expect(message.lines.filter(([name]) => /^x-forwarded-for$/i.test(name)).length).toBe(1);
            }
            const starts = strict.map((message) => message.start);
            for (const how of leniencies) expect(lenientStarts(bytes, how, 'request'), how.name).toEqual(starts);
          }
        },
      ),
      { numRuns: 50, seed: 9112 },
    );
    // Not all of it was refused.
    expect(forwarded).toBeGreaterThan(300);
  });
});

describe('answers drawn at random', () => {
  it('reach the client in our own framing, and no reader finds others in it', { timeout: 120_000 }, async () => {
    let relayed = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(stream(goodAnswers), { minLength: streamsAtOnce, maxLength: streamsAtOnce }),
        fc.constantFrom('GET', 'HEAD', 'POST'),
        async (answers, method) => {
          f.app1.script = (exchange) => {
            const bytes = answers[Number(exchange.target.slice(1))];
            if (bytes === undefined) exchange.ok('honest');
            else exchange.reply(bytes).connection.fin();
          };
          await Promise.all(
            answers.map(async (_each, i) => {
              const first = `${method} /${i} HTTP/1.1\r\nHost: app1.test\r\nTE: trailers\r\nContent-Length: 0\r\n\r\n`;
              const second = 'GET /honest HTTP/1.1\r\nHost: app1.test\r\nConnection: close\r\n\r\n';
              const client = await RawClient.connect({ port: f.webPort });
              client.write(first + second);
              await client.waitForEnd(8000);
              client.destroy();
              const methods = [method, 'GET'];
              const strict = canonicalAnswers(client.text, methods, true);
              const starts = strict.map((message) => message.start);
              relayed += starts.filter((start) => start !== '502').length;
              expect(starts.length).toBeGreaterThan(0);
              expect(starts.length).toBeLessThan(3);
              if (starts.length === 2) expect(client.text.endsWith('honest')).toBe(true);
              for (const how of leniencies) {
                const found = lenientStarts(client.text, how, 'answer', methods).filter(
                  (start) => !start.startsWith('1'),
                );
                expect(found, how.name).toEqual(starts);
              }
            }),
          );
        },
      ),
      { numRuns: 50, seed: 9110 },
    );
    expect(relayed).toBeGreaterThan(300);
  });
});
