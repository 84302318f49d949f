import { describe, expect, it } from 'vitest';
import { Fields } from '../../src/message/fields.ts';
import { unknownLength } from '../../src/message/head.ts';
import { sleep, until } from '../support/wait.ts';
import { type PlayedExchange, playBackend, request } from './http1-support/backend.ts';

const over = (exchange: PlayedExchange) => until('the end of the exchange', () => exchange.over);

describe('a response', () => {
  it('is read by its length, and the connection is ready for the next request', async () => {
    const backend = await playBackend();
    for (const text of ['one', 'two']) {
      const exchange = backend.open(request());
      expect(backend.connection.idle).toBe(false);
      backend.say(`HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 3\r\n\r\n${text}`);
      await over(exchange);
      expect(exchange.body).toBe(text);
      expect(exchange.head?.bodyLength).toBe(3);
      expect(backend.connection.idle).toBe(true);
    }
    expect(backend.idles).toBe(2);
    expect(backend.connection.served).toBe(2);
    expect(backend.received().match(/GET \/ HTTP\/1.1\r\nHost: a.test\r\n\r\n/g)).toHaveLength(2);
  });

  it('is read by its chunks, trailers included', async () => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    backend.say('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n');
    await until('the data', () => exchange.body === 'abc');
    expect(exchange.flushes).toBeGreaterThan(0);
    backend.say('2\r\nde\r\n0\r\ngrpc-status: 0\r\nSet-Cookie: x\r\n\r\n');
    await over(exchange);
    expect(exchange.body).toBe('abcde');
    expect([...exchange.trailers!.entries()]).toEqual([['grpc-status', '0']]);
    expect(backend.connection.idle).toBe(true);
  });

  it('is read until the backend closes, when nothing else is said', async () => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    backend.say('HTTP/1.1 200 OK\r\n\r\nabc');
    await until('the data', () => exchange.body === 'abc');
    await sleep(20);
    expect(exchange.over).toBe(false);
    backend.say('def');
    backend.peer.end();
    await over(exchange);
    expect(exchange.body).toBe('abcdef');
    expect(exchange.fault).toBe(null);
    await until('the close', () => backend.closed === 1);
    expect(backend.idles).toBe(0);
  });

  it.each([
    ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 1234', 1234, true],
    ['HEAD', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked', -1, true],
    ['HEAD', 'HTTP/1.1 200 OK', -1, true],
    ['GET', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 1234', 1234, true],
    ['GET', 'HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked', -1, true],
    ['GET', 'HTTP/1.1 204 No Content', -1, true],
    // It may send that body after all, and the next exchange must not read it.
    ['GET', 'HTTP/1.1 204 No Content\r\nContent-Length: 3', -1, false],
    ['GET', 'HTTP/1.1 200 OK\r\nContent-Length: 0', -1, true],
  ])('%s %j has no body', async (method, head, declared, reusable) => {
    const backend = await playBackend();
    const exchange = backend.open(request(method));
    backend.say(`${head}\r\n\r\n`);
    await over(exchange);
    expect(exchange.fault).toBe(null);
    expect(exchange.head?.bodyLength).toBe(0);
    expect(exchange.head?.declaredLength).toBe(declared);
    expect(backend.connection.idle).toBe(reusable);
  });

  it.each([
    ['Connection: close', 'HTTP/1.1 200 OK\r\nConnection: close'],
    ['HTTP/1.0', 'HTTP/1.0 200 OK'],
  ])('with %s is the last one', async (_, head) => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    backend.say(`${head}\r\nContent-Length: 2\r\n\r\nok`);
    await over(exchange);
    expect(exchange.body).toBe('ok');
    expect(backend.connection.idle).toBe(false);
    await until('the close', () => backend.closed === 1);
  });

  it('passes interim heads on, in bounded number', async () => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    backend.say('HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n');
    backend.say('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    await over(exchange);
    expect(exchange.interim).toEqual([103, 100]);
    expect(exchange.head?.fields.length).toBe(1);
    const endless = backend.open(request());
    backend.say('HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(20_000));
    await over(endless);
    expect(endless.fault?.code).toBe('upstream-bad-response');
    expect(endless.interim).toHaveLength(64);
  });

  it('keeps bytes of values and reason, and needs no reason', async () => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    backend.say('HTTP/1.1 404 N\xefcht da\r\nX: caf\xc3\xa9\r\nContent-Length: 0\r\n\r\n');
    await over(exchange);
    expect(exchange.head?.reason).toBe('N\xefcht da');
    expect(exchange.head?.fields.getNamed('x')).toBe('caf\xc3\xa9');
    const plain = backend.open(request());
    backend.say('HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n');
    await over(plain);
    expect(plain.head).toMatchObject({ status: 404, reason: '' });
  });

  it('stops coming while paused', async () => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    const size = 16 * 1024 * 1024;
    exchange.onData = () => exchange.stream.pauseResponse();
    backend.say(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
    backend.say(Buffer.alloc(size));
    await until('some data', () => exchange.bodySize > 0);
    const before = exchange.bodySize;
    await sleep(50);
    expect(exchange.bodySize).toBe(before);
    expect(backend.socket.bytesRead).toBeLessThan(1024 * 1024);
    exchange.onData = null;
    exchange.stream.resumeResponse();
    await over(exchange);
    expect(exchange.bodySize).toBe(size);
  });

  it('is delivered whole although the backend closed while it was paused', async () => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    const chunk = `10\r\n${'x'.repeat(16)}\r\n`;
    let paused = false;
    exchange.onData = () => {
      expect(paused).toBe(false);
      paused = true;
      exchange.stream.pauseResponse();
    };
    backend.say(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(50)}0\r\n\r\n`);
    backend.peer.end();
    await until('some data', () => exchange.bodySize > 0);
    while (!exchange.over) {
      await sleep(1);
      paused = false;
      exchange.stream.resumeResponse();
    }
    expect(exchange.fault).toBe(null);
    expect(exchange.bodySize).toBe(800);
  });
});

describe('a request', () => {
  it('goes out with its body framed anew', async () => {
    const backend = await playBackend();
    const sized = backend.open(request('POST', { bodyLength: 5 }));
    sized.stream.sendData(Buffer.from('hel'));
    sized.stream.sendData(Buffer.from('lo'));
    sized.stream.sendEnd(null);
    await backend.waitFor('Content-Length: 5\r\n\r\nhello');
    backend.say('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    await over(sized);
    const chunked = backend.open(request('PUT', { bodyLength: unknownLength, acceptsTrailers: true }));
    chunked.stream.sendData(Buffer.from('hello'));
    chunked.stream.sendEnd(Fields.of(['X-Sum', '9']));
    await backend.waitFor(
      'Transfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 9\r\n\r\n',
    );
  });

  it('lets its head go before the body when the client waits for a 100', async () => {
    const backend = await playBackend();
    backend.open(request('POST', { bodyLength: 5, expectContinue: true }));
    await backend.waitFor('\r\n\r\n');
  });

  it('that is still being sent when the response ends keeps the connection from being used again', async () => {
    const backend = await playBackend();
    const exchange = backend.open(request('POST', { bodyLength: 100 }));
    exchange.stream.sendData(Buffer.from('half'));
    await backend.waitFor('half');
    backend.say('HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno');
    await over(exchange);
    expect(exchange.head?.status).toBe(413);
    expect(exchange.body).toBe('no');
    expect(backend.connection.idle).toBe(false);
    await until('the close', () => backend.closed === 1);
    expect(exchange.stream.sendData(Buffer.from('more'))).toBe(true);
  });

  it('that ends short of its length breaks the connection', async () => {
    const backend = await playBackend();
    const exchange = backend.open(request('POST', { bodyLength: 100 }));
    exchange.stream.sendData(Buffer.from('half'));
    exchange.stream.sendEnd(null);
    await until('the close', () => backend.closed === 1);
    expect(exchange.over).toBe(false);
  });

  it('waits while the backend does not read', async () => {
    const backend = await playBackend();
    backend.peer.pause();
    const exchange = backend.open(request('POST', { bodyLength: unknownLength }));
    const chunk = Buffer.alloc(64 * 1024);
    while (exchange.stream.sendData(chunk)) await sleep(0);
    expect(exchange.writable).toBe(0);
    backend.peer.resume();
    await until('the all-clear', () => exchange.writable > 0);
  });

  it('cannot touch the connection any more after its response', async () => {
    const backend = await playBackend();
    const first = backend.open(request());
    backend.say('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    await over(first);
    const second = backend.open(request());
    first.stream.sendData(Buffer.from('late'));
    first.stream.pauseResponse();
    first.stream.abort();
    backend.say('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    await over(second);
    expect(second.body).toBe('ok');
  });

  it('of the next exchange may begin inside the end of the one before', async () => {
    const backend = await playBackend();
    const first = backend.open(request());
    let second: PlayedExchange | null = null;
    first.onEnd = () => {
      second = backend.open(request('GET', { target: '/second' }));
    };
    backend.say('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    await backend.waitFor('/second');
    backend.say('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nko');
    await until('the second', () => second?.over);
    expect(second!.body).toBe('ko');
  });
});

describe('a connection that breaks', () => {
  it.each(['end', 'resetAndDestroy'] as const)('before the request was sent asks for any retry (%s)', async (how) => {
    const backend = await playBackend();
    const exchange = backend.open();
    backend.peer[how]();
    await over(exchange);
    expect(exchange.fault?.retry).toBe('yes');
  });

  it.each(['end', 'resetAndDestroy'] as const)('before any answer allows an idempotent retry (%s)', async (how) => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    await backend.waitFor('\r\n\r\n');
    backend.peer[how]();
    await over(exchange);
    expect(exchange.fault?.code).toBe('upstream-reset');
    expect(exchange.fault?.retry).toBe('idempotent');
  });

  it.each([
    ['a head', 'HTTP/1.1 200 OK\r\nX: '],
    ['an interim answer', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
    ['a sized body', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc'],
    ['a chunked body', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n'],
    ['the trailers', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n'],
  ])('inside %s cuts the response', async (_, bytes) => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    await backend.waitFor('\r\n\r\n');
    backend.say(bytes);
    backend.peer.end();
    await over(exchange);
    expect(exchange.fault?.code).toBe('upstream-cut');
    expect(exchange.fault?.retry).toBe('no');
    expect(exchange.ended).toBe(false);
  });

  it('by a reset inside a body until close is no proper end', async () => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    backend.say('HTTP/1.1 200 OK\r\n\r\nabc');
    await until('the data', () => exchange.body === 'abc');
    backend.peer.resetAndDestroy();
    await over(exchange);
    expect(exchange.fault?.code).toBe('upstream-cut');
  });

  it.each([
    ['bytes behind the response', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n'],
    ['bytes behind a 204', 'HTTP/1.1 204 No Content\r\n\r\nabc'],
  ])('%s are never read as the next response', async (_, bytes) => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    backend.say(bytes);
    await over(exchange);
    expect(exchange.fault).toBe(null);
    expect(backend.connection.idle).toBe(false);
    await until('the close', () => backend.closed === 1);
    expect(backend.idles).toBe(0);
  });

  it.each([
    ['a byte', (peer: { write(text: string): void }) => peer.write('H')],
    ['a FIN', (peer: { end(): void }) => peer.end()],
    ['a reset', (peer: { resetAndDestroy(): void }) => peer.resetAndDestroy()],
  ])('%s while idle ends it', async (_, act) => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    backend.say('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    await over(exchange);
    expect(backend.connection.idle).toBe(true);
    act(backend.peer);
    await until('the close', () => backend.closed === 1);
    expect(backend.connection.idle).toBe(false);
  });

  it('by our abort makes no event', async () => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    backend.say('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc');
    await until('the data', () => exchange.body === 'abc');
    exchange.stream.abort();
    await until('the close', () => backend.closed === 1);
    expect(exchange.over).toBe(false);
  });
});

describe('what is not a response', () => {
  it.each([
    ['length and coding', 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n'],
    ['another coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n'],
    ['a tab behind the coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\t\r\n\r\n'],
    ['an odd coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n'],
    ['a coding on HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n'],
    ['no length', 'HTTP/1.1 200 OK\r\nContent-Length: 3x\r\n\r\n'],
    ['a control byte', 'HTTP/1.1 200 OK\r\nX: a\x01b\r\n\r\n'],
    ['a bare CR', 'HTTP/1.1 200 OK\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n'],
    ['a fold', 'HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n'],
    ['a space in a name', 'HTTP/1.1 200 OK\r\nX Y: a\r\n\r\n'],
    ['bare LFs', 'HTTP/1.1 200 OK\nX: a\n\n'],
    ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n\r\n'],
    ['HTTP/2', 'HTTP/2.0 200 OK\r\n\r\n'],
    ['a bad status', 'HTTP/1.1 20 OK\r\n\r\n'],
    ['a large head', `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`],
    ['an endless head', `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(40_000)}`],
  ])('%s is refused whole', async (_, bytes) => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    backend.say(bytes);
    await over(exchange);
    expect(exchange.fault?.code).toBe('upstream-bad-response');
    expect(exchange.head).toBe(null);
    await until('the close', () => backend.closed === 1);
  });

  it('a chunk that is not one ends the exchange where it stands', async () => {
    const backend = await playBackend();
    const exchange = backend.open(request());
    backend.say('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1zz\r\n');
    await over(exchange);
    expect(exchange.body).toBe('abc');
    expect(exchange.fault?.code).toBe('upstream-bad-response');
  });

  it('an answer before the request is refused', async () => {
    const backend = await playBackend();
    const exchange = backend.open();
    backend.say('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    await over(exchange);
    expect(exchange.fault?.code).toBe('upstream-bad-response');
  });
});

describe('an upgrade', () => {
  const handshake = () => request('GET', { upgrade: 'websocket' });

  it('hands the connection over with the early bytes of the backend, once', async () => {
    const backend = await playBackend();
    const exchange = backend.open(handshake());
    await backend.waitFor('Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    // A stray coding on a 101 means nothing: what follows is not HTTP.
    backend.say('HTTP/1.1 101 Switching Protocols\r\nTransfer-Encoding: chunked\r\nUpgrade: websocket\r\n\r\nearly');
    await over(exchange);
    const tunnel = exchange.tunnel!;
    let received = '';
    tunnel.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
    });
    tunnel.resume();
    backend.say(' bytes');
    await until('the bytes', () => received === 'early bytes');
    tunnel.write('ping');
    await backend.waitFor('ping');
    backend.peer.destroy();
    tunnel.on('error', () => {});
    tunnel.end();
    await until('the close', () => backend.closed === 1);
    expect(backend.idles).toBe(0);
  });

  it('may be answered by a plain response', async () => {
    const backend = await playBackend();
    const exchange = backend.open(handshake());
    backend.say('HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno');
    await over(exchange);
    expect(exchange.head?.status).toBe(401);
    expect(backend.connection.idle).toBe(true);
  });

  it('that nobody asked for, or to something else, is refused', async () => {
    for (const [head, protocol] of [
      [request(), 'websocket'],
      [handshake(), 'h2c'],
    ] as const) {
      const backend = await playBackend();
      const exchange = backend.open(head);
      backend.say(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`);
      await over(exchange);
      expect(exchange.fault?.code).toBe('upstream-bad-response');
      expect(exchange.tunnel).toBe(null);
    }
  });
});
