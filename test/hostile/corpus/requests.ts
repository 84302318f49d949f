// Requests as byte strings, by the part of them that is odd, and what becomes of each: what is forwarded, and what is said.
// Invariant: written by hand and never derived from the code under test; `<host>` stands for a host of six characters, so
// that lengths stay right; what only a second reading would find is for /smuggled.

export interface RequestCase {
  readonly kind: string;
  readonly bytes: string;
  /** Requests that reach the origin, as `method target`, in order. */
  readonly forwarded: readonly string[];
  /**
   * What happens behind them. `open`: the connection serves on. `closed`: it ends without another word. `refused`: an error, and the end. `broken`: the same, and
   * the last request forwarded is not whole. `not-here`: an error of routing, and the connection serves on.
   */
  readonly after: 'open' | 'closed' | 'refused' | 'broken' | 'not-here';
}

type Verdict = Pick<RequestCase, 'forwarded' | 'after'>;

const ok = (...forwarded: string[]): Verdict => ({ forwarded, after: 'open' });
const closed = (...forwarded: string[]): Verdict => ({ forwarded, after: 'closed' });
const refused = (...forwarded: string[]): Verdict => ({ forwarded, after: 'refused' });
const broken = (...forwarded: string[]): Verdict => ({ forwarded, after: 'broken' });
const notHere: Verdict = { forwarded: [], after: 'not-here' };

const all: RequestCase[] = [];
function cases(kind: string, ...list: readonly (readonly [bytes: string, verdict: Verdict])[]): void {
  for (const [bytes, verdict] of list) all.push({ kind, bytes, ...verdict });
}

const host = 'Host: <host>\r\n';
const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: <host>\r\n\r\n';

// ---- request line ----------------------------------------------------------------------------------------------

const rest = `\r\n${host}\r\n`;
cases(
  'request line',
  [`GET / HTTP/1.1${rest}`, ok('GET /')],
  [`POST / HTTP/1.1${rest}`, ok('POST /')],
  [`get / HTTP/1.1${rest}`, ok('get /')],
  [`FOO1 / HTTP/1.1${rest}`, ok('FOO1 /')],
  [`!#$%&'*+-.^_\`|~ / HTTP/1.1${rest}`, ok("!#$%&'*+-.^_`|~ /")],
  [`\r\nGET / HTTP/1.1${rest}`, ok('GET /')],
  [`\r\n\r\nGET / HTTP/1.1${rest}`, refused()],
  [`\nGET / HTTP/1.1${rest}`, refused()],
  [` GET / HTTP/1.1${rest}`, refused()],
  [`\tGET / HTTP/1.1${rest}`, refused()],
  [`GET  / HTTP/1.1${rest}`, refused()],
  [`GET /  HTTP/1.1${rest}`, refused()],
  [`GET\t/ HTTP/1.1${rest}`, refused()],
  [`GET /\tHTTP/1.1${rest}`, refused()],
  [`GET\x0b/ HTTP/1.1${rest}`, refused()],
  [`GET\xa0/ HTTP/1.1${rest}`, refused()],
  [`GET / HTTP/1.1 ${rest}`, refused()],
  [`GET / HTTP/1.1 x${rest}`, refused()],
  [`GET /${rest}`, refused()],
  ['GET /\r\n\r\n', refused()],
  ['GET /\n', refused()],
  [`GET / HTTP/1.1\n${host}\r\n`, refused()],
  [`GET / HTTP/1.1\r${host}\r\n`, refused()],
  [`GET / HTTP/1.1\r\r\n${host}\r\n`, refused()],
  [`GET / HTTP/1.0${rest}`, closed('GET /')],
  [`GET / HTTP/1.2${rest}`, refused()],
  [`GET / HTTP/0.9${rest}`, refused()],
  [`GET / HTTP/2.0${rest}`, refused()],
  [`GET / HTTP/2${rest}`, refused()],
  [`GET / HTTP/1${rest}`, refused()],
  [`GET / HTTP/1.${rest}`, refused()],
  [`GET / HTTP/.1${rest}`, refused()],
  [`GET / HTTP/01.1${rest}`, refused()],
  [`GET / HTTP/1.01${rest}`, refused()],
  [`GET / HTTP/1.1.1${rest}`, refused()],
  [`GET / http/1.1${rest}`, refused()],
  [`GET / HTTP/ 1.1${rest}`, refused()],
  [`GET / HTTP/1,1${rest}`, refused()],
  [`GET / HTTPS/1.1${rest}`, refused()],
  [`GET / RTSP/1.0${rest}`, refused()],
  [`GET / HTTP/1.1\0${rest}`, refused()],
  [`G\0ET / HTTP/1.1${rest}`, refused()],
  [`G(ET / HTTP/1.1${rest}`, refused()],
  [`G\xc9T / HTTP/1.1${rest}`, refused()],
  [`"GET" / HTTP/1.1${rest}`, refused()],
  [`CONNECT / HTTP/1.1${rest}`, refused()],
  [`CONNECT <host>:443 HTTP/1.1${rest}`, refused()],
  ['HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', refused()],
  ['PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n', refused()],
  ['\x16\x03\x01\x00\x05hello\r\n\r\n', refused()],
  [`${'A'.repeat(100)} / HTTP/1.1${rest}`, ok(`${'A'.repeat(100)} /`)],
);

