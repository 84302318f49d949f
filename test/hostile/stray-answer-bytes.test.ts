// Bytes behind a complete answer: they must never be the answer to the next request, whoever makes it.
//
// graygnuorg/pound#54, apache/trafficserver#271, sbstp/attohttpc#201: bodies where none may be. A backend that sends more
// than its answer, or can be made to (response splitting), poisons the queue of a pooled connection.
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { type Exchange, Recorder } from '../support/recorder.ts';
import { overTransports } from '../support/transports.ts';
import { sleep } from '../support/wait.ts';

const f = useProxy({ workers: 1 });

const poison = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-Poison: yes\r\n\r\npoison';

/** The request's method, the honest part of the answer. */
const answers: readonly (readonly [string, string, string])[] = [
  ['a whole answer', 'GET', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'],
  ['an empty answer', 'GET', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['a chunked answer', 'GET', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'],
  [
    'a chunked answer with trailers',
    'GET',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n',
  ],
  ['a 204', 'GET', 'HTTP/1.1 204 No Content\r\n\r\n'],
  ['a 204 that declares a body', 'GET', 'HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n'],
  ['a 204 that declares chunks', 'GET', 'HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n'],
  ['a 304', 'GET', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 1234\r\n\r\n'],
  ['a 304 that declares chunks', 'GET', 'HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n'],
  ['an answer to HEAD', 'HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n'],
  ['a chunked answer to HEAD', 'HEAD', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'],
  ['an answer to POST', 'POST', 'HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n'],
];

overTransports(
  'what a backend sends behind its answer',
  (transport) => {
    const whenSent: readonly (readonly [string, (exchange: Exchange, honest: string) => void])[] = [
      ['at once', (exchange, honest) => exchange.reply(honest + poison)],
      [
        'in a packet of its own',
        (exchange, honest) => {
          exchange.reply(honest);
          setImmediate(() => exchange.send(poison));
        },
      ],
      [
        'while the socket is idle',
        (exchange, honest) => {
          exchange.reply(honest);
          setTimeout(() => exchange.send(poison), 15);
        },
      ],
      ['as a few stray bytes', (exchange, honest) => exchange.reply(`${honest}abc`)],
      ['as an empty line', (exchange, honest) => exchange.reply(`${honest}\r\n`)],
      [
        'as an interim answer',
        (exchange, honest) => exchange.reply(`${honest}HTTP/1.1 103 Early Hints\r\nX-Poison: yes\r\n\r\n`),
      ],
    ];

    for (const [when, send] of whenSent) {
      it.each(answers)(`${when}, behind %s, answers nobody`, async (_name, method, honest) => {
        f.app1.script = (exchange) => send(exchange, honest);
        const first = f.requester(transport);
        const answer = await first.request({ method, path: '/first', ...(method === 'POST' ? { body: 'x' } : {}) });
        expect(answer.status).toBe(Number(honest.slice(9, 12)));
        expect(answer.body.toString()).not.toContain('poison');
        await sleep(25);
        f.app1.script = Recorder.plain;
        for (const next of [first, f.requester(transport)]) {
          const second = await next.request({ path: '/second' });
          expect([second.status, second.body.toString()]).toEqual([200, 'app1']);
          expect(JSON.stringify([second.lines, second.interim])).not.toContain('Poison');
        }
        const [poisoned] = f.app1.exchanges;
        expect(poisoned!.connection.exchanges.length, 'requests on the poisoned socket').toBe(1);
      });
    }
  },
  ['h1', 'h2'],
);
