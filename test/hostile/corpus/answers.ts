// Answers as byte strings, by the part of them that is odd, and what a client may get of each.
// Invariant: written by hand and never derived from the code under test; a body that is honest is `hello`, what only a second
// reading would find says `poison`.

export interface AnswerCase {
  readonly kind: string;
  readonly method: 'GET' | 'HEAD';
  readonly bytes: string;
  /** The origin ends the connection behind it. */
  readonly fin: boolean;
  /** A status that is relayed; `refused`: a 502 of ours; `cut`: a 502, or the beginning of it and an end that looks like none. */
  readonly outcome: number | 'refused' | 'cut';
}

const all: AnswerCase[] = [];
type Outcome = AnswerCase['outcome'];
function cases(
  kind: string,
  list: readonly (readonly [bytes: string, outcome: Outcome])[],
  options: { method?: 'GET' | 'HEAD'; fin?: boolean } = {},
): void {
  const { method = 'GET', fin = false } = options;
  for (const [bytes, outcome] of list) all.push({ kind, method, bytes, fin, outcome });
}

const poison = 'HTTP/1.1 200 OK\r\nX-Poison: yes\r\nContent-Length: 6\r\n\r\npoison';
const sized = 'Content-Length: 5\r\n\r\nhello';

// ---- status line -----------------------------------------------------------------------------------------------

const begins = (line: string): string => `${line}\r\n${sized}${poison}`;
cases('status line', [
  [begins('HTTP/1.1 200 OK'), 200],
  [begins('HTTP/1.1 200 '), 200],
  [begins('HTTP/1.1 200'), 200],
  [begins('HTTP/1.1 200 A reason\tof \xe9 words'), 200],
  [begins('HTTP/1.1 200  two spaces'), 200],
  [begins('HTTP/1.0 200 OK'), 200],
  [begins('HTTP/1.1 299 OK'), 299],
  [begins('HTTP/1.1 404 '), 404],
  [begins('HTTP/1.1 599 X'), 599],
  ...[
    'HTTP/1.1  200 OK',
    'HTTP/1.1\t200 OK',
    ' HTTP/1.1 200 OK',
    '\r\nHTTP/1.1 200 OK',
    '\nHTTP/1.1 200 OK',
    'HTTP/1.1 200\tOK',
    'HTTP/1.1 2x0 OK',
    'HTTP/1.1 20 OK',
    'HTTP/1.1 2000 OK',
    'HTTP/1.1 -200 OK',
    'HTTP/1.1 +200 OK',
    'HTTP/1.1 0200 OK',
    'HTTP/1.1 000 OK',
    'HTTP/1.1 099 OK',
    'HTTP/1.1  OK',
    'HTTP/1.1',
    'HTTP/1.1 \xb2\xb0\xb0 OK',
    'HTTP/2.0 200 OK',
    'HTTP/0.9 200 OK',
    'HTTP/1.2 200 OK',
    'HTTP/11 200 OK',
    'HTTP/1.1.1 200 OK',
    'HTTP/1,1 200 OK',
    'http/1.1 200 OK',
    'HTTPS/1.1 200 OK',
    'ICY 200 OK',
    'GET / HTTP/1.1',
    '200 OK',
    'HTTP/1.1 200 O\0K',
    'HTTP/1.1 200 O\rK',
    'HTTP/1.1 200 O\nK',
    'HTTP/1.1 200 O\x0bK',
    'HTTP/1.1 200 O\x7fK',
    'HTTP/1.1 200 OK\r',
    '<html>',
    '\x15\x03\x03\x00\x02\x02\x28',
  ].map((line) => [begins(line), 'refused'] as const),
  [`HTTP/1.1 200 OK\n${sized}`, 'refused'],
  ['HTTP/1.1 101 Switching Protocols\r\n\r\n', 'refused'],
  ['HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n', 'refused'],
  [`HTTP/1.1 100 Continue\r\n\r\n${begins('HTTP/1.1 200 OK')}`, 200],
  [`HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${begins('HTTP/1.1 200 OK')}`, 200],
  [`HTTP/1.1 103 X\r\nContent-Length: 5\r\n\r\n${begins('HTTP/1.1 200 OK')}`, 200],
  [`HTTP/1.1 103 X\r\nX: a\rb\r\n\r\n${begins('HTTP/1.1 200 OK')}`, 'refused'],
]);