// ---- header name -----------------------------------------------------------------------------------------------

const withLine = (line: string): string => `GET / HTTP/1.1\r\n${host}${line}\r\n${smuggled}`;
const two = ok('GET /', 'GET /smuggled');
/** As a line of its own, `smuggled` behind it is an ordinary second request; it must be read as that, or not at all. */
cases(
  'header name',
  [withLine('X: y\r\n'), two],
  [withLine('x-Y_z.1~!: y\r\n'), two],
  [withLine("!#$%&'*+-.^_`|~: y\r\n"), two],
  [withLine('123: y\r\n'), two],
  [withLine('X : y\r\n'), refused()],
  [withLine('X\t: y\r\n'), refused()],
  [withLine(' X: y\r\n'), refused()],
  [withLine('\tX: y\r\n'), refused()],
  [withLine(': y\r\n'), refused()],
  [withLine('X y\r\n'), refused()],
  [withLine('X\r\n'), refused()],
  [withLine('X Y: z\r\n'), refused()],
  [withLine('X\0: y\r\n'), refused()],
  [withLine('X\x01: y\r\n'), refused()],
  [withLine('X\x7f: y\r\n'), refused()],
  [withLine('X\xe9: y\r\n'), refused()],
  [withLine('X\xff: y\r\n'), refused()],
  [withLine('X(: y\r\n'), refused()],
  [withLine('X): y\r\n'), refused()],
  [withLine('X@: y\r\n'), refused()],
  [withLine('X,: y\r\n'), refused()],
  [withLine('X;: y\r\n'), refused()],
  [withLine('X=: y\r\n'), refused()],
  [withLine('X?: y\r\n'), refused()],
  [withLine('X/: y\r\n'), refused()],
  [withLine('X[: y\r\n'), refused()],
  [withLine('X\\: y\r\n'), refused()],
  [withLine('"X": y\r\n'), refused()],
  [withLine('X\n: y\r\n'), refused()],
  [withLine('X\r: y\r\n'), refused()],
  [withLine('X\r\n: y\r\n'), refused()],
  [withLine(`${'x'.repeat(1000)}: y\r\n`), two],
  [withLine(`${'x'.repeat(40_000)}: y\r\n`), refused()],
  [withLine('Content-Length\x00: 5\r\n'), refused()],
  [withLine('Content-Length : 5\r\n'), refused()],
  [withLine('Content_Length: 5\r\n'), two],
  [withLine('Transfer_Encoding: chunked\r\n'), two],
  [withLine('X-Forwarded_For: 10.6.6.6\r\n'), two],
  [withLine('GET /smuggled HTTP/1.1\r\n'), refused()],
  [withLine('GET http://<host>/smuggled HTTP/1.1\r\n'), refused()],
);

