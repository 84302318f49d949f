// Answers that break off, and must look it: a cut that looks like an end is cached, executed and believed.
//
// caddyserver/caddy#7845, therealaleph/MasterHttpRelayVPN-RUST#48, h2o/h2o#725: a short body was presented as complete, its
// status and head swallowed, or the client left hanging.
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import type { Exchange } from '../support/recorder.ts';
import { overTransports } from '../support/transports.ts';

const f = useProxy({ workers: 1, app1: 'compression = true' });

const text = 'Content-Type: text/plain\r\n';
const cuts: readonly (readonly [string, string])[] = [
  ['in the first byte of the head', 'H'],
  ['in the status line', 'HTTP/1.1 200'],
  ['in a field line', 'HTTP/1.1 200 OK\r\nContent-Le'],
  ['before the blank line', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n'],
  ['after an interim answer', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'],
  ['before the body', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n'],
  ['before the body of a 500', 'HTTP/1.1 500 Oh\r\nContent-Length: 123\r\n\r\n'],
  ['one byte short', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n123456789'],
  ['before the first chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'],
  ['in a chunk size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1'],
  ['in a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc'],
  ['behind a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n'],
  ['in the last chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0'],
  ['behind the last chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n'],
  ['in the trailers', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n'],
  ['in text that is compressed', `HTTP/1.1 200 OK\r\n${text}Content-Length: 9000\r\n\r\n${'a'.repeat(5000)}`],
  [
    'in chunked text that is compressed',
    `HTTP/1.1 200 OK\r\n${text}Transfer-Encoding: chunked\r\n\r\n1000\r\n${'a'.repeat(4096)}\r\n`,
  ],
];

overTransports('an answer that breaks off', (transport) => {
  const ends: readonly (readonly [string, (exchange: Exchange) => void])[] = [
    ['by FIN', (exchange) => exchange.connection.fin()],
    ['by RST', (exchange) => setTimeout(() => exchange.connection.reset(), 20)],
  ];
  for (const [how, end] of ends) {
    it.each(cuts)(`${how} %s never looks complete`, async (_name, bytes) => {
      f.app1.script = (exchange) => {
        exchange.send(bytes);
        end(exchange.complete());
      };
      const answer = await f.requester(transport).request({
        method: 'POST',
        body: 'x',
        lines: [
          ['TE', 'trailers'],
          ['Accept-Encoding', 'gzip'],
        ],
      });
      // Before anything was sent on, a whole 502 is right, too.
      if (answer.status === 502) expect(answer.complete).toBe(true);
      else {
        expect(answer.complete).toBe(false);
        expect([200, 500]).toContain(answer.status);
      }
      expect(answer.trailers).toEqual([]);
      expect(f.app1.exchanges.length, 'times that the POST was sent').toBe(1);
    });
  }

  it('by RST where the end of the connection would be its end never looks complete', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\n\r\nabc').complete();
      setTimeout(() => exchange.connection.reset(), 30);
    };
    expect((await f.requester(transport).request()).complete).toBe(false);
  });
});
