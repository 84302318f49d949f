// Generated HTTP/1.1 byte streams: one to three messages, well-formed or with one or two things wrong with them.
import type { Random } from './random.ts';

/** Bytes that parsers disagree about, for insertion anywhere. */
const oddBytes = [
  '\r',
  '\n',
  '\0',
  ' ',
  '\t',
  '\x0b',
  '\x0c',
  '\x7f',
  '\x80',
  '\xa0',
  '\xff',
  ':',
  ';',
  ',',
  '"',
  '#',
  '@',
];
const oddTexts = [
  '\r\n',
  '\n\n',
  '\r\r\n',
  '\n\r\n',
  ' \r\n',
  '\r\n ',
  '0\r\n\r\n',
  '0',
  '-',
  '+',
  '0x',
  'chunked',
  'HTTP/1.1',
];

const targets = [
  '/',
  '/',
  '/a/b?c=d',
  '/%00',
  '//double',
  '/?',
  '*',
  'http://a.test/x',
  'HTTP://a.test',
  'https://a.test?q',
  'ftp://a.test/',
  'http://user@a.test/',
  'http:///x',
  'a.test:80',
  '/with#fragment',
  '/sp ace',
  '/qu"ote',
  '/\xe9',
  `/${'l'.repeat(300)}`,
];
const methods = [
  'GET',
  'GET',
  'GET',
  'POST',
  'POST',
  'PUT',
  'DELETE',
  'HEAD',
  'OPTIONS',
  'PATCH',
  'PROPFIND',
  'FOO',
  'get',
  'CONNECT',
];
const versions = ['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/1.0'];
const oddVersions = [
  'HTTP/2.0',
  'HTTP/0.9',
  'HTTP/1.2',
  'http/1.1',
  'HTTP/1.1.1',
  'HTTP/1',
  'HTP/1.1',
  'HTTP/ 1.1',
  'ICE/1.0',
  '',
];