// ---- header value ----------------------------------------------------------------------------------------------

cases(
  'header value',
  [withLine('X:\r\n'), two],
  [withLine('X:y\r\n'), two],
  [withLine('X:  \t y \t\r\n'), two],
  [withLine('X: a b\tc\r\n'), two],
  [withLine('X: \xe9\xff\x80\r\n'), two],
  [withLine('X: :::\r\n'), two],
  [withLine('X: "\\"\r\n'), two],
  [withLine('X: y\r\nX: z\r\n'), two],
  [withLine('X: a\rb\r\n'), refused()],
  [withLine('X: a\nb: c\r\n'), refused()],
  [withLine('X: a\r\n b\r\n'), refused()],
  [withLine('X: a\r\n\tb\r\n'), refused()],
  [withLine('X: a\r\n  \r\n'), refused()],
  [withLine('X: a\r\n \r\n\r\n'), refused()],
  [withLine('X: a\0b\r\n'), refused()],
  [withLine('X: a\x01b\r\n'), refused()],
  [withLine('X: a\x08b\r\n'), refused()],
  [withLine('X: a\x0bb\r\n'), refused()],
  [withLine('X: a\x0cb\r\n'), refused()],
  [withLine('X: a\x1bb\r\n'), refused()],
  [withLine('X: a\x7fb\r\n'), refused()],
  [withLine('X: a\r\r\n'), refused()],
  [withLine('X: a\n'), refused()],
  [withLine('X: a\r'), refused()],
  [withLine('X: a\n\r\n'), refused()],
  [withLine('X: a\r\n\n'), refused()],
  [withLine(`X: ${'y'.repeat(20_000)}\r\n`), two],
  [withLine(`X: ${'y'.repeat(40_000)}\r\n`), refused()],
  [withLine('X: y\r\n'.repeat(150)), two],
  [withLine('X: y\r\n'.repeat(250)), refused()],
  [withLine(`X: a\r\nX: ${smuggled.slice(0, 24)}\r\n`), two],
  [withLine('X: a\rTransfer-Encoding: chunked\r\n'), refused()],
  [withLine('X: a\nTransfer-Encoding: chunked\r\n'), refused()],
);

// ---- length ----------------------------------------------------------------------------------------------------

