// Interim answers without end, and what hides among them (RFC 9110 §15.2).
//
// fpco/http-reverse-proxy#44, caddyserver/caddy#5074, envoyproxy/envoy#25881: a 103 was taken for the final answer, or hung
// the proxy. A backend that sends nothing but 1xx holds a request, and grows what waits for a slow client, for ever.
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { overTransports } from '../support/transports.ts';
import { until } from '../support/wait.ts';

const f = useProxy({ workers: 1 });
const final = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

overTransports('a backend that sends interim answers', (transport) => {
  it.each([
    ['100', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['102', 'HTTP/1.1 102 Processing\r\n\r\n'],
    ['103', 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n'],
    ['199', 'HTTP/1.1 199 X\r\n\r\n'],
  ])('of %s without end is cut off with 502', async (_name, interim) => {
    f.app1.script = (exchange) => {
      const more = (): void => {
        if (exchange.connection.open) exchange.send(interim.repeat(20)) && setTimeout(more, 2);
      };
      more();
      exchange.complete();
    };
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(502);
    expect(answer.interim.length).toBeLessThan(100);
    await until('the backend socket to close', () => f.app1.open.length === 0);
  });

  it('of great size is cut off before a megabyte waits for a client that does not read', async () => {
    f.app1.script = (exchange) => {
      for (let i = 0; i < 30; i++) exchange.send(`HTTP/1.1 103 Early Hints\r\nLink: ${'a'.repeat(20_000)}\r\n\r\n`);
      exchange.reply(final);
    };
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(502);
    expect(answer.interim.length).toBeLessThan(14);
  });

  it('cannot slip a final answer, a length or a switch of protocols among them', async () => {
    for (const interim of [
      'HTTP/1.1 103 X\r\nContent-Length: 5\r\n\r\n',
      'HTTP/1.1 103 X\r\nTransfer-Encoding: chunked\r\n\r\n',
      'HTTP/1.1 103 X\r\nConnection: close\r\n\r\n',
      'HTTP/1.1 100 X\r\nContent-Length: 99\r\n\r\n',
    ]) {
      f.app1.script = (exchange) => exchange.reply(interim + final);
      const answer = await f.requester(transport).request();
      expect([answer.status, answer.body.toString()]).toEqual([200, 'ok']);
      expect(JSON.stringify(answer.interim)).not.toMatch(/content-length|transfer-encoding|connection/i);
    }
    for (const interim of ['HTTP/1.1 101 X\r\n\r\n', 'HTTP/1.1 101 X\r\nUpgrade: websocket\r\n\r\n']) {
      f.app1.script = (exchange) => exchange.reply(interim + final);
      expect((await f.requester(transport).request()).status).toBe(502);
    }
  });
});
