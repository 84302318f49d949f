import { describe, expect, it } from 'vitest';
import { Fault } from '../../src/base/fault.ts';
import { HeadReader } from '../../src/http1/head-reader.ts';
import { type Http1RequestHead, parseRequestHead } from '../../src/http1/request-head.ts';
import { type Http1ResponseHead, parseResponseHead } from '../../src/http1/response-head.ts';
import { unknownLength } from '../../src/message/head.ts';
import { limits } from './http1-support/codec.ts';

function lines(start: string, fields: readonly string[]): string {
  return [start, ...fields, '', ''].join('\r\n');
}

function parseRequest(start: string, ...fields: string[]): Http1RequestHead | Fault {
  const text = lines(start, fields);
  return parseRequestHead(text, 0, text.length - 2, limits);
}

function good(start: string, ...fields: string[]): Http1RequestHead {
  const head = parseRequest(start, 'Host: a.test', ...fields);
  if (head instanceof Fault) throw head;
  return head;
}

function parseResponse(method: string, start: string, ...fields: string[]): Http1ResponseHead | Fault {
  const text = lines(start, fields);
  return parseResponseHead(text, 0, text.length - 2, method, limits);
}

describe('a request line', () => {
  it.each([
    ['GET / HTTP/1.1', '/', null],
    ['GET /a/../b?x=y;z&%00 HTTP/1.1', '/a/../b?x=y;z&%00', null],
    ['GET //x HTTP/1.1', '//x', null],
    ['GET http://a.test/x?y HTTP/1.1', '/x?y', 'a.test'],
    ['GET HTTPS://A.Test:8443/x HTTP/1.1', '/x', 'A.Test:8443'],
    ['GET http://a.test HTTP/1.1', '/', 'a.test'],
    ['GET http://a.test?y HTTP/1.1', '/?y', 'a.test'],
    ['GET http://[::1]:80/x HTTP/1.1', '/x', '[::1]:80'],
    ['OPTIONS * HTTP/1.1', '*', null],
    ['OPTIONS http://a.test HTTP/1.1', '*', 'a.test'],
    ['OPTIONS http://a.test/ HTTP/1.1', '/', 'a.test'],
    ['M-SEARCH!~ / HTTP/1.1', '/', null],
  ])('%s', (start, target, otherAuthority) => {
    expect(good(start)).toMatchObject({ method: start.split(' ')[0], target, otherAuthority, authority: 'a.test' });
  });

  it.each([
    ['GET  / HTTP/1.1', 400],
    ['GET /  HTTP/1.1', 400],
    ['GET / HTTP/1.1 ', 400],
    [' GET / HTTP/1.1', 400],
    ['GET\t/ HTTP/1.1', 400],
    ['GET /a b HTTP/1.1', 400],
    ['GET /', 400],
    ['GET', 400],
    ['', 400],
    ['G(T / HTTP/1.1', 400],
    ['GET / http/1.1', 400],
    ['GET / HTTP/1', 400],
    ['GET / HTTP/1.10', 400],
    ['GET / HTTP/11', 400],
    ['GET / HTTP/2.0', 505],
    ['GET / HTTP/1.2', 505],
    ['GET / HTTP/0.9', 505],
    ['PRI * HTTP/2.0', 505],
    ['GET * HTTP/1.1', 400],
    ['GET a.test:80 HTTP/1.1', 400],
    ['GET ftp://a.test/ HTTP/1.1', 400],
    ['GET http:///x HTTP/1.1', 400],
    ['GET http://u@a.test/ HTTP/1.1', 400],
    ['GET http://u:p@a.test/ HTTP/1.1', 400],
    ['GET http://a"b/ HTTP/1.1', 400],
    ['GET /a#b HTTP/1.1', 400],
    ['GET http://a.test/#b HTTP/1.1', 400],
    ['GET /\xe9 HTTP/1.1', 400],
    ['GET /\x7f HTTP/1.1', 400],
    ['CONNECT a.test:443 HTTP/1.1', 405],
    ['CONNECT / HTTP/1.1', 405],
    [`GET /${'x'.repeat(8192)} HTTP/1.1`, 414],
    [`${'M'.repeat(9000)} / HTTP/1.1`, 414],
  ])('%j is refused', (start, status) => {
    expect(parseRequest(start, 'Host: a.test')).toMatchObject({ status });
  });

  it('may have a target up to the limit', () => {
    expect(good(`GET /${'x'.repeat(8191)} HTTP/1.1`).target).toHaveLength(8192);
  });
});

