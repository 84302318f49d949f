// Fields in the trailers that belong in the head, or nowhere (RFC 9110 §6.5.1).
//
// golang/go#20437, coupergateway/couper#968, traefik/traefik#4181: trailers were lost; the reverse is that they are merged
// into the head, and with them a length, a host, a cookie or somebody's identity.
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import type { Line } from '../support/recorder.ts';
import { overTransports } from '../support/transports.ts';
import { answersUntilEnd, askH2, bytesOf, h1Ways, h2Ways } from './support/provoke.ts';

const f = useProxy({ workers: 1 });

const denied: readonly Line[] = [
  ['Host', 'evil.test'],
  ['Content-Type', 'text/evil'],
  ['Content-Encoding', 'gzip'],
  ['Content-Range', 'bytes 0-1/2'],
  ['Authorization', 'Basic ZXZpbDpldmls'],
  ['Cookie', 'evil=1'],
  ['Set-Cookie', 'evil=1'],
  ['Expect', '100-continue'],
  ['Range', 'bytes=0-1'],
  ['Cache-Control', 'max-age=1'],
  ['Location', 'http://evil.test/'],
  ['X-Forwarded-For', '10.6.6.6'],
  ['X-Forwarded-Proto', 'https'],
  ['X_Forwarded_For', '10.6.6.6'],
  ['X-Real-IP', '10.6.6.6'],
  ['X-Request-Id', 'evil'],
  ['Forwarded', 'for=10.6.6.6'],
  ['Proxy-Authorization', 'evil'],
  ['Trailer', 'evil'],
  ['TE', 'evil'],
  ['Max-Forwards', '1'],
  ['Vary', '*'],
  ['Strict-Transport-Security', 'max-age=0'],
  ['X-Turnpike-User', 'evil'],
  ['x_turnpike_role', 'evil'],
  ['X.Turnpike.App', 'evil'],
  ['Remote-User', 'evil'],
  ['Remote_Groups', 'evil'],
  ['remote.email', 'evil'],
  ['X-Remote-User', 'evil'],
  ['X.Forwarded.User', 'evil'],
  ['X-Auth-Request-Email', 'evil'],
  ['X_Auth_Request_User', 'evil'],
  ['X-WEBAUTH-USER', 'evil'],
];
/** Of one hop, or of the framing: over HTTP/1.1 they may be dropped or refused, over HTTP/2 they are malformed. */
const hopByHop: readonly Line[] = [
  ['Connection', 'close'],
  ['Keep-Alive', 'timeout=1'],
  ['Upgrade', 'websocket'],
  ['Proxy-Connection', 'close'],
  ['Transfer-Encoding', 'chunked'],
  ['Content-Length', '5'],
];

const text = (lines: readonly Line[]): string => lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');

overTransports(
  'a request',
  (transport) => {
    it('keeps the trailers that are its business, and no other', async () => {
      const client = await f.raw(transport);
      const section = text([['X-Sum', '9'], ...denied, ['x-end', 'yes']]);
      client.write(bytesOf({ lines: 'Transfer-Encoding: chunked\r\n', body: `2\r\nok\r\n0\r\n${section}\r\n` }));
      expect((await client.readAnswer({ method: 'POST' })).status).toBe(200);
      expect(f.app1.last.trailers).toEqual([
        ['X-Sum', '9'],
        ['x-end', 'yes'],
      ]);
      expect(f.app1.last.values('host')).toEqual(['app1.test']);
      expect(f.app1.last.values('x-forwarded-for')).toEqual(['127.0.0.1']);
      expect(f.app1.text).not.toMatch(/evil|10\.6\.6\.6/);
    });

    it.each(hopByHop)('is refused or loses %s: %s', async (...line) => {
      const client = await f.raw(transport);
      const body = `2\r\nok\r\n0\r\n${text([line])}\r\nGET /smuggled HTTP/1.1\r\nHost: app1.test\r\nConnection: close\r\n\r\n`;
      client.write(bytesOf({ lines: 'Transfer-Encoding: chunked\r\n', body }));
      const statuses = (await answersUntilEnd(client)).map((each) => each.status);
      // Behind a good end it is a second request, and nothing but that.
      expect([[400], [200, 200]]).toContainEqual(statuses);
      expect(f.app1.exchanges.length).toBeLessThanOrEqual(statuses.length);
      for (const exchange of f.app1.exchanges) expect(exchange.trailers).toEqual([]);
    });
  },
  h1Ways,
);