const plainFields = [
  'Accept: */*',
  'accept-encoding: gzip, br',
  'User-Agent:  spaced out \t',
  'X-Empty:',
  'X-Blank: \t ',
  'X-High: caf\xe9 \xa0',
  'X-Colon: a:b:c',
  'Cookie: a=b; c="d e"',
  'Accept-Language: de,en;q=0.5',
  "!#$%&'*+-.^_`|~: token",
  'Expect: 100-continue',
  'TE: trailers',
  'Trailer: X-Sum',
  'Date: Mon, 01 Jan 2024 00:00:00 GMT',
  'Set-Cookie: a=b, c',
  'Keep-Alive: timeout=5',
];
const connectionFields = [
  'Connection: keep-alive',
  'Connection: close',
  'connection: Keep-Alive',
  'Connection: close, X-Empty',
  'Connection: x-empty , CLOSE',
  'Connection: keep-alive, close',
  'Connection: Upgrade',
];
/** Lines that are about framing or the host, and mostly wrong. */
const oddFields = [
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: Chunked',
  'Transfer-Encoding: chunked\t',
  'Transfer-Encoding: chunked,',
  'Transfer-Encoding: ,chunked',
  'Transfer-Encoding: chunked, gzip',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: gzip',
  'Transfer-Encoding: xchunked',
  'Transfer-Encoding: "chunked"',
  'Transfer-Encoding: identity',
  'Transfer-Encoding: chunked;q=1',
  'Transfer-Encoding: chunked\x0b',
  'Transfer-Encoding : chunked',
  'Transfer-Encoding:\r\n chunked',
  'Transfer-Encoding:',
  'Content-Length: 5',
  'Content-Length: 0',
  'Content-Length: 05',
  'Content-Length: 6',
  'Content-Length: +5',
  'Content-Length: -5',
  'Content-Length: 0x5',
  'Content-Length: 5 6',
  'Content-Length: 5, 5',
  'Content-Length: 5,6',
  'Content-Length: 5x',
  'Content-Length:',
  'Content-Length: 5\x0b',
  'Content-Length: 9007199254740993',
  `Content-Length: ${'9'.repeat(30)}`,
  `Content-Length: ${'0'.repeat(30)}5`,
  'Content_Length: 5',
  'Host: other.test',
  'Host:',
  'Host: a b',
  'Upgrade: websocket',
  'Upgrade: h2c',
  'X-A: b\rTransfer-Encoding: chunked',
  'X-A: b\n',
  'X-A b',
  ' X-Folded: y',
  '\tX-Folded: y',
  ': no name',
  'X-\xe9: y',
  'X(: y',
  'X-Nul: a\0b',
  'X-Ctl: a\x01b',
  'X-Del: a\x7fb',
];
const oddChunks = [
  '5;ext\r\nhello\r\n',
  '5;ext=1;b="c;d"\r\nhello\r\n',
  '5;ext="a\\"b"\r\nhello\r\n',
  '5 \r\nhello\r\n',
  '5 ;ext\r\nhello\r\n',
  '5;\r\nhello\r\n',
  '5;a=\r\nhello\r\n',
  '5;a b\r\nhello\r\n',
  '5;a="b\r\nhello\r\n',
  '5\nhello\r\n',
  '5;ext\nhello\r\n',
  '5\r\nhello\n',
  '5\r\nhello',
  '5\r\nhelloo\r\n',
  '5\r\nhell\r\n',
  '0x5\r\nhello\r\n',
  '1zz\r\nhello\r\n',
  '0_0\r\n',
  ' 5\r\nhello\r\n',
  '-5\r\nhello\r\n',
  '+5\r\nhello\r\n',
  '5\r\r\nhello\r\n',
  '05\r\nhello\r\n',
  '0000000000000005\r\nhello\r\n',
  '00000000000000005\r\nhello\r\n',
  'fffffffffffffffff\r\nhello\r\n',
  'ffffffffffffffff\r\nhello\r\n',
  '20000000000000\r\nhello\r\n',
  '\r\nhello\r\n',
];
const trailerSections = [
  '\r\n',
  '\r\n',
  '\r\n',
  'X-Sum: 9\r\n\r\n',
  'grpc-status: 0\r\ngrpc-message:\r\n\r\n',
  'Content-Type: text/html\r\nX-Sum: 1\r\n\r\n',
  'Authorization: x\r\nHost: y\r\n\r\n',
  'Content-Length: 5\r\n\r\n',
  'Transfer-Encoding: chunked\r\n\r\n',
  'X Sum: 9\r\n\r\n',
  'X-Sum : 9\r\n\r\n',
  'X-Sum: a\nb\r\n\r\n',
  ' X-Sum: 9\r\n\r\n',
  'X-Sum: 9\n\r\n',
  '\n',
  '\r\r\n',
];
const statuses = [
  '200 OK',
  '200 OK',
  '200',
  '200 ',
  '404 Not Found',
  '204 No Content',
  '304 Not Modified',
  '302 Fo\xfcnd',
];
const interim = ['100 Continue', '103 Early Hints', '199 Odd'];
const oddStatuses = [
  '99 Low',
  '1000 High',
  '20 Short',
  '2 0 0 Spaced',
  'abc',
  '200OK',
  '200\tOK',
  '200 a\x01b',
  '101 Switching',
  '999 Odd',
  '-10 Odd',
  '600 Odd',
  '000 Zero',
];
const bodies = ['', 'hello', 'hello', 'a\r\n\r\nb', '\0\xff\r\n', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', 'x'.repeat(70)];

export interface Generated {
  readonly bytes: Buffer;
  /** Null for requests; else the method whose responses these are. */
  readonly method: string | null;
}

export function generate(random: Random): Generated {
  const method = random.chance(2) ? null : random.pick(['GET', 'GET', 'GET', 'POST', 'HEAD']);
  let text = '';
  for (let left = random.pick([1, 1, 1, 2, 2, 3]); left > 0; left--) {
    text += method === null ? request(random) : response(random, method);
  }
  for (let left = random.pick([0, 0, 0, 1, 1, 2]); left > 0; left--) text = damage(random, text);
  return { bytes: Buffer.from(text, 'latin1'), method };
}

function request(random: Random): string {
  const method = random.chance(8) ? random.pick(methods) : random.pick(['GET', 'POST', 'PUT']);
  const target = random.chance(4) ? random.pick(targets) : '/path';
  const version = random.chance(24) ? random.pick(oddVersions) : random.pick(versions);
  const lead = random.chance(40) ? random.pick(['\r\n', '\n', '\r\n\r\n', ' ']) : '';
  const host = random.chance(40) ? '' : 'Host: a.test\r\n';
  return `${lead}${method} ${target} ${version}\r\n${host}${fieldsAndBody(random, method !== 'GET')}`;
}

function response(random: Random, method: string): string {
  const version = random.chance(24) ? random.pick(oddVersions) : random.pick(versions);
  if (random.chance(12)) return `${version} ${random.pick(interim)}\r\n${someFields(random)}\r\n`;
  const status = random.chance(12) ? random.pick(oddStatuses) : random.pick(statuses);
  const bodiless = method === 'HEAD' || status.startsWith('204') || status.startsWith('304');
  return `${version} ${status}\r\n${fieldsAndBody(random, true, bodiless)}`;
}

function fieldsAndBody(random: Random, mayHaveBody: boolean, bodiless = false): string {
  let fields = someFields(random);
  let body = '';
  if (mayHaveBody && !random.chance(6)) {
    if (random.chance(2)) {
      const content = random.pick(bodies);
      fields += `Content-Length: ${content.length}\r\n`;
      body = content;
    } else {
      fields += 'Transfer-Encoding: chunked\r\n';
      body = chunks(random);
    }
  }
  if (random.chance(6)) {
    const line = `${random.pick(oddFields)}\r\n`;
    fields = random.chance(2) ? line + fields : fields + line;
  }
  return `${fields}\r\n${bodiless && !random.chance(10) ? '' : body}`;
}

function someFields(random: Random): string {
  let text = '';
  for (let left = random.below(4); left > 0; left--) text += random.pick(plainFields) + '\r\n';
  if (random.chance(4)) text += random.pick(connectionFields) + '\r\n';
  return text;
}

function chunks(random: Random): string {
  let text = '';
  for (let left = random.below(4); left > 0; left--) {
    if (random.chance(6)) {
      text += random.pick(oddChunks);
      continue;
    }
    const content = random.pick(bodies);
    if (content === '') continue;
    const size = content.length.toString(16);
    text += `${random.chance(4) ? size.toUpperCase() : size}\r\n${content}\r\n`;
  }
  return `${text}${random.pick(['0', '0', '0', '00', '0;last'])}\r\n${random.pick(trailerSections)}`;
}

/** Inserts, removes or repeats something at a random place. */
function damage(random: Random, text: string): string {
  const at = random.below(text.length + 1);
  switch (random.below(5)) {
    case 0:
      return text.slice(0, at) + random.pick(oddBytes) + text.slice(at);
    case 1:
      return text.slice(0, at) + random.pick(oddTexts) + text.slice(at);
    case 2:
      return text.slice(0, at) + text.slice(at + 1 + random.below(3));
    case 3:
      return text.slice(0, at) + random.pick(oddBytes) + text.slice(at + 1);
    default:
      return text.slice(0, at);
  }
}