describe('field lines', () => {
  it('keep order, case and bytes, without the space around the value', () => {
    const head = good(
      'GET / HTTP/1.1',
      'x-LOW:\t a \t',
      'Empty:',
      'Blank: \t',
      'High: \xa0caf\xe9\xa0',
      "!#$%&'*+-.^_`|~09: t",
    );
    expect([...head.fields.entries()].slice(1)).toEqual([
      ['x-LOW', 'a'],
      ['Empty', ''],
      ['Blank', ''],
      ['High', '\xa0caf\xe9\xa0'],
      ["!#$%&'*+-.^_`|~09", 't'],
    ]);
  });

  it.each([
    'X : y',
    'X\t: y',
    ' X: y',
    '\tX: y',
    ': y',
    'X',
    'X y',
    'X(: y',
    'X\xe9: y',
    'X\0: y',
    'X: a\0b',
    'X: a\x01b',
    'X: a\x7fb',
    'X: a\rb',
    'X: a\r',
    'X: a\nb',
    'X: a\n',
    '\n',
  ])('%j is refused', (line) => {
    expect(parseRequest('GET / HTTP/1.1', 'Host: a.test', line)).toMatchObject({ status: 400 });
    expect(parseResponse('GET', 'HTTP/1.1 200 OK', line)).toMatchObject({ code: 'upstream-bad-response' });
  });

  it('are limited in number and size', () => {
    const many = Array.from({ length: 200 }, () => 'X: y');
    expect(parseRequest('GET / HTTP/1.1', 'Host: a.test', ...many)).toMatchObject({ status: 431 });
    expect(parseRequest('GET / HTTP/1.1', 'Host: a.test', `X: ${'y'.repeat(33_000)}`)).toMatchObject({ status: 431 });
    expect(good('GET / HTTP/1.1', ...many.slice(1)).fields.length).toBe(200);
  });
});

describe('the host of a request', () => {
  it('is one line, as sent', () => {
    expect(good('GET / HTTP/1.1').authority).toBe('a.test');
    expect(parseRequest('GET / HTTP/1.1', 'hOST: B.test:80')).toMatchObject({ authority: 'B.test:80' });
    expect(parseRequest('GET / HTTP/1.1', 'Host:')).toMatchObject({ authority: '' });
  });

  it('is refused when missing or repeated', () => {
    expect(parseRequest('GET / HTTP/1.1')).toMatchObject({ status: 400 });
    expect(parseRequest('GET http://a.test/ HTTP/1.1')).toMatchObject({ status: 400 });
    expect(parseRequest('GET / HTTP/1.1', 'Host: a.test', 'Host: a.test')).toMatchObject({ status: 400 });
  });

  it('may be missing on HTTP/1.0', () => {
    expect(parseRequest('GET / HTTP/1.0')).toMatchObject({ authority: null });
    expect(parseRequest('GET http://a.test/ HTTP/1.0')).toMatchObject({
      authority: 'a.test',
      otherAuthority: 'a.test',
    });
  });
});