overTransports(
  'a request over HTTP/2',
  (transport) => {
    it('keeps the trailers that are its business, and no other', async () => {
      const requester = f.requester(transport);
      const live = await requester.open({ method: 'POST' });
      await live.send('ok');
      live.end([['X-Sum', '9'], ...denied.filter(([name]) => !/^(?:te|host|trailer)$/i.test(name)), ['x-end', 'yes']]);
      expect((await live.answer()).status).toBe(200);
      expect(f.app1.last.trailers).toEqual([
        ['x-sum', '9'],
        ['x-end', 'yes'],
      ]);
      expect(f.app1.text).not.toMatch(/evil|10\.6\.6\.6/);
    });

    it.each(hopByHop)('with %s: %s is refused', async (name, value) => {
      const requester = f.requester(transport);
      const live = await requester.open({ method: 'POST' });
      await live.send('ok');
      live.end([[name, value]]);
      const outcome = await live.answer().then(
        (answer) => answer.status,
        () => 'reset',
      );
      expect([400, 'reset', 200]).toContain(outcome);
      for (const exchange of f.app1.exchanges) expect(exchange.trailers).toEqual([]);
      if (outcome !== 200) for (const exchange of f.app1.exchanges) expect(exchange.bodyComplete).toBe(false);
    });

    it('has no pseudo-header fields there', async () => {
      for (const name of [':path', ':method', ':authority', ':status', ':x']) {
        const live = await f.requester(transport).open({ method: 'POST' });
        live.end([[name, '/evil']]);
        expect(
          await live.answer().then(
            (answer) => answer.status,
            () => 'reset',
          ),
        ).not.toBe(200);
      }
      expect(f.app1.text).not.toContain('evil');
      expect(await askH2(f, transport, [], { method: 'GET' })).toBe(200);
    });
  },
  h2Ways,
);

overTransports('an answer', (transport) => {
  it('keeps the trailers that are its business, and no other', async () => {
    const section = text([['Grpc-Status', '0'], ...denied, ['X-End', 'yes']]);
    f.app1.script = (exchange) =>
      exchange.reply(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${section}\r\n`);
    const answer = await f.requester(transport).request({ lines: [['TE', 'trailers']] });
    expect(answer.complete).toBe(true);
    expect(answer.trailers.map(([name, value]) => [name.toLowerCase(), value])).toEqual([
      ['grpc-status', '0'],
      ['x-end', 'yes'],
    ]);
    expect(JSON.stringify([answer.lines, answer.trailers])).not.toMatch(/evil|10\.6\.6\.6/);
  });

  it.each(hopByHop)('with %s: %s loses it, or is cut', async (...line) => {
    f.app1.script = (exchange) =>
      exchange.reply(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${text([line])}\r\n`);
    const answer = await f.requester(transport).request({ lines: [['TE', 'trailers']] });
    expect(answer.trailers).toEqual([]);
    if (/^(?:transfer-encoding|content-length)$/i.test(line[0])) expect(answer.complete).toBe(false);
  });

  it('of many trailers is cut', async () => {
    const many = Array.from({ length: 250 }, (_each, i) => `X-${i}: y\r\n`).join('');
    f.app1.script = (exchange) =>
      exchange.reply(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${many}\r\n`);
    const answer = await f.requester(transport).request({ lines: [['TE', 'trailers']] });
    expect(answer.complete).toBe(false);
  });
});
