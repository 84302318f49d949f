// Content-Length and Transfer-Encoding in one message (RFC 9112 §6.1, §6.3).
//
// litespeedtech/openlitespeed#392, tinyproxy/tinyproxy#609: the proxy un-chunked the body yet kept the client's
// Content-Length, so that the backend took what was left over for a second request, past every rule of the proxy.
import { describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { overTransports } from '../support/transports.ts';
import { askH2, bytesOf, h1Ways, h2Ways, type Message, refusedEverywhere } from './support/provoke.ts';

const f = useProxy({ workers: 1 });

const hidden = '2b\r\nGET /smuggled HTTP/1.1\r\nHost: app1.test\r\n\r\n\r\n0\r\n\r\n';
const length = 'Content-Length: 0\r\n';
const chunked = 'Transfer-Encoding: chunked\r\n';
const manyLines = Array.from({ length: 150 }, (_each, i) => `X-${i}: a\r\n`).join('');

const attacks: readonly (readonly [name: string, message: Message])[] = [
  ['length first', { lines: length + chunked, body: hidden }],
  ['coding first', { lines: chunked + length, body: hidden }],
  ['as HTTP/1.0', { version: '1.0', lines: length + chunked, body: hidden }],
  ['a coding alone, as HTTP/1.0', { version: '1.0', lines: chunked, body: hidden }],
  ['a length that fits the chunked body', { lines: `Content-Length: ${hidden.length}\r\n${chunked}`, body: hidden }],
  ['a length of the first chunk only', { lines: `Content-Length: 4\r\n${chunked}`, body: hidden }],
  ['capitals', { lines: 'CONTENT-LENGTH: 0\r\ntransfer-encoding: CHUNKED\r\n', body: hidden }],
  ['150 lines apart', { lines: length + manyLines + chunked, body: hidden }],
  ['on a GET', { method: 'GET', lines: length + chunked, body: hidden }],
  ['on a HEAD', { method: 'HEAD', lines: length + chunked, body: hidden }],
  ['on an OPTIONS', { method: 'OPTIONS', lines: length + chunked, body: hidden }],
  ['on a DELETE', { method: 'DELETE', lines: length + chunked, body: hidden }],
  ['nominated by Connection', { lines: `Connection: Content-Length\r\n${length}${chunked}`, body: hidden }],
  [
    'the coding nominated by Connection',
    { lines: `Connection: Transfer-Encoding\r\n${length}${chunked}`, body: hidden },
  ],
  ['with an expectation', { lines: `Expect: 100-continue\r\n${length}${chunked}`, body: hidden }],
];

overTransports(
  'a request with a length and a coding is refused',
  (transport) => {
    it.each(attacks)('%s', async (_name, message) => {
      await refusedEverywhere(f, transport, message);
    });

    it.each(['Content_Length: 5\r\n', 'content_length: 0\r\n', 'CONTENT_length: 99\r\n'])(
      '%j is no length, and does not reach a backend that could take it for one',
      async (twin) => {
        const client = await f.raw(transport);
        client.write(bytesOf({ lines: twin + chunked, body: '5\r\nhello\r\n0\r\n\r\n' }));
        expect((await client.readAnswer({ method: 'POST' })).status).toBe(200);
        expect(f.app1.last.head).not.toMatch(/content.length/i);
        expect(f.app1.last.body.toString()).toBe('hello');
      },
    );

    it.each(['Transfer_Encoding: chunked\r\n', 'transfer_encoding: chunked\r\n', 'Transfer_encoding: x\r\n'])(
      '%j is no coding, and does not reach a backend that could take it for one',
      async (twin) => {
        const client = await f.raw(transport);
        client.write(bytesOf({ lines: `${twin}Content-Length: 5\r\n`, body: 'hello' }));
        expect((await client.readAnswer({ method: 'POST' })).status).toBe(200);
        expect(f.app1.last.head).not.toMatch(/transfer.encoding/i);
        expect(f.app1.last.body.toString()).toBe('hello');
      },
    );
  },
  h1Ways,
);

overTransports(
  'over HTTP/2 the frames are the framing',
  (transport) => {
    // RFC 9113 §8.1.1, §8.2.2: a malformed request; nghttp2 resets the stream.
    it.each([
      ['a coding', [['transfer-encoding', 'chunked']], 'hello'],
      [
        'a coding beside a length',
        [
          ['transfer-encoding', 'chunked'],
          ['content-length', '5'],
        ],
        'hello',
      ],
      ['a coding without a body', [['transfer-encoding', 'chunked']], null],
      ['a length that is too short', [['content-length', '4']], 'hello'],
      ['a length that is too long', [['content-length', '6']], 'hello'],
      ['a length without a body', [['content-length', '6']], null],
      [
        'two lengths',
        [
          ['content-length', '5'],
          ['content-length', '6'],
        ],
        'hello',
      ],
      ['a length that is no number', [['content-length', '5x']], 'hello'],
      ['a length with a sign', [['content-length', '+5']], 'hello'],
      ['a length of nothing', [['content-length', '']], 'hello'],
      ['a list of lengths', [['content-length', '5, 5']], 'hello'],
    ] as const)('%s is refused', async (_name, lines, body) => {
      const outcome = await askH2(f, transport, lines, { body });
      expect([400, 'reset', 'goaway']).toContain(outcome);
      for (const exchange of f.app1.exchanges) {
        // The head may have left before the body proved wrong; then the request was never completed.
        expect(exchange.values('transfer-encoding').concat(exchange.values('content-length')).length).toBeLessThan(2);
        expect(exchange.bodyComplete).toBe(false);
      }
    });

    it.each(['content_length', 'transfer_encoding'])('%s does not reach the backend', async (name) => {
      expect(await askH2(f, transport, [[name, '5']], { body: 'hello' })).toBe(200);
      expect(f.app1.last.head.toLowerCase()).not.toContain(name);
      expect(f.app1.last.body.toString()).toBe('hello');
    });
  },
  h2Ways,
);

describe('what the client meant with one of them', () => {
  it('is forwarded with exactly that one', async () => {
    const client = await f.plain();
    client.write(bytesOf({ lines: 'Content-Length: 5\r\n', body: 'hello' }));
    await client.readAnswer({ method: 'POST' });
    client.write(bytesOf({ lines: chunked, body: '5\r\nhello\r\n0\r\n\r\n' }));
    await client.readAnswer({ method: 'POST' });
    const framings = f.app1.exchanges.map((each) => [
      ...each.values('content-length'),
      ...each.values('transfer-encoding'),
    ]);
    expect(framings).toEqual([['5'], ['chunked']]);
  });
});