// ---- fields ----------------------------------------------------------------------------------------------------

const withLine = (line: string): string => `HTTP/1.1 200 OK\r\n${line}${sized}${poison}`;
cases('header name', [
  [withLine('X: y\r\n'), 200],
  [withLine("x!#$%&'*+-.^_`|~9: y\r\n"), 200],
  ...[
    'X : y',
    'X\t: y',
    ' X: y',
    '\tX: y',
    ': y',
    'X y',
    'X',
    'X Y: z',
    'X\0: y',
    'X\x7f: y',
    'X\xe9: y',
    'X(: y',
    '"X": y',
    'X@: y',
    'X,Y: z',
    'X\r: y',
    'X\n: y',
    'HTTP/1.1 200 OK',
  ].map((line) => [withLine(`${line}\r\n`), 'refused'] as const),
]);
cases('header value', [
  [withLine('X:\r\n'), 200],
  [withLine('X:y\r\n'), 200],
  [withLine('X: \t y \t \r\n'), 200],
  [withLine('X: \xe9\xff\x80\r\n'), 200],
  [withLine('Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n'), 200],
  [withLine(`X: ${'y'.repeat(20_000)}\r\n`), 200],
  ...[
    'a\rb',
    'a\nb',
    'a\r\n b',
    'a\r\n\tb',
    'a\r\n ',
    'a\0b',
    'a\x01b',
    'a\x0bb',
    'a\x0cb',
    'a\x1bb',
    'a\x7fb',
    'a\r',
    'a\n',
    'a\rSet-Cookie: poison=1',
    'a\nSet-Cookie: poison=1',
  ].map((value) => [withLine(`X: ${value}\r\n`), 'refused'] as const),
  [withLine(`X: ${'y'.repeat(40_000)}\r\n`), 'refused'],
  [withLine('X: y\r\n'.repeat(250)), 'refused'],
]);

// ---- length ----------------------------------------------------------------------------------------------------

const long = (value: string, body = 'hello'): string =>
  `HTTP/1.1 200 OK\r\nContent-Length:${value}\r\n\r\n${body}${poison}`;