describe('the body of a request', () => {
  it.each([
    [[], 0],
    [['Content-Length: 0'], 0],
    [['content-length: 5'], 5],
    [['Content-Length: 007'], 7],
    [['Content-Length: 9007199254740991'], Number.MAX_SAFE_INTEGER],
    [['Transfer-Encoding: chunked'], unknownLength],
    [['transfer-encoding: \tChUnKeD '], unknownLength],
  ])('%j', (fields, length) => {
    expect(good('POST / HTTP/1.1', ...fields).bodyLength).toBe(length);
    // A request method never decides about the body.
    expect(good('DELETE / HTTP/1.1', ...fields).bodyLength).toBe(length);
  });

  it.each([
    [['Content-Length: 5', 'Transfer-Encoding: chunked']],
    [['Transfer-Encoding: chunked', 'Content-Length: 0']],
    [['Content-Length: 5', 'Content-Length: 6']],
    [['Content-Length: 5', 'Content-Length: 5']],
    [['Content-Length: 5, 5']],
    [['Content-Length:']],
    [['Content-Length: +5']],
    [['Content-Length: -5']],
    [['Content-Length: 0x5']],
    [['Content-Length: 5 6']],
    [['Content-Length: 5x']],
    [['Content-Length: 5.0']],
    [['Content-Length: 9007199254740992']],
    [[`Content-Length: ${'9'.repeat(30)}`]],
    [['Transfer-Encoding:']],
    [['Transfer-Encoding: chunked\t']],
    [['Transfer-Encoding: chunked,']],
    [['Transfer-Encoding: ,chunked']],
    [['Transfer-Encoding: chunked, chunked']],
    [['Transfer-Encoding: gzip, chunked']],
    [['Transfer-Encoding: chunked, gzip']],
    [['Transfer-Encoding: gzip']],
    [['Transfer-Encoding: xchunked']],
    [['Transfer-Encoding: "chunked"']],
    [['Transfer-Encoding: identity']],
    [['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked']],
    [['Transfer-Encoding: chunked', 'Transfer-Encoding: identity']],
  ])('%j is refused in both directions', (fields) => {
    expect(parseRequest('POST / HTTP/1.1', 'Host: a.test', ...fields)).toMatchObject({ status: 400 });
    for (const method of ['GET', 'HEAD']) {
      expect(parseResponse(method, 'HTTP/1.1 200 OK', ...fields)).toMatchObject({ code: 'upstream-bad-response' });
    }
  });

  it('is not chunked on HTTP/1.0', () => {
    const field = 'Transfer-Encoding: chunked';
    expect(parseRequest('POST / HTTP/1.0', 'Host: a.test', field)).toMatchObject({ status: 400 });
    expect(parseResponse('GET', 'HTTP/1.0 200 OK', field)).toMatchObject({ code: 'upstream-bad-response' });
  });
});

describe('what a request says about its connection', () => {
  it.each([
    ['HTTP/1.1', [], true],
    ['HTTP/1.1', ['Connection: close'], false],
    ['HTTP/1.1', ['Connection: x, CLOSE ,y'], false],
    ['HTTP/1.1', ['Connection: keep-alive', 'Connection: close'], false],
    ['HTTP/1.1', ['Connection: closed'], true],
    ['HTTP/1.0', [], false],
    ['HTTP/1.0', ['Connection: Keep-Alive'], true],
    ['HTTP/1.0', ['Connection: x,keep-alive'], true],
    ['HTTP/1.0', ['Connection: keep-alive, close'], false],
  ])('%s %j persists: %j', (version, fields, persistent) => {
    expect(good(`GET / ${version}`, ...fields).persistent).toBe(persistent);
  });

  it.each([
    [['Connection: Upgrade', 'Upgrade: websocket'], 'websocket'],
    [['connection: keep-alive, upgrade', 'upgrade: WebSocket'], 'websocket'],
    [['Connection: keep-alive', 'Connection: Upgrade', 'Upgrade: websocket'], 'websocket'],
    [['Upgrade: websocket'], ''],
    [['Connection: Upgrade'], ''],
    [['Connection: Upgrade', 'Upgrade: h2c'], ''],
    [['Connection: Upgrade', 'Upgrade: websocket, h2c'], ''],
    [['Connection: Upgrade', 'Upgrade: websocket/13'], ''],
    [['Connection: Upgrade', 'Upgrade: websocket', 'Content-Length: 5'], ''],
  ])('%j asks for %j', (fields, upgrade) => {
    expect(good('GET / HTTP/1.1', ...fields).upgrade).toBe(upgrade);
  });

  it('knows upgrades, expectations and trailers of HTTP/1.1 only', () => {
    const fields = ['Connection: Upgrade', 'Upgrade: websocket', 'TE: gzip;q=0.5, Trailers', 'Expect: 100-Continue'];
    expect(good('GET / HTTP/1.1', ...fields)).toMatchObject({ expectContinue: true, acceptsTrailers: true });
    expect(good('GET / HTTP/1.0', ...fields)).toMatchObject({
      upgrade: '',
      expectContinue: false,
      acceptsTrailers: false,
    });
    expect(good('POST / HTTP/1.1', 'Expect: foo').expectContinue).toBe(false);
  });
});

