// An upgrade to h2c, which turns a proxy into a blind tunnel (RFC 9113 §3.1 took it out of the protocol).
//
// golang/go#80416, dotnet/yarp#877, traefik/traefik#9341: the three fields reached a backend that speaks h2c, it said 101,
// and every later request on the connection went past routes, rules and login.
import { expect, it } from 'vitest';
import { encodeFrame, encodeSettings, FrameType, preface } from '../support/h2-frames.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { overTransports } from '../support/transports.ts';
import { sampleKey } from '../support/websocket-frames.ts';
import { requestBlock } from './support/flood.ts';
import { answersUntilEnd, askH2, h1Ways, h2Ways } from './support/provoke.ts';

const f = useProxy({ workers: 1 });

const settings = 'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n';
const key = `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${sampleKey}\r\n`;
const attempts = [
  `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n${settings}`,
  `Connection: Upgrade\r\nUpgrade: h2c\r\n${settings}`,
  `Connection: HTTP2-Settings\r\nUpgrade: h2c\r\n${settings}`,
  `Upgrade: h2c\r\n${settings}`,
  `Connection: upgrade, http2-settings\r\nupgrade: H2C\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n`,
  `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: websocket, h2c\r\n${settings}${key}`,
  `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c, websocket\r\n${settings}${key}`,
  `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n${settings}${key}`,
  `Connection: Upgrade\r\nConnection: HTTP2-Settings\r\nUpgrade: h2c\r\n${settings}${settings}`,
  `Connection: Upgrade\r\nUpgrade: h2\r\n`,
  `Connection: Upgrade\r\nUpgrade: HTTP/2.0\r\n`,
  `Connection: Upgrade\r\nUpgrade: TLS/1.3\r\n`,
  `Connection: close, Upgrade\r\nUpgrade: h2c\r\n${settings}`,
];

/** What a client sends when it believes that it speaks HTTP/2 now. */
const blind = Buffer.concat([
  preface,
  encodeSettings([]),
  encodeFrame(FrameType.Headers, 5, 1, requestBlock('GET', [], '/smuggled')),
]);

overTransports(
  'an upgrade to h2c',
  (transport) => {
    it.each(attempts)('%j is a plain request without the three fields', async (lines) => {
      // The backend would: it says 101 to whoever asks for any upgrade.
      f.app1.script = (exchange) => {
        if (exchange.values('upgrade').length > 0)
          exchange.reply('HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n');
        else exchange.ok('plain');
      };
      const client = await f.raw(transport);
      client.write(Buffer.concat([Buffer.from(`GET /public HTTP/1.1\r\nHost: app1.test\r\n${lines}\r\n`), blind]));
      const statuses = (await answersUntilEnd(client)).map((each) => each.status);
      // The preface behind it is no HTTP/1.1 request: 400 or 505, unless the connection ended with the answer.
      expect(statuses[0]).toBe(200);
      for (const status of statuses.slice(1)) expect([400, 505]).toContain(status);
      expect(f.app1.exchanges.length).toBe(1);
      const { head } = f.app1.exchanges[0]!;
      expect(head).not.toMatch(/^(?:upgrade|http2-settings|connection):/im);
      expect(f.app1.text).not.toContain('smuggled');
    });

    it('that the backend starts on its own is 502', async () => {
      for (const upgrade of ['', 'Upgrade: h2c\r\n', 'Connection: Upgrade\r\nUpgrade: h2c\r\n']) {
        f.app1.script = (exchange) =>
          exchange.reply(`HTTP/1.1 101 Switching Protocols\r\n${upgrade}\r\n\0\0\0\x04\0\0\0\0\0`);
        const client = await f.raw(transport);
        client.write(`GET / HTTP/1.1\r\nHost: app1.test\r\nConnection: close\r\n\r\n`);
        expect((await answersUntilEnd(client)).map((each) => each.status)).toEqual([502]);
      }
    });

    it('is no way into an HTTP/1.1 connection later on', async () => {
      const client = await f.raw(transport);
      client.write(Buffer.concat([Buffer.from('GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n'), blind]));
      const statuses = (await answersUntilEnd(client)).map((each) => each.status);
      expect(statuses[0]).toBe(200);
      expect([400, 505]).toContain(statuses[1]);
      expect(f.app1.text).not.toContain('smuggled');
    });
  },
  h1Ways,
);

overTransports(
  'an upgrade inside HTTP/2',
  (transport) => {
    it.each([
      ['upgrade', 'h2c'],
      ['upgrade', 'websocket'],
      ['connection', 'upgrade'],
      ['http2-settings', 'AAMAAABkAARAAAAAAAIAAAAA'],
      ['proxy-connection', 'keep-alive'],
      ['keep-alive', 'timeout=5'],
      ['te', 'gzip'],
    ])('%s: %s is refused or dropped', async (name, value) => {
      const outcome = await askH2(f, transport, [[name, value]], { method: 'GET' });
      expect([200, 400, 'reset', 'goaway']).toContain(outcome);
      for (const exchange of f.app1.exchanges) {
        expect(exchange.head).not.toMatch(
          /^(?:upgrade|http2-settings|connection|keep-alive|proxy-connection):(?! TE\r)/im,
        );
        expect(exchange.values('te').filter((each) => each !== 'trailers')).toEqual([]);
      }
    });
  },
  h2Ways,
);
