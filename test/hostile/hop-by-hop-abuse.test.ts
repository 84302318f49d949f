// Fields of one hop as a weapon: Connection names what the proxy added, or what the backend relies on (RFC 9110 §7.6.1).
//
// dadrus/heimdall#653, google/capsem#119, CVE-2024-45410 of traefik: the client listed a field that the proxy sets in
// Connection, and it was stripped after it had been set. aether-lang-dev/aether#1837, basecamp/kamal-site#141: the client's
// own X-Forwarded-For stood beside the proxy's, and was believed.
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import type { Line } from '../support/recorder.ts';
import { overTransports } from '../support/transports.ts';
import { askH2, bytesOf, h1Ways, h2Ways } from './support/provoke.ts';

// 127.0.0.2 is a proxy whose forwarded headers are believed; 127.0.0.1 is anybody.
const f = useProxy({
  workers: 1,
  top: 'trusted_proxies = ["127.0.0.2/32"]',
  app1: 'request_headers = { set = { "X-Tenant" = "ours" }, remove = ["X-Internal"] }',
});

const ours = [
  'X-Forwarded-For',
  'X-Forwarded-Proto',
  'X-Forwarded-Host',
  'X-Forwarded-Port',
  'X-Real-IP',
  'X-Request-Id',
  'Host',
];
const nominations = [
  ...ours,
  ours.join(', '),
  ours.join(',').toLowerCase(),
  'close, X-Forwarded-For',
  'X-Forwarded-For, keep-alive',
  ' ,, X-Forwarded-For ,, ',
  'x-FORWARDED-for',
  'X-Tenant',
  'Transfer-Encoding',
  'Content-Length',
  'Content-Length, Transfer-Encoding',
  'Connection',
  'X_Forwarded_For',
];

overTransports(
  'a client that nominates fields in Connection',
  (transport) => {
    it.each(nominations)('%j takes none of ours away', async (value) => {
      const client = await f.raw(transport);
      client.write(
        bytesOf({
          lines: `Connection: ${value}\r\nX-Forwarded-For: 9.9.9.9\r\nX-Tenant: theirs\r\nContent-Length: 2\r\n`,
          body: 'ok',
        }),
      );
      expect((await client.readAnswer({ method: 'POST' })).status).toBe(200);
      const exchange = f.app1.last;
      expect(exchange.values('x-forwarded-for')).toEqual(['127.0.0.1']);
      expect(exchange.values('x-forwarded-proto')).toEqual([transport === 'h1' ? 'http' : 'https']);
      expect(exchange.values('x-real-ip')).toEqual(['127.0.0.1']);
      expect(exchange.values('x-request-id').length).toBe(1);
      expect(exchange.values('host')).toEqual(['app1.test']);
      expect(exchange.values('x-tenant')).toEqual(['ours']);
      expect(exchange.values('connection')).toEqual([]);
      expect(exchange.body.toString()).toBe('ok');
    });

    it('has its own nominees and the fields of this hop removed', async () => {
      const client = await f.raw(transport);
      client.write(
        bytesOf({
          method: 'GET',
          lines:
            'Connection: X-Secret\r\nConnection: x-other , close\r\nX-Secret: s\r\nX-SECRET: t\r\nX-Other: u\r\nKeep-Alive: v\r\n' +
            'Proxy-Connection: w\r\nTE: trailers, deflate\r\nUpgrade: foo\r\nProxy-Authorization: Basic x\r\nTrailer: Y\r\n',
        }),
      );
      expect((await client.readAnswer()).status).toBe(200);
      const { head } = f.app1.last;
      expect(head).not.toMatch(
        /^(?:x-secret|x-other|keep-alive|proxy-connection|upgrade|proxy-authorization|trailer):/im,
      );
      expect(f.app1.last.values('te').concat(f.app1.last.values('connection'))).toEqual(['trailers', 'TE']);
    });
  },
  h1Ways,
);

const forged: readonly Line[] = [
  ['x-forwarded-for', '10.6.6.6'],
  ['x-forwarded-for', '10.6.6.6, 127.0.0.1'],
  ['x-forwarded-proto', 'gopher'],
  ['x-forwarded-host', 'evil.test'],
  ['x-forwarded-port', '666'],
  ['x-forwarded-server', 'evil.test'],
  ['x-forwarded-prefix', '/evil'],
  ['x-forwarded-ssl', 'evil'],
  ['x-real-ip', '10.6.6.6'],
  ['forwarded', 'for=10.6.6.6;proto=gopher;host=evil.test'],
  ['x-request-id', 'evil'],
  ['x_forwarded_for', '10.6.6.6'],
  ['x-forwarded_for', '10.6.6.6'],
  ['x_real_ip', '10.6.6.6'],
  ['x_request_id', 'evil'],
  ['x_tenant', 'evil'],
  ['x_internal', 'evil'],
  ['x-internal', 'evil'],
  ['content_length', '666'],
  ['transfer_encoding', 'evil'],
  ['host_', 'fine'],
];

