// Uploads that are answered before they end, or never end: what is left of them must not become a request, neither on the
// client's connection nor on the backend's (RFC 9112 §9.3, §9.6).
//
// villadora/express-http-proxy#546, tinyproxy/tinyproxy#79, unjs/httpxy#170: the leftover body was parsed as the next
// request, or the answer lost in a reset. James Kettle's pause-based desync (2022): half a request, a pause, and the other half
// is somebody else's.
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { overTransports } from '../support/transports.ts';
import { sleep, until } from '../support/wait.ts';
import { answersUntilEnd, bytesOf, h1Ways } from './support/provoke.ts';

const f = useProxy({
  workers: 1,
  limits: 'body_idle_timeout = "1s"',
  more: ({ app1 }) => `
[external_routes."small.test"]
to = ["${app1.address}"]
body_size = "1KiB"
[external_routes."fixed.test"]
respond = { status = 403, body = "no" }
`,
});

const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: app1.test\r\n\r\n';

overTransports(
  'an answer before the end of the request',
  (transport) => {
    const framings: readonly (readonly [string, string, (rest: string) => string])[] = [
      ['sized', `Content-Length: ${smuggled.length * 3}\r\n`, (rest) => rest],
      ['chunked', 'Transfer-Encoding: chunked\r\n', (rest) => `${rest.length.toString(16)}\r\n${rest}\r\n0\r\n\r\n`],
    ];
    const answerers: readonly (readonly [string, string])[] = [
      ['the backend', 'app1.test'],
      ['a fixed answer', 'fixed.test'],
      ['an unknown host', 'unknown.test'],
      ['the limit', 'small.test'],
    ];

    for (const [framing, lines, rest] of framings) {
      it.each(answerers)(`by %s to a ${framing} body leaves nothing behind`, async (_name, host) => {
        f.app1.script = (exchange) => exchange.reply('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n');
        const client = await f.raw(transport);
        const bytes = bytesOf({ lines: host === 'small.test' ? lines.replace(/\d+/, '99999') : lines });
        client.write(bytes.replace('app1.test', host));
        const [first] = [await client.readAnswer({ method: 'POST', timeoutMs: 4000 }).catch(() => null)];
        client.write(`${rest(smuggled.repeat(3))}`);
        client.write('GET /next HTTP/1.1\r\nHost: app1.test\r\nConnection: close\r\n\r\n');
        const answers = await answersUntilEnd(client);
        const statuses = [...(first === null ? [] : [first]), ...answers].map((each) => each.status);
        expect(statuses.length).toBeLessThanOrEqual(2);
        expect(
          f.app1.exchanges.map((each) => each.target).filter((target) => !['/', '/next'].includes(target)),
        ).toEqual([]);
        for (const exchange of f.app1.exchanges) expect(exchange.head).not.toContain('smuggled');
      });
    }

    it('gives up the backend socket, whose backend still waits for the rest', async () => {
      f.app1.script = (exchange) => exchange.reply('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n');
      const client = await f.raw(transport);
      client.write(bytesOf({ lines: 'Content-Length: 1000\r\n', body: 'half' }));
      expect((await client.readAnswer({ method: 'POST' })).status).toBe(401);
      await f.requester('h1').request({ path: '/other' });
      const [upload, other] = f.app1.exchanges;
      expect(upload!.connection).not.toBe(other!.connection);
      await until(
        'the socket of the upload to close',
        () => !upload!.connection.open || upload!.connection.finAt !== null,
      );
    });

    it('is never taken for the end when a body pauses: 408, and the rest is dropped', async () => {
      await Promise.all(
        [
          bytesOf({ lines: 'Content-Length: 1000\r\n', body: 'half' }),
          ...['4\r\nhalf\r\n', '4\r\nhalf\r\n3', '4\r\nhalf\r\n0\r\nX: y\r\n'].map((body) =>
            bytesOf({ lines: 'Transfer-Encoding: chunked\r\n', body }),
          ),
        ].map(async (bytes) => {
          const client = await f.raw(transport);
          client.write(bytes);
          const answer = await client.readAnswer({ method: 'POST', timeoutMs: 6000 });
          expect(answer.status).toBe(408);
          client.write(smuggled.repeat(30));
          expect(await answersUntilEnd(client)).toEqual([]);
        }),
      );
      expect(f.app1.text).not.toContain('smuggled');
      for (const exchange of f.app1.exchanges) expect(exchange.bodyComplete).toBe(false);
      await until('the backend sockets to close', () => f.app1.open.length === 0);
    });

    it('is never taken for the end when the client leaves', async () => {
      for (const leave of ['fin', 'reset'] as const) {
        const client = await f.raw(transport);
        client.write(bytesOf({ lines: 'Transfer-Encoding: chunked\r\n', body: '4\r\nhalf\r\n' }));
        await until('the half', () => f.app1.exchanges.at(-1)?.body.toString() === 'half');
        client[leave]();
        await until('the backend socket to close', () => f.app1.open.length === 0);
        await sleep(10);
        expect(f.app1.last.bodyComplete).toBe(false);
      }
    });
  },
  h1Ways,
);
