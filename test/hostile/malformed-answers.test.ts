// Answers that two readers would frame differently (RFC 9112 §4, §6.1, §6.3, §7.1), and answers that are none.
//
// The mirror of tinyproxy/tinyproxy#616, apache/trafficserver#11036 and litespeedtech/openlitespeed#392: a backend that can
// be made to echo bytes into its head frames the answer anew, and what is left over answers somebody else's request.
// nodejs/llhttp and undici read `chunked<TAB>` and `xchunked` until the connection closes.
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import type { Exchange } from '../support/recorder.ts';
import { overTransports } from '../support/transports.ts';
import { until } from '../support/wait.ts';

const f = useProxy({ workers: 1 });

const ok = 'HTTP/1.1 200 OK\r\n';
const chunkedBody = '2\r\nok\r\n0\r\n\r\n';

/** By lines between the status line and the blank line, and the body after it. */
const framings: readonly (readonly [lines: string, body: string])[] = [
  ['Content-Length: 2\r\nTransfer-Encoding: chunked\r\n', chunkedBody],
  ['Transfer-Encoding: chunked\r\nContent-Length: 2\r\n', chunkedBody],
  ['Transfer-Encoding: chunked\t\r\n', chunkedBody],
  ['Transfer-Encoding: xchunked\r\n', chunkedBody],
  ['Transfer-Encoding: identity\r\n', 'ok'],
  ['Transfer-Encoding: "chunked"\r\n', chunkedBody],
  ['Transfer-Encoding: chunked,\r\n', chunkedBody],
  ['Transfer-Encoding: gzip\r\n', 'ok'],
  ['Transfer-Encoding: gzip, chunked\r\n', chunkedBody],
  ['Transfer-Encoding: chunked, gzip\r\n', chunkedBody],
  ['Transfer-Encoding: chunked, chunked\r\n', chunkedBody],
  ['Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', chunkedBody],
  ['Transfer-Encoding: \r\n', 'ok'],
  ['Transfer-Encoding : chunked\r\n', chunkedBody],
  ['Transfer-Encoding:\r\n chunked\r\n', chunkedBody],
  ['X: y\r\n Transfer-Encoding: chunked\r\n', chunkedBody],
  ['Content-Length: 2\r\nContent-Length: 3\r\n', 'ok!'],
  ['Content-Length: 2, 3\r\n', 'ok!'],
  ['Content-Length: +2\r\n', 'ok'],
  ['Content-Length: -2\r\n', 'ok'],
  ['Content-Length: 0x2\r\n', 'ok'],
  ['Content-Length: 2x\r\n', 'ok'],
  ['Content-Length: 2 \t3\r\n', 'ok'],
  ['Content-Length: \r\n', 'ok'],
  ['Content-Length: 9007199254740993\r\n', 'ok'],
  [`Content-Length: ${'9'.repeat(40)}\r\n`, 'ok'],
  ['Content-Length : 2\r\n', 'ok'],
  ['Content-Length\r\n', 'ok'],
  ['No colon\r\nContent-Length: 2\r\n', 'ok'],
  [': nameless\r\nContent-Length: 2\r\n', 'ok'],
  ['X Y: z\r\nContent-Length: 2\r\n', 'ok'],
  ['X\xe9: z\r\nContent-Length: 2\r\n', 'ok'],
  [`${Array.from({ length: 220 }, (_each, i) => `X-${i}: a\r\n`).join('')}Content-Length: 2\r\n`, 'ok'],
  [`X: ${'a'.repeat(40_000)}\r\nContent-Length: 2\r\n`, 'ok'],
];

/** Whole answers that are no HTTP/1.1 or HTTP/1.0 answer. */
const nonsense = [
  'ok\n',
  'ok\r\n\r\n',
  '\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
  ' HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 200 OK\nContent-Length: 2\n\nok',
  'HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok',
  'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nok',
  'http/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1\t200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 +20 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 2OO OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/0.9 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  'ICY 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n',
  '\x16\x03\x01\x00\x05hello',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'SSH-2.0-OpenSSH_9.2\r\n\r\n',
  '\0\0\0\0\0\0\0\0\0',
];

/** Bodies whose chunks are not what they say; what came before may have been relayed, the end never comes. */
const chunks = [
  '0x2\r\nok\r\n0\r\n\r\n',
  '2 \r\nok\r\n0\r\n\r\n',
  ' 2\r\nok\r\n0\r\n\r\n',
  '+2\r\nok\r\n0\r\n\r\n',
  '2\nok\r\n0\r\n\r\n',
  '2\r\nok\n0\r\n\r\n',
  '2\r\nokX\r\n0\r\n\r\n',
  '2\r\no\r\n0\r\n\r\n',
  '2;\n\r\nok\r\n0\r\n\r\n',
  '2;a=b c\r\nok\r\n0\r\n\r\n',
  'g\r\nok\r\n0\r\n\r\n',
  '\r\nok\r\n0\r\n\r\n',
  '20000000000000\r\nok',
  'fffffffffffffffff2\r\nok\r\n0\r\n\r\n',
  '2\r\nok\r\n0\r\nX Y: z\r\n\r\n',
  '2\r\nok\r\n0\r\n folded: z\r\n\r\n',
  '2\r\nok\r\n0\r\nContent-Length: 5\r\n\r\n',
  '2\r\nok\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n',
  '2\r\nok\r\n0\r\nX: y\n\n',
  `2\r\nok\r\n0\r\n${'X: y\r\n'.repeat(8000)}\r\n`,
];

async function socketIsGone(exchange: Exchange): Promise<void> {
  await until(
    'the backend socket to be given up',
    () => !exchange.connection.open || exchange.connection.finAt !== null,
  );
}

overTransports(
  'an answer that is malformed',
  (transport) => {
    const refused = async (answer: string): Promise<void> => {
      f.app1.script = (exchange) => exchange.reply(answer);
      const { status, body, lines } = await f.requester(transport).request({ path: '/refused' });
      expect(status).toBe(502);
      expect(`${body}${JSON.stringify(lines)}`).not.toMatch(/ok!?$|X-0|folded/);
      await socketIsGone(f.app1.last);
    };

    it.each(framings)('by its framing is 502: %j', async (lines, body) => {
      await refused(`${ok}${lines}\r\n${body}`);
    });

    it.each(nonsense)('from its first line is 502: %j', refused);

    it.each(chunks)('inside its chunks is cut: %j', async (body) => {
      f.app1.script = (exchange) => exchange.reply(`${ok}Transfer-Encoding: chunked\r\n\r\n${body}`);
      const answer = await f.requester(transport).request({ lines: [['TE', 'trailers']] });
      if (answer.status !== 502) {
        expect(answer.complete).toBe(false);
        expect(['', 'ok', 'o\r']).toContain(answer.body.toString());
        expect(answer.trailers).toEqual([]);
      }
      await socketIsGone(f.app1.last);
    });

    it('as a refusal of an upgrade, or to a HEAD, is 502 as well', async () => {
      for (const [lines, body] of framings.slice(0, 4)) {
        f.app1.script = (exchange) => exchange.reply(`${ok}${lines}\r\n${body}`);
        expect((await f.requester(transport).request({ method: 'HEAD' })).status).toBe(502);
        f.app1.script = (exchange) => exchange.reply(`HTTP/1.1 401 No\r\n${lines}\r\n${body}`);
        expect((await f.requester(transport).webSocket()).answer.status).toBe(502);
      }
    });
  },
  ['h1', 'h2'],
);
