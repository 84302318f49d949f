// CR, LF and NUL inside a line (RFC 9112 §2.2, RFC 9110 §5.5, RFC 9113 §8.2.1).
//
// hahwul/gori#341: one hop kept a bare CR as a byte of the value, another took it for the end of the line and found a
// second field behind it, which framed the message anew.
import { describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import { overTransports } from '../support/transports.ts';
import { until } from '../support/wait.ts';
import { acceptHandshake, handshake } from '../support/websocket-frames.ts';
import { answersUntilEnd, askH2, h1Ways, h2Ways, refusedEverywhere } from './support/provoke.ts';

const f = useProxy({ workers: 1 });

const strays = [
  ['a bare CR', '\r'],
  ['a bare LF', '\n'],
  ['a NUL', '\0'],
  ['CR CR LF', '\r\r\n'],
  ['LF CR', '\n\r'],
  ['CR NUL LF', '\r\0\n'],
  ['a vertical tab', '\x0b'],
  ['a form feed', '\x0c'],
  ['DEL', '\x7f'],
  ['ESC', '\x1b'],
  ['backspace', '\b'],
] as const;

/** Every place of a request where such a byte may hide. */
const spots: readonly (readonly [string, (stray: string) => { target?: string; method?: string; lines: string }])[] = [
  ['in a value', (stray) => ({ lines: `X-A: b${stray}Transfer-Encoding: chunked\r\n` })],
  ['at the start of a value', (stray) => ({ lines: `X-A: ${stray}b\r\n` })],
  ['at the end of a value', (stray) => ({ lines: `X-A: b${stray}\r\n` })],
  ['in a name', (stray) => ({ lines: `X-${stray}A: b\r\n` })],
  ['before the colon', (stray) => ({ lines: `X-A${stray}: b\r\n` })],
  ['instead of a line', (stray) => ({ lines: `X-A: b\r\n${stray}\r\n` })],
  ['in the target', (stray) => ({ target: `/a${stray}b`, lines: '' })],
  ['in the method', (stray) => ({ method: `G${stray}ET`, lines: '' })],
  ['in the version', (stray) => ({ version: `1.${stray}1`, lines: '' })],
];

overTransports(
  'a request with a control byte is refused',
  (transport) => {
    it.each(spots)('%s', async (_place, message) => {
      for (const [, stray] of strays) {
        await refusedEverywhere(f, transport, { body: '0\r\n\r\n', ...message(stray) });
        f.app1.reset();
      }
    });
  },
  h1Ways,
);

overTransports('an answer with a control byte', (transport) => {
  const heads: readonly (readonly [string, (stray: string) => string])[] = [
    ['in a value', (stray) => `HTTP/1.1 200 OK\r\nX-A: b${stray}Set-Cookie: evil=1\r\nContent-Length: 2\r\n\r\nok`],
    ['in a name', (stray) => `HTTP/1.1 200 OK\r\nX-${stray}A: b\r\nContent-Length: 2\r\n\r\nok`],
    ['in the reason', (stray) => `HTTP/1.1 200 O${stray}K\r\nContent-Length: 2\r\n\r\nok`],
    [
      'in an interim answer',
      (stray) => `HTTP/1.1 103 \r\nLink: a${stray}b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`,
    ],
  ];
  for (const [place, head] of heads) {
    it.each(strays)(`%s ${place} is 502, and its socket is not used again`, async (_name, stray) => {
      f.app1.script = (exchange) => exchange.reply(head(stray));
      const requester = f.requester(transport);
      const answer = await requester.request();
      expect(answer.status).toBe(502);
      expect(answer.interim).toEqual([]);
      expect(`${answer.head}${JSON.stringify(answer.lines)}`).not.toContain('evil');
      await until('the backend socket to close', () => f.app1.open.length === 0);
    });
  }

  it.each(strays)('%s in a trailer never arrives', async (_name, stray) => {
    f.app1.script = (exchange) =>
      exchange.reply(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-A: b${stray}c\r\n\r\n`);
    const requester = f.requester(transport);
    const answer = await requester.request({ lines: [['TE', 'trailers']] }).catch(() => null);
    expect(answer?.complete ?? false).toBe(false);
    expect(answer?.trailers ?? []).toEqual([]);
  });
});

overTransports(
  'a request over HTTP/2 with a control byte',
  (transport) => {
    it.each([
      ['in a value', [['x-a', 'b\rc']]],
      ['as a line end in a value', [['x-a', 'b\r\nx-evil: 1']]],
      ['LF in a value', [['x-a', 'b\nx-evil: 1']]],
      ['NUL in a value', [['x-a', 'b\0x-evil: 1']]],
      ['in a name', [['x-evil: 1\r\nx-a', 'b']]],
      ['LF in a name', [['x-a\nx-evil', 'b']]],
      ['a colon in a name', [['x-a:x-evil', 'b']]],
      ['a space in a name', [['x-a x-evil', 'b']]],
      ['an empty name', [['', 'x-evil']]],
      ['a blank at the front of a value', [['x-a', ' x-evil']]],
      ['a blank at the end of a value', [['x-a', 'x-evil\t']]],
      ['in a cookie', [['cookie', 'a=1\r\nx-evil: 1']]],
    ] as const)('%s reaches no backend', async (_name, lines) => {
      const outcome = await askH2(f, transport, lines as never, { method: 'GET' });
      expect([200, 400, 'reset', 'goaway']).toContain(outcome);
      for (const exchange of f.app1.exchanges) expect(exchange.head).not.toContain('evil');
    });

    it.each([
      ['the path', { path: '/a\r\nx-evil: 1' }],
      ['the path, a space', { path: '/a HTTP/1.1' }],
      ['the path, NUL', { path: '/a\0' }],
      ['the path, bytes beyond ASCII', { path: '/\xe9' }],
      ['the method', { method: 'GET / HTTP/1.1\r\nx-evil: 1\r\n' }],
      ['the method, a space', { method: 'GE T' }],
      ['the method, nothing', { method: '' }],
      ['the authority', { authority: 'app1.test\r\nx-evil: 1' }],
      ['the authority, a space', { authority: 'app1.test evil' }],
      ['the authority, a slash', { authority: 'app1.test/evil' }],
    ])('in %s is refused', async (_name, options) => {
      const outcome = await askH2(f, transport, [], { method: 'GET', ...options });
      expect([400, 'reset', 'goaway']).toContain(outcome);
      expect(f.app1.exchanges).toEqual([]);
    });
  },
  h2Ways,
);

describe('a 101 with a control byte', () => {
  it.each(strays)('%s is 502 and no tunnel', async (_name, stray) => {
    f.app1.script = (exchange) => exchange.reply(acceptHandshake(exchange, `X-A: b${stray}c\r\n`)).connection.fin();
    const client = await RawClient.connect({ port: f.webPort });
    client.write(handshake('app1.test'));
    expect((await answersUntilEnd(client)).map((each) => each.status)).toEqual([502]);
  });
});
