// The classifier of smart_tcp: what each beginning is taken for, however it is cut into pieces.
import { describe, expect, it, test } from 'vitest';
import { type Sniffed, sniff } from '../../src/entrypoint/sniff.ts';

/** What a client is taken for that sends these bytes one by one, and after how many of them. */
function drip(text: string, thenEnds = false): { readonly sniffed: Sniffed | null; readonly after: number } {
  const bytes = Buffer.from(text, 'latin1');
  for (let length = 1; length <= bytes.length; length++) {
    const sniffed = sniff(bytes.subarray(0, length), false);
    if (sniffed !== null) return { sniffed, after: length };
  }
  return { sniffed: thenEnds ? sniff(bytes, true) : null, after: bytes.length };
}

const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
const proxyV2 = '\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c';

test.each<readonly [text: string, sniffed: Sniffed]>([
  ['GET / HTTP/1.1\r\n', 'http1'],
  ['OPTIONS * HTTP/1.1\r\n', 'http1'],
  ['PROPFIND /dav HTTP/1.1\r\n', 'http1'],
  ['BREW /pot HTTP/1.1\r\n', 'http1'],
  ['PRI * HTTP/1.1\r\n', 'http1'],
  ['\r\nGET / HTTP/1.1\r\n', 'http1'],
  ['foo /x http/1.0\r\n', 'http1'],
  [preface, 'h2c'],
  ['\x16\x03\x01\x00\x05', 'tls'],
  ['\x16\x03\x01\x00\x00', 'tls'],
  ['\x16junk', 'tls'],
  ['PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n', 'proxy'],
  ['PROXY UNKNOWN\r\nSSH-2.0-x\r\n', 'proxy'],
  [proxyV2, 'proxy'],
  ['SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n', 'raw'],
  ['SSH-2.0-libssh_0.9\r\n', 'raw'],
  ['USER anonymous\r\n', 'raw'],
  ['MAIL FROM:<a@b.test>\r\n', 'raw'],
  ['MAIL FROM:<a@b.test> SIZE=100\r\n', 'raw'],
  ['\0\0\0\x08\x04\xd2\x16\x2f', 'raw'],
  ['\x10\x00\x00\x00', 'raw'],
  ['* GET\r\n', 'raw'],
  ['*3\r\n$3\r\nSET\r\n', 'raw'],
  ['hello\r\n', 'raw'],
  ['hello\n', 'raw'],
  ['two words\r\n', 'raw'],
  ['a  b', 'raw'],
  [' GET / HTTP/1.1\r\n', 'raw'],
  ['GE\0T', 'raw'],
  ['PRIVMSG #x :hi\r\n', 'raw'],
  ['GETTING on\r\n', 'raw'],
  ['GETTING on HTTP/1.1\r\n', 'http1'],
  ['PROXYING\r\n', 'raw'],
  ['\r\n\r\nhello', 'raw'],
  [`${'A'.repeat(33)}`, 'raw'],
])('%j is %s, in one piece and byte by byte', (text, sniffed) => {
  expect(sniff(Buffer.from(text, 'latin1'), false)).toBe(sniffed);
  expect(drip(text).sniffed).toBe(sniffed);
});

describe('broken HTTP is never anything else', () => {
  test.each([
    'GET ',
    'GET\r\n',
    'GET /\r\n',
    'GET  / HTTP/1.1',
    'POST\t/ HTTP/1.1',
    'DELETE \0',
    'TRACE a b c\r\n',
    'HEAD\0',
  ])('%j is for the engine to refuse', (text) => {
    expect(drip(text).sniffed).toBe('http1');
    expect(sniff(Buffer.from(text, 'latin1'), false)).toBe('http1');
  });

  it('a target longer than a request line may be', () => {
    expect(sniff(Buffer.from(`BREW /${'x'.repeat(9000)}`), false)).toBe('malformed');
  });

  test.each(['G', 'GET', 'PRI * HT', 'P', 'PROXY', '\r', '\r\n', '\r\n\r\n\0\r\nQU', 'BREW /pot HTT'])(
    '%j and an end is a broken beginning, not something raw',
    (text) => {
      expect(drip(text, true)).toEqual({ sniffed: 'malformed', after: text.length });
    },
  );
});

test.each(['hello', 'BREW', 'BREW /pot', 'BREW /pot '])('%j and an end cannot be HTTP any more', (text) => {
  expect(drip(text, true)).toEqual({ sniffed: 'raw', after: text.length });
});

test.each(['G', 'GET', 'PR', preface.slice(0, -1), proxyV2.slice(0, 11), 'hello', 'BREW /pot HTTP'])(
  '%j is waited for',
  (text) => {
    expect(drip(text).sniffed).toBeNull();
  },
);

test('an answer once given never changes with what follows', () => {
  const beginnings = [
    'GET ',
    'SSH-2.0-x\r\n',
    '\x16',
    'PROXY ',
    preface,
    'BREW / HTTP/',
    '\0',
    'x\r\n',
    'A'.repeat(33),
  ];
  for (const beginning of beginnings) {
    const bytes = Buffer.from(beginning, 'latin1');
    const first = sniff(bytes, false);
    expect(first).not.toBeNull();
    for (let byte = 0; byte < 256; byte++) {
      expect(sniff(Buffer.concat([bytes, Buffer.of(byte)]), false)).toBe(first);
    }
  }
});

test('no more is waited for than it takes to tell', () => {
  expect(drip('GET /index.html HTTP/1.1\r\n').after).toBe(4);
  expect(drip('\0').after).toBe(1);
  expect(drip('PROXY TCP4').after).toBe(6);
  expect(drip(proxyV2).after).toBe(12);
});