describe('a status line', () => {
  it.each([
    ['HTTP/1.1 200 OK', 200, 'OK'],
    ['HTTP/1.0 404 Not  Found', 404, 'Not  Found'],
    ['HTTP/1.1 200', 200, ''],
    ['HTTP/1.1 200 ', 200, ''],
    ['HTTP/1.1 599 \xe9\t', 599, '\xe9\t'],
    ['HTTP/1.1 999 Odd', 999, 'Odd'],
  ])('%j', (start, status, reason) => {
    expect(parseResponse('GET', start)).toMatchObject({ status, reason });
  });

  it.each([
    'HTTP/1.1',
    'HTTP/1.1 ',
    'HTTP/1.1 20',
    'HTTP/1.1 2000',
    'HTTP/1.1 099',
    'HTTP/1.1 -10',
    'HTTP/1.1  200 OK',
    'HTTP/1.1\t200 OK',
    'HTTP/1.1 200OK',
    'HTTP/1.1 200\tOK',
    'HTTP/1.1 200 a\x01',
    'HTTP/1.1 200 a\rb',
    'HTTP/2.0 200 OK',
    'HTTP/1.2 200 OK',
    'ICE/1.0 200 OK',
    'http/1.1 200 OK',
    ' HTTP/1.1 200 OK',
    '200 OK',
  ])('%j is refused', (start) => {
    expect(parseResponse('GET', start)).toMatchObject({ code: 'upstream-bad-response' });
  });
});

describe('the end of a response', () => {
  it.each([
    ['GET', '200', ['Content-Length: 5'], 'length', 5, true],
    ['GET', '200', ['Content-Length: 0'], 'none', 0, true],
    ['GET', '200', ['Transfer-Encoding: chunked'], 'chunked', unknownLength, true],
    ['GET', '200', [], 'close', unknownLength, false],
    ['GET', '200', ['Connection: keep-alive'], 'close', unknownLength, false],
    ['GET', '200', ['Content-Length: 5', 'Connection: close'], 'length', 5, false],
    ['HEAD', '200', ['Content-Length: 5'], 'none', 0, true],
    ['HEAD', '200', ['Transfer-Encoding: chunked'], 'none', 0, true],
    ['GET', '304', ['Content-Length: 5'], 'none', 0, true],
    ['GET', '204', [], 'none', 0, true],
    ['GET', '204', ['Content-Length: 0'], 'none', 0, true],
    ['GET', '204', ['Content-Length: 3'], 'none', 0, false],
    ['GET', '204', ['Transfer-Encoding: chunked'], 'none', 0, false],
    ['GET', '103', ['Content-Length: 3'], 'none', 0, true],
    ['GET', '101', ['Transfer-Encoding: chunked'], 'none', 0, true],
  ])('%s %s %j', (method, status, fields, framing, bodyLength, persistent) => {
    expect(parseResponse(method, `HTTP/1.1 ${status} X`, ...fields)).toMatchObject({ framing, bodyLength, persistent });
  });
});

describe('a head on the wire', () => {
  const read = (text: string) => new HeadReader().read(Buffer.from(text, 'latin1'), 0, 100, 200);

  it.each([
    ['GET / HTTP/1.1\r\n\r\n', 'complete'],
    ['\r\nGET / HTTP/1.1\r\n\r\n', 'complete'],
    ['GET / HTTP/1.1\r\n', 'more'],
    ['\r', 'more'],
    ['G\n', 'bad line end'],
    ['\n', 'bad line end'],
    ['G\rE', 'bad line end'],
    ['G\0', 'bad line end'],
    ['\r\n\r\n', 'bad line end'],
    ['x'.repeat(101), 'line too long'],
    [`G\r\n${'x'.repeat(200)}`, 'head too large'],
  ])('%j is %s', (text, progress) => {
    expect(read(text)).toBe(progress);
  });

  it('ends where its blank line ends, in one piece or in many', () => {
    const bytes = Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\nbody', 'latin1');
    for (let cut = 0; cut <= bytes.length; cut++) {
      const reader = new HeadReader();
      let progress = reader.read(bytes.subarray(0, cut), 0, 100, 200);
      let end = reader.offset;
      if (progress === 'more') {
        progress = reader.read(bytes, cut, 100, 200);
        end = reader.offset;
      }
      expect(progress).toBe('complete');
      expect(end).toBe(bytes.length - 4);
      expect(reader.text.slice(reader.start, reader.end)).toBe('GET / HTTP/1.1\r\nHost: a\r\n');
      expect(reader.partial).toBe(false);
    }
  });
});