overTransports('fields that only a proxy may set', (transport) => {
  it('are replaced when an ordinary client sends them, once or twice', async () => {
    const answer = await f.requester(transport).request({ lines: [...forged, ...forged] });
    expect(answer.status).toBe(200);
    const exchange = f.app1.last;
    expect(exchange.head).not.toMatch(/10\.6\.6\.6|evil|gopher|666/);
    for (const name of ['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host', 'x-forwarded-port', 'x-real-ip']) {
      expect(exchange.values(name).length, name).toBe(1);
    }
  });

  it('are one line each when a trusted proxy sends them, and never more than it said', async () => {
    const requester = f.requester(transport, { localAddress: '127.0.0.2' });
    await requester.request({
      lines: [
        ['x-forwarded-for', '9.9.9.9'],
        ['x-forwarded-for', '8.8.8.8'],
        ['x_forwarded_for', '10.6.6.6'],
        ['x-forwarded-proto', 'https'],
      ],
    });
    expect(f.app1.last.values('x-forwarded-for')).toEqual(['9.9.9.9, 8.8.8.8, 127.0.0.2']);
    expect(f.app1.last.values('x-forwarded-proto')).toEqual(['https']);
    expect(f.app1.last.values('x-real-ip')).toEqual(['8.8.8.8']);
    expect(f.app1.last.head).not.toContain('10.6.6.6');
  });

  it('from a trusted proxy are never more than one line can hold', async () => {
    const requester = f.requester(transport, { localAddress: '127.0.0.2' });
    for (const value of ['a\u00a0b', '"', '[::1]:80', '_hidden', '', ',,,', '1.2.3.4:80, unknown', '1'.repeat(3000)]) {
      expect(
        (
          await requester.request({
            lines: [
              ['x-forwarded-for', value],
              ['x-forwarded-host', value],
            ],
          })
        ).status,
      ).toBe(200);
      expect(f.app1.last.values('x-forwarded-for').length).toBe(1);
      expect(f.app1.last.values('x-real-ip').length).toBe(1);
      expect(f.app1.last.values('x-real-ip')[0]).toMatch(/^[0-9a-f.:]+$/);
    }
  });
});

overTransports('an answer', (transport) => {
  it('loses the fields of its hop, and can take none of ours away', async () => {
    f.app1.script = (exchange) =>
      exchange.reply(
        'HTTP/1.1 200 OK\r\nConnection: X-Secret, Set-Cookie, Content-Length\r\nX-Secret: s\r\nKeep-Alive: t\r\n' +
          'Proxy-Connection: u\r\nUpgrade: h2c\r\nTrailer: X\r\nTE: x\r\nContent-Length: 2\r\n\r\nok',
      );
    const answer = await f.requester(transport).request();
    expect([answer.status, answer.body.toString()]).toEqual([200, 'ok']);
    expect(JSON.stringify(answer.lines)).not.toMatch(/secret|keep-alive|proxy-connection|upgrade|trailer/i);
  });
});

overTransports(
  'crumbs of a cookie',
  (transport) => {
    // cloudflare/pingora#892, mitmproxy/mitmproxy#5337: several Cookie lines, or joined by a comma.
    it('are one line, in order, however many there are', async () => {
      const crumbs = Array.from({ length: 150 }, (_each, i): Line => ['cookie', `c${i}=${i}`]);
      expect(await askH2(f, transport, crumbs, { method: 'GET' })).toBe(200);
      expect(f.app1.last.values('cookie')).toEqual([crumbs.map(([, value]) => value).join('; ')]);
    });

    it('hide no line end and no second field', async () => {
      for (const value of ['a=1\r\nx-evil: 1', 'a=1\nx-evil: 1', 'a=1\0x-evil: 1']) {
        const outcome = await askH2(
          f,
          transport,
          [
            ['cookie', 'b=2'],
            ['cookie', value],
          ],
          { method: 'GET' },
        );
        expect([200, 400, 'reset', 'goaway']).toContain(outcome);
      }
      expect(f.app1.text).not.toContain('evil');
    });
  },
  h2Ways,
);
