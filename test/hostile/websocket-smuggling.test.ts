// Requests hidden in a WebSocket handshake, and tunnels that a backend never agreed to.
//
// 0ang3el/websocket-smuggle, golang/go#80416: a proxy that takes the connection for a tunnel although the backend did not
// upgrade lets everything that follows past its rules. hodfords-solutions/nestjs-api-gateway#36, h2o/h2o#1276: bytes sent
// with the handshake were lost, or parsed as the next request. sagemathinc/http-proxy-3#26: refusals left sockets behind.
import { describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import type { Exchange } from '../support/recorder.ts';
import { overTransports } from '../support/transports.ts';
import { sleep, until } from '../support/wait.ts';
import {
  acceptFor,
  acceptHandshake,
  encodeWsFrame,
  extendedConnect,
  handshake,
  Opcode,
  sampleKey,
} from '../support/websocket-frames.ts';
import { answersUntilEnd, askH2, h1Ways, h2Ways } from './support/provoke.ts';

const f = useProxy({ workers: 1, limits: 'backend_head_timeout = "1s"' });

const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: app1.test\r\n\r\n';
const key = `Sec-WebSocket-Key: ${sampleKey}\r\n`;

overTransports(
  'what follows a handshake that is not accepted',
  (transport) => {
    const answers: readonly (readonly [string, string, number])[] = [
      ['426', 'HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n', 426],
      ['400', 'HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad', 400],
      ['401 chunked', 'HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n', 401],
      ['302', 'HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n', 302],
      ['200', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok', 200],
      ['204', 'HTTP/1.1 204 No Content\r\n\r\n', 204],
      ['103 and 404', 'HTTP/1.1 103 Early Hints\r\n\r\n|HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n', 404],
    ];

    it.each(answers)('is never a request: %s', async (_name, answer, status) => {
      f.app1.script = (exchange) => {
        for (const part of answer.split('|')) exchange.reply(part);
      };
      const client = await f.raw(transport);
      client.write(handshake('app1.test') + smuggled + smuggled);
      expect((await answersUntilEnd(client)).map((each) => each.status)).toEqual([status]);
      await sleep(20);
      expect(f.app1.exchanges.map((each) => each.target)).toEqual(['/ws']);
      expect(f.app1.text).not.toContain('smuggled');
    });

    it('is dropped when the backend says nothing at all', async () => {
      f.app1.script = () => {};
      const client = await f.raw(transport);
      client.write(handshake('app1.test') + smuggled);
      expect((await answersUntilEnd(client)).map((each) => each.status)).toEqual([504]);
      expect(f.app1.text).not.toContain('smuggled');
    });

    it('is held until the 101, and then reaches the tunnel once', async () => {
      f.app1.script = () => {};
      const client = await f.raw(transport);
      const frame = encodeWsFrame(Opcode.Text, 'early', { mask: true });
      client.write(Buffer.concat([Buffer.from(handshake('app1.test')), frame]));
      const exchange = await f.app1.waitForExchange();
      await sleep(50);
      expect(exchange.connection.raw.length).toBe(0);
      exchange.reply(acceptHandshake(exchange));
      await until('the frame', () => exchange.connection.raw.length === frame.length);
      expect(exchange.connection.raw.equals(frame)).toBe(true);
    });

    it('is not read without end', async () => {
      f.app1.script = () => {};
      const client = await f.raw(transport);
      client.write(handshake('app1.test'));
      const exchange = await f.app1.waitForExchange();
      client.write(Buffer.alloc(4 * 1024 * 1024));
      expect((await answersUntilEnd(client).catch(() => [])).length).toBeLessThan(2);
      expect(exchange.connection.raw.length).toBe(0);
      const line = await until('the log line', () =>
        f.p.accessLog.find((each) => each['path'] === '/ws' && each.status === 504),
      );
      expect(line['in'] ?? 0).toBe(0);
    });
  },
  h1Ways,
);

overTransports(
  'a 101 that proves nothing opens no tunnel',
  (transport) => {
    const forged: readonly (readonly [string, (exchange: Exchange) => string])[] = [
      ['bare', () => 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
      [
        'without an accept',
        () => 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
      ],
      [
        'with the accept of another key',
        () =>
          `HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${acceptFor('x')}\r\n\r\n`,
      ],
      [
        'with an accept in lower case',
        () =>
          `HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${acceptFor(sampleKey).toLowerCase()}\r\n\r\n`,
      ],
      ['to h2c', (exchange) => acceptHandshake(exchange).replace('Upgrade: websocket', 'Upgrade: h2c')],
      [
        'to two protocols',
        (exchange) => acceptHandshake(exchange).replace('Upgrade: websocket', 'Upgrade: websocket, h2c'),
      ],
    ];

    it.each(forged)('%s', async (_name, answer) => {
      f.app1.script = (exchange) => exchange.reply(answer(exchange)).connection.fin();
      const client = await f.raw(transport);
      client.write(handshake('app1.test'));
      expect((await answersUntilEnd(client)).map((each) => each.status)).toEqual([502]);
      await until('the backend socket to close', () => f.app1.open.length === 0);
    });

    const noHandshakes: readonly (readonly [string, string])[] = [
      ['without a key', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'],
      ['with an empty key', 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: \r\n'],
      ['with two keys', `Connection: Upgrade\r\nUpgrade: websocket\r\n${key}Sec-WebSocket-Key: x\r\n`],
      [
        'whose key is nominated by Connection',
        `Connection: Upgrade, Sec-WebSocket-Key\r\nUpgrade: websocket\r\n${key}`,
      ],
      ['without the token', `Upgrade: websocket\r\n${key}`],
      ['with a quoted token', `Connection: "Upgrade"\r\nUpgrade: websocket\r\n${key}`],
      ['to websocket and h2c', `Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n${key}`],
      [
        'to websocket on one line and h2c on another',
        `Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n${key}`,
      ],
      ['to a version of websocket', `Connection: Upgrade\r\nUpgrade: websocket/13\r\n${key}`],
      ['with a body', `Connection: Upgrade\r\nUpgrade: websocket\r\n${key}Content-Length: 5\r\n`],
      ['to TLS', `Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n${key}`],
    ];

    it.each(noHandshakes)('and a request %s asks for none', async (_name, lines) => {
      f.app1.script = (exchange) => {
        if (exchange.values('upgrade').length > 0) exchange.reply(acceptHandshake(exchange));
        else void exchange.whole().then(() => exchange.ok('plain'));
      };
      const client = await f.raw(transport);
      client.write(`GET /ws HTTP/1.1\r\nHost: app1.test\r\n${lines}\r\nhello`);
      const answer = await client.readAnswer();
      expect([answer.status, answer.body.toString()]).toEqual([200, 'plain']);
      expect(f.app1.exchanges[0]!.values('upgrade').concat(f.app1.exchanges[0]!.values('connection'))).toEqual([]);
    });

    it('and a 101 for a plain request is 502', async () => {
      f.app1.script = (exchange) =>
        exchange.reply(`${acceptHandshake(exchange)}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`);
      const client = await f.raw(transport);
      client.write('GET / HTTP/1.1\r\nHost: app1.test\r\nConnection: close\r\n\r\n');
      expect((await answersUntilEnd(client)).map((each) => each.status)).toEqual([502]);
    });
  },
  h1Ways,
);

overTransports(
  'a tunnel over HTTP/2',
  (transport) => {
    it.each([
      [
        '101 with the wrong accept',
        () => `HTTP/1.1 101 X\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${acceptFor('x')}\r\n\r\n`,
        502,
      ],
      ['101 without an accept', () => 'HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n', 502],
      ['200', () => 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok', 502],
      ['204', () => 'HTTP/1.1 204 No Content\r\n\r\n', 502],
      ['403', () => 'HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n', 403],
    ] as const satisfies readonly (readonly [string, () => string, number])[])(
      'is not opened by %s',
      async (_name, answer, status) => {
        f.app1.script = (exchange) => exchange.reply(answer()).connection.fin();
        expect(await askH2(f, transport, [], { whole: extendedConnect('app1.test'), body: smuggled })).toBe(status);
        expect(f.app1.text).not.toContain('smuggled');
      },
    );

    it.each([
      ['another protocol', extendedConnect('app1.test', '/ws', [], 'h2c')],
      ['connect-udp', extendedConnect('app1.test', '/ws', [], 'connect-udp')],
      ['an empty protocol', extendedConnect('app1.test', '/ws', [], '')],
      ['websocket in capitals', extendedConnect('app1.test', '/ws', [], 'WebSocket')],
      [
        'a plain CONNECT',
        [
          [':method', 'CONNECT'],
          [':authority', 'app1.test:443'],
        ] as const,
      ],
      [
        'a protocol on a GET',
        [
          [':method', 'GET'],
          [':protocol', 'websocket'],
          [':scheme', 'https'],
          [':path', '/'],
          [':authority', 'app1.test'],
        ] as const,
      ],
      ['no path', extendedConnect('app1.test').filter(([name]) => name !== ':path')],
      ['no scheme', extendedConnect('app1.test').filter(([name]) => name !== ':scheme')],
    ])('is not asked for by %s', async (_name, whole) => {
      expect([400, 405, 501, 'reset', 'goaway']).toContain(await askH2(f, transport, [], { whole, body: smuggled }));
      expect(f.app1.exchanges).toEqual([]);
    });

    it('asks with a key of ours, whatever key the client made up', async () => {
      f.app1.script = (exchange) => exchange.reply('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n');
      await askH2(f, transport, [], {
        whole: extendedConnect('app1.test', '/ws', [
          ['sec-websocket-key', 'mine'],
          ['sec-websocket-key', 'yours'],
        ]),
        body: '',
      });
      expect(f.app1.last.values('sec-websocket-key').length).toBe(1);
      expect(f.app1.last.head).not.toMatch(/mine|yours/);
    });
  },
  h2Ways,
);

describe('handshakes by the hundred', () => {
  it('leave no socket behind, however they end', async () => {
    let n = 0;
    f.app1.script = (exchange) => {
      switch (n++ % 5) {
        case 0:
          exchange.reply(acceptHandshake(exchange));
          break;
        case 1:
          exchange.reply('HTTP/1.1 401 Unauthorized\r\nContent-Length: 20\r\n\r\nthis is not for you!');
          break;
        case 2:
          exchange.connection.fin();
          break;
        case 3:
          exchange.connection.reset();
          break;
        default:
          exchange.reply('HTTP/1.1 101 X\r\n\r\n');
      }
    };
    await Promise.all(
      Array.from({ length: 200 }, async (_each, i) => {
        const client = await f.raw(i % 2 === 0 ? 'h1' : 'h1+tls');
        client.write(handshake('app1.test'));
        await client.readAnswer();
        if (i % 3 === 0) client.reset();
        else client.destroy();
      }),
    );
    await until('the backend sockets to close', () => f.app1.open.every((each) => each.idle));
    expect(f.app1.open.filter((each) => each.exchanges.length > 0 && !each.idle)).toEqual([]);
  });
});