cases('length', [
  [long(' 5'), 200],
  [long('5'), 200],
  [long(' 0005'), 200],
  [long(' 0', ''), 200],
  ...[
    ' +5',
    ' -5',
    ' 5.',
    ' 5.0',
    ' 0x5',
    ' 5h',
    ' 5 5',
    ' 5, 5',
    ' 5, 6',
    ' 5,',
    ' "5"',
    ' 5;',
    ' 5\0',
    ' 5\x0b',
    ' 5\xa0',
    ' \xb5',
    ' five',
    '',
    ' ',
    ' 1e1',
    ' 9007199254740992',
    ' 18446744073709551621',
    ` ${'9'.repeat(40)}`,
    '\r\n 5',
  ].map((value) => [long(value), 'refused'] as const),
  [`HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello${poison}`, 'refused'],
  [`HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello${poison}`, 'refused'],
  [`HTTP/1.1 200 OK\r\ncontent-length: 0\r\nContent-Length: 5\r\n\r\nhello${poison}`, 'refused'],
  [
    `HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n${poison}`,
    'refused',
  ],
  [
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n${poison}`,
    'refused',
  ],
  [`HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n${poison}`, 204],
  [`HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n${poison}`, 204],
  [`HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n${poison}`, 304],
  [`HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n${poison}`, 'refused'],
]);
cases(
  'length',
  [
    [long(' 5', 'hel').replace(poison, ''), 'cut'],
    [long(' 50', 'hello').replace(poison, ''), 'cut'],
  ],
  { fin: true },
);
cases(
  'length',
  [
    [`HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n${poison}`, 200],
    [`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${poison}`, 200],
    [`HTTP/1.1 200 OK\r\n\r\n${poison}`, 200],
    ['HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n', 'refused'],
  ],
  { method: 'HEAD' },
);

// ---- coding ----------------------------------------------------------------------------------------------------

const coded = (line: string): string => `HTTP/1.1 200 OK\r\n${line}\r\n5\r\nhello\r\n0\r\n\r\n${poison}`;
cases('coding', [
  [coded('Transfer-Encoding: chunked\r\n'), 200],
  [coded('transfer-encoding:CHUNKED\r\n'), 200],
  ...[
    'chunked\t',
    'chunked\x0b',
    '\x0bchunked',
    'chunked\0',
    'chunked,',
    ',chunked',
    'chunked, chunked',
    'gzip, chunked',
    'chunked, gzip',
    'gzip',
    'identity',
    'identity, chunked',
    'xchunked',
    'chunkedx',
    '"chunked"',
    'chunked;a=b',
    'chunk',
    '',
    '\r\n chunked',
    '\xa0chunked',
  ].map((value) => [coded(`Transfer-Encoding: ${value}\r\n`), 'refused'] as const),
  [coded('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n'), 'refused'],
  [coded('Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n'), 'refused'],
  [coded('Transfer-Encoding : chunked\r\n'), 'refused'],
  [coded('X: y\r\n Transfer-Encoding: chunked\r\n'), 'refused'],
  [coded('Transfer-Encoding: chunked\r\n').replace('HTTP/1.1', 'HTTP/1.0'), 'refused'],
]);

// ---- chunk and trailer -----------------------------------------------------------------------------------------

const chunked = (body: string): string => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}`;
cases('chunk', [
  [chunked(`5\r\nhello\r\n0\r\n\r\n${poison}`), 200],
  [chunked(`005;a=b\r\nhello\r\n00;c\r\n\r\n${poison}`), 200],
  [chunked(`2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n`), 200],
  ...[
    '5 \r\nhello\r\n',
    ' 5\r\nhello\r\n',
    '+5\r\nhello\r\n',
    '0x5\r\nhello\r\n',
    '5h\r\nhello\r\n',
    '5\nhello\r\n',
    '5\rhello\r\n',
    '5\r\nhello\n',
    '5\r\nhello',
    '5\r\nhelloX\r\n',
    '6\r\nhello\r\n',
    '5;\r\nhello\r\n',
    '5;a="\r\nhello\r\n',
    '5;a\0\r\nhello\r\n',
    '\r\n5\r\nhello\r\n',
    'fffffffffffffffff\r\nhello\r\n',
    '20000000000000\r\nhello\r\n',
    '-5\r\nhello\r\n',
  ].map((body) => [chunked(`${body}0\r\n\r\n${poison}`), 'cut'] as const),
]);
cases(
  'chunk',
  ['5\r\nhel', '5\r\nhello', '5\r\nhello\r\n', '5\r\nhello\r\n0', '5\r\nhello\r\n0\r\n'].map(
    (body) => [chunked(body), 'cut'] as const,
  ),
  {
    fin: true,
  },
);
const trailed = (section: string): string => chunked(`5\r\nhello\r\n0\r\n${section}\r\n${poison}`);
cases('trailer', [
  [trailed('X: y\r\n'), 200],
  [trailed('Set-Cookie: a=1\r\n'), 200],
  [trailed('Content-Length: 5\r\n'), 'cut'],
  [trailed('Transfer-Encoding: chunked\r\n'), 'cut'],
  [trailed('X : y\r\n'), 'cut'],
  [trailed(' X: y\r\n'), 'cut'],
  [trailed('X: y\n'), 'cut'],
  [trailed('X: a\0b\r\n'), 'cut'],
  [trailed('\n'), 'cut'],
  [trailed('HTTP/1.1 200 OK\r\n'), 'cut'],
  [trailed('X: y\r\n'.repeat(250)), 'cut'],
]);

// ---- until the end ---------------------------------------------------------------------------------------------

cases(
  'until the end',
  [
    ['HTTP/1.1 200 OK\r\n\r\nhello', 200],
    [`HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\nhello${poison}`, 200],
    ['HTTP/1.0 200 OK\r\n\r\nhello', 200],
    ['HTTP/1.1 200 OK\r\n\r\n', 200],
    ['HTTP/1.1 200 OK\r\nX: y\r\n', 'refused'],
    ['HTTP/1.1 200 OK', 'refused'],
    ['H', 'refused'],
    ['HTTP/1.1 103 Early Hints\r\n\r\n', 'refused'],
  ],
  { fin: true },
);

export const answerCorpus: readonly AnswerCase[] = all;