const post = (lines: string, body = ''): string => `POST / HTTP/1.1\r\n${host}${lines}\r\n${body}`;
const sized = (value: string): string => post(`Content-Length:${value}\r\n`, `hello${smuggled}`);
cases(
  'length',
  [sized(' 5'), ok('POST /', 'GET /smuggled')],
  [sized('5'), ok('POST /', 'GET /smuggled')],
  [sized(' 005 '), ok('POST /', 'GET /smuggled')],
  [sized(' 0'), ok('POST /', 'helloGET /smuggled')],
  [sized(' +5'), refused()],
  [sized(' -5'), refused()],
  [sized(' 5.'), refused()],
  [sized(' 5.0'), refused()],
  [sized(' 0x5'), refused()],
  [sized(' 5h'), refused()],
  [sized(' 5 5'), refused()],
  [sized(' 5;5'), refused()],
  [sized(' 5, 5'), refused()],
  [sized(' 5, 6'), refused()],
  [sized(' 5,'), refused()],
  [sized(' "5"'), refused()],
  [sized(' 5\0'), refused()],
  [sized(' 5\x0b'), refused()],
  [sized(' 5\xa0'), refused()],
  [sized(' \xb5'), refused()],
  [sized(' five'), refused()],
  [sized(''), refused()],
  [sized('  '), refused()],
  [sized(' 1e1'), refused()],
  [sized(' 0b101'), refused()],
  [sized(' 9007199254740992'), refused()],
  [sized(' 18446744073709551621'), refused()],
  [sized(` ${'0'.repeat(30)}5`), refused()],
  [sized('\r\n 5'), refused()],
  [post('Content-Length: 5\r\nContent-Length: 5\r\n', `hello${smuggled}`), refused()],
  [post('Content-Length: 5\r\nContent-Length: 6\r\n', `hello${smuggled}`), refused()],
  [post('Content-Length: 6\r\nContent-Length: 5\r\n', `hello${smuggled}`), refused()],
  [post('Content-Length: 5\r\ncontent-length: 0\r\n', `hello${smuggled}`), refused()],
  [post('Content-Length: 0\r\nX: y\r\nCONTENT-LENGTH: 5\r\n', `hello${smuggled}`), refused()],
  [post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${smuggled}`), refused()],
  [post('Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', `0\r\n\r\n${smuggled}`), refused()],
  [`GET / HTTP/1.1\r\n${host}Content-Length: 5\r\n\r\n${smuggled}`, refused('GET /')],
  [`GET / HTTP/1.1\r\n${host}Content-Length: 5\r\n\r\nhello${smuggled}`, ok('GET /', 'GET /smuggled')],
  [`HEAD / HTTP/1.1\r\n${host}Content-Length: 5\r\n\r\nhello${smuggled}`, ok('HEAD /', 'GET /smuggled')],
  [`DELETE / HTTP/1.1\r\n${host}Content-Length: 5\r\n\r\nhello${smuggled}`, ok('DELETE /', 'GET /smuggled')],
  [
    `POST / HTTP/1.0\r\n${host}Content-Length: 5\r\nConnection: keep-alive\r\n\r\nhello${smuggled}`,
    ok('POST /', 'GET /smuggled'),
  ],
  [post('Content-Length: 500\r\n', 'half'), broken('POST /')],
);

// ---- coding ----------------------------------------------------------------------------------------------------

const coded = (line: string): string => post(line, `0\r\n\r\n${smuggled}`);
cases(
  'coding',
  [coded('Transfer-Encoding: chunked\r\n'), ok('POST /', 'GET /smuggled')],
  [coded('transfer-encoding:CHUNKED\r\n'), ok('POST /', 'GET /smuggled')],
  [coded('Transfer-Encoding:   chunked  \r\n'), ok('POST /', 'GET /smuggled')],
  ...[
    'chunked\t',
    'chunked\x0b',
    'chunked\x0c',
    'chunked\0',
    '\0chunked',
    '\x0bchunked',
    'chunked,',
    ',chunked',
    'chunked, ',
    'chunked, chunked',
    'chunked,identity',
    'identity, chunked',
    'identity',
    'gzip',
    'gzip, chunked',
    'chunked, gzip',
    'deflate',
    'compress, chunked',
    'xchunked',
    'chunkedx',
    'x chunked',
    'chunked x',
    '"chunked"',
    "'chunked'",
    'chunked;a=b',
    'chunked ;',
    'chunk',
    'chunke d',
    'chu\xffnked',
    '\xa0chunked',
    'chunked\xa0',
    'cow',
    '',
    ' ',
    'chunked\r\n\t',
    '\r\n chunked',
    '\r\n\tchunked',
  ].map((value) => [coded(`Transfer-Encoding: ${value}\r\n`), refused()] as const),
  [coded('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n'), refused()],
  [coded('Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n'), refused()],
  [coded('Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n'), refused()],
  [coded('Transfer-Encoding: \r\nTransfer-Encoding: chunked\r\n'), refused()],
  [coded('Transfer-Encoding : chunked\r\n'), refused()],
  [coded(' Transfer-Encoding: chunked\r\n'), refused()],
  [coded('X: y\r\n Transfer-Encoding: chunked\r\n'), refused()],
  [coded('Transfer-Encoding: chunked\n'), refused()],
  [coded('X: y\nTransfer-Encoding: chunked\r\n'), refused()],
  [`POST / HTTP/1.0\r\n${host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`, refused()],
  [`GET / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`, ok('GET /', 'GET /smuggled')],
);

// ---- chunk -----------------------------------------------------------------------------------------------------

const chunked = (body: string): string => post('Transfer-Encoding: chunked\r\n', body);
cases(
  'chunk',
  [chunked(`5\r\nhello\r\n0\r\n\r\n${smuggled}`), ok('POST /', 'GET /smuggled')],
  [chunked(`005\r\nhello\r\n000\r\n\r\n${smuggled}`), ok('POST /', 'GET /smuggled')],
  [chunked(`a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n${smuggled}`), ok('POST /', 'GET /smuggled')],
  [chunked(`5;x\r\nhello\r\n0;y=z\r\n\r\n${smuggled}`), ok('POST /', 'GET /smuggled')],
  [chunked(`5;x="y;z\\""\r\nhello\r\n0\r\n\r\n${smuggled}`), ok('POST /', 'GET /smuggled')],
  [chunked(`${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`), ok('POST /')],
  ...[
    '5 \r\nhello',
    ' 5\r\nhello',
    '5\t\r\nhello',
    '+5\r\nhello',
    '-5\r\nhello',
    '0x5\r\nhello',
    '5h\r\nhello',
    '5.0\r\nhello',
    '5,\r\nhello',
    '5 ;x\r\nhello',
    '5; x\r\nhello',
    '5;x = y\r\nhello',
    '5;\r\nhello',
    '5;;x\r\nhello',
    '5;x="y\r\nhello',
    '5;x=y"\r\nhello',
    '5;x\ny\r\nhello',
    '5;x\ry\r\nhello',
    '5;x\0\r\nhello',
    '5\nhello',
    '5\rhello',
    '5\r\r\nhello',
    '\r\n5\r\nhello',
    '\r\nhello',
    'x\r\nhello',
    '5\0\r\nhello',
    '5\x0b\r\nhello',
    '\xb5\r\nhello',
    'fffffffffffffffff\r\nhello',
    '10000000000000005\r\nhello',
    '20000000000000\r\nhello',
    `${'0'.repeat(20)}5\r\nhello`,
    `5;${'x'.repeat(2000)}\r\nhello`,
    // TERM.EXT, EXT.TERM and their like: who takes a bare CR or LF in or behind an extension for the end of its line.
    '5;\nx\r\nhello',
    '5;\n\r\nhello',
    '5;x\n\r\nhello',
    '5;x\r\r\nhello',
    '5\n;x\r\nhello',
    '5\r;x\r\nhello',
    '5;x="\n"\r\nhello',
    '5;x="\r"\r\nhello',
    '5\n\nhello',
    '5\r\rhello',
  ].map((first) => [chunked(`${first}\r\n0\r\n\r\n${smuggled}`), broken('POST /')] as const),
  [chunked(`5\r\nhelloX\r\n0\r\n\r\n${smuggled}`), broken('POST /')],
  [chunked(`5\r\nhello\n0\r\n\r\n${smuggled}`), broken('POST /')],
  [chunked(`5\r\nhello\r0\r\n\r\n${smuggled}`), broken('POST /')],
  // TERM.SPILL and ONE.TWO: who takes one byte, any two bytes, or three for the end of a chunk.
  ...['\n\n', '\r\r', '\n\r', 'XX', '\r\n\n', '\n\r\n', '\r\n\r', '\r\r\n'].map(
    (end) => [chunked(`5\r\nhello${end}0\r\n\r\n${smuggled}`), broken('POST /')] as const,
  ),
  [chunked(`5\r\nhello0\r\n\r\n${smuggled}`), broken('POST /')],
  [chunked(`6\r\nhello\r\n0\r\n\r\n${smuggled}`), broken('POST /')],
  [chunked(`5\r\nhello\r\n0\n\n${smuggled}`), broken('POST /')],
  [chunked(`5\r\nhello\r\n0\r\n\n${smuggled}`), broken('POST /')],
  [chunked(`5\r\nhello\r\n-0\r\n\r\n${smuggled}`), broken('POST /')],
  [chunked(`5\r\nhello\r\n0x0\r\n\r\n${smuggled}`), broken('POST /')],
  [chunked('5\r\nhello\r\n'), broken('POST /')],
  [chunked('5\r\nhel'), broken('POST /')],
  [chunked('5\r\nhello\r\n0\r\n'), broken('POST /')],
);

// ---- trailer ---------------------------------------------------------------------------------------------------

const trailed = (section: string): string => chunked(`5\r\nhello\r\n0\r\n${section}\r\n${smuggled}`);
cases(
  'trailer',
  [trailed('X: y\r\n'), ok('POST /', 'GET /smuggled')],
  [trailed('X: y\r\nX: z\r\n'), ok('POST /', 'GET /smuggled')],
  [trailed('Host: evil.test\r\n'), ok('POST /', 'GET /smuggled')],
  [trailed('X-Forwarded-For: 10.6.6.6\r\n'), ok('POST /', 'GET /smuggled')],
  [trailed('Connection: close\r\n'), ok('POST /', 'GET /smuggled')],
  [trailed('Content-Length: 500\r\n'), broken('POST /')],
  [trailed('Transfer-Encoding: chunked\r\n'), broken('POST /')],
  [trailed('X : y\r\n'), broken('POST /')],
  [trailed(' X: y\r\n'), broken('POST /')],
  [trailed('X: y\r\n z\r\n'), broken('POST /')],
  [trailed('X: y\n'), broken('POST /')],
  [trailed('X: y\r'), broken('POST /')],
  [trailed('X: y\0\r\n'), broken('POST /')],
  [trailed('X\r\n'), broken('POST /')],
  [trailed(': y\r\n'), broken('POST /')],
  [trailed('\n'), broken('POST /')],
  [trailed('GET /smuggled HTTP/1.1\r\n'), broken('POST /')],
  [trailed('X: y\r\n'.repeat(250)), broken('POST /')],
  [trailed(`X: ${'y'.repeat(40_000)}\r\n`), broken('POST /')],
  [chunked('5\r\nhello\r\n0\r\nX: y\r\n'), broken('POST /')],
);

// ---- target ----------------------------------------------------------------------------------------------------

const to = (target: string, method = 'GET'): string => `${method} ${target} HTTP/1.1\r\n${host}\r\n${smuggled}`;
cases(
  'target',
  ...[
    '/',
    '/?',
    '/?a=b&c',
    '//',
    '//smuggle.test/x',
    '/a/../b',
    '/a/./b',
    '/..',
    '/../../etc/passwd',
    '/%2e%2e/%2f',
    '/%00',
    '/%0d%0aX:%20y',
    '/%',
    '/%zz',
    '/a;b=c',
    '/a:b@c',
    '/[a]',
    '/{a}|b^c`d',
    '/"a"',
    '/<a>',
    '/\\a',
    '/*',
    '/http://evil.test/',
    `/${'a'.repeat(7000)}`,
  ].map((target) => [to(target), ok(`GET ${target}`, 'GET /smuggled')] as const),
  [to('*', 'OPTIONS'), ok('OPTIONS *', 'GET /smuggled')],
  [to('http://<host>/a?b'), ok('GET /a?b', 'GET /smuggled')],
  [to('HTTP://<host>/'), ok('GET /', 'GET /smuggled')],
  [to('http://<host>'), ok('GET /', 'GET /smuggled')],
  [to('http://<host>?q'), ok('GET /?q', 'GET /smuggled')],
  ...[
    '*',
    '',
    'a',
    '?a',
    '#',
    '/#',
    '/a#b',
    '/a b',
    '/a\tb',
    '/a\0b',
    '/a\x7fb',
    '/a\xe9b',
    '/a\nb',
    '/a\rb',
    '<host>',
    '<host>:80',
    'http:/',
    'http://',
    'http:///a',
    'http://user@<host>/',
    'http://user:pass@<host>/',
    'http://<host>\\a',
    'http://<host>#a',
    'ftp://<host>/',
    'file:///etc/passwd',
    'gopher://<host>/',
    'javascript:alert(1)',
    `/${'a'.repeat(9000)}`,
  ].map((target) => [to(target), refused()] as const),
);

// Two hosts, or a host that is none: refused by the router, and the connection serves on.
cases(
  'target',
  ...['http://<host>:x/', 'http://other.test/', 'http://[::1/', 'http://<host>:81/'].map(
    (target) => [to(target), { ...notHere, forwarded: ['GET /smuggled'] }] as const,
  ),
);

// ---- authority -------------------------------------------------------------------------------------------------

const hosted = (lines: string): string => `GET / HTTP/1.1\r\n${lines}\r\n${smuggled}`;
cases(
  'authority',
  ...['<host>', '<HOST>', '<host>.', '<host>:80', '<host>:', '<host>:65535', '<host>.:8080', ' <host> '].map(
    (value) => [hosted(`Host:${value}\r\n`), ok('GET /', 'GET /smuggled')] as const,
  ),
  ...[
    'other.test',
    'x<host>',
    '<host>x',
    '1.2.3.4',
    '[::1]',
    'xn--bcher-kva.test',
    '_a.test',
    '<host>..:80'.replace('..', '.b'),
  ].map((value) => [hosted(`Host: ${value}\r\n`), { ...notHere, forwarded: ['GET /smuggled'] }] as const),
  ...[
    '',
    ' ',
    '.',
    '..',
    '<host>..',
    '.<host>',
    '<host>:0',
    '<host>:65536',
    '<host>:80:80',
    '<host>:+80',
    '<host>:80x',
    '<host>: 80',
    '<host> x',
    '<host>,other.test',
    '<host>;x',
    '<host>/x',
    '<host>?x',
    '<host>#x',
    '<host>\\x',
    'user@<host>',
    'user:pass@<host>',
    'http://<host>',
    '"<host>"',
    '<<host>>',
    '<host>%00',
    '<host>\0',
    '<host>\x7f',
    '::1',
    '[::1',
    '[::1]x',
    '[::1]:x',
    '[v1.a]',
    '[fe80::1%25eth0]',
    '[fe80::1%eth0]',
    '[::1%0]:80',
    '<host>@127.0.0.1',
    '127.0.0.1@<host>',
    '<host>:80@127.0.0.1',
    '<host>:00',
    '[1.2.3.4]',
    '-a.test',
    'a-.test',
    `${'a'.repeat(64)}.test`,
    `${'a.'.repeat(130)}test`,
    '*',
    '*.test',
    '\xff.test',
  ].map((value) => [hosted(`Host: ${value}\r\n`), refusedOrGone(value)] as const),
  [hosted(''), refused()],
  [hosted('Host: <host>\r\nHost: <host>\r\n'), refused()],
  [hosted('Host: <host>\r\nHost: other.test\r\n'), refused()],
  [hosted('Host: other.test\r\nhost: <host>\r\n'), refused()],
  [hosted('Host: <host>\r\n other.test\r\n'), refused()],
  [hosted('Host : <host>\r\n'), refused()],
  [hosted(' Host: <host>\r\n'), refused()],
  [hosted('X: y\nHost: <host>\r\n'), refused()],
);

/** A bad host is refused by the router, behind a good head: the connection serves on, but nothing was forwarded for it. */
function refusedOrGone(value: string): Verdict {
  return /[\0\x7f]/.test(value) ? refused() : { ...notHere, forwarded: ['GET /smuggled'] };
}

export const requestCorpus: readonly RequestCase[] = all;
