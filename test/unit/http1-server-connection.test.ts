import type { Duplex } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { Fields } from '../../src/message/fields.ts';
import { unknownLength } from '../../src/message/head.ts';
import { sleep, until } from '../support/wait.ts';
import { head, playServer } from './http1-support/server.ts';

const requestHead = (start: string, lines: readonly string[]) => `${[start, ...lines].join('\r\n')}\r\n\r\n`;
const get = (target = '/', ...lines: string[]) => requestHead(`GET ${target} HTTP/1.1`, ['Host: a.test', ...lines]);
const post = (...lines: string[]) => requestHead('POST / HTTP/1.1', ['Host: a.test', ...lines]);

describe('one connection, many requests', () => {
  it('answers one request after the other', async () => {
    const server = await playServer((request) => request.answer(request.line));
    const client = await server.connect();
    for (const target of ['/1', '/2', '/3'])
      expect((await client.ask(get(target))).body.toString()).toBe(`GET ${target}`);
    expect(server.connections).toHaveLength(1);
    expect(server.requests.map((each) => each.finished)).toEqual([true, true, true]);
  });

  it('keeps one request in work at a time and answers in order', async () => {
    const server = await playServer();
    const client = await server.connect();
    client.write(get('/1') + get('/2') + get('/3'));
    for (const target of ['/1', '/2', '/3']) {
      await until('the request', () => server.requests.at(-1)?.line === `GET ${target}`);
      await sleep(20);
      expect(server.requests.at(-1)?.line).toBe(`GET ${target}`);
      server.requests.at(-1)?.answer(target);
      expect((await client.readAnswer()).body.toString()).toBe(target);
    }
  });

  it('answers thousands of requests of one write without a stack of their number', async () => {
    const server = await playServer((request) => request.answer(request.stream.head.target));
    const client = await server.connect();
    const targets = Array.from({ length: 5000 }, (_, i) => `/${i}`);
    client.write(targets.map((target) => get(target)).join(''));
    for (const target of targets) expect((await client.readAnswer()).body.toString()).toBe(target);
  });

  it('stops reading when sixteen requests wait behind the one in work, and goes on afterwards', async () => {
    const server = await playServer();
    const client = await server.connect();
    client.write(get('/first') + Array.from({ length: 15 }, (_, i) => get(`/${i}`)).join(''));
    await until('the first', () => server.requests.length === 1);
    await sleep(20);
    const { socket } = server.connections[0]!;
    expect(socket.isPaused()).toBe(false);
    client.write(get('/15') + get('/16'));
    await until('the pause', () => socket.isPaused());
    for (let answered = 1; answered <= 18; answered++) {
      await until('a request', () => server.requests.length === answered);
      server.requests[answered - 1]!.answer('x');
      await client.readAnswer();
      if (answered === 1) expect(socket.isPaused()).toBe(true);
    }
    await until('reading on', () => !socket.isPaused());
  });

  it('begins no request for a client that does not read its answers', async () => {
    const answer = 'x'.repeat(50_000);
    const server = await playServer((request) => request.answer(answer));
    const client = await server.connect(true);
    const count = 300;
    client.write(Array.from({ length: count }, () => get()).join(''));
    await until('answers', () => server.requests.length > 10);
    let before = 0;
    await until('a standstill', async () => {
      before = server.requests.length;
      await sleep(100);
      return server.requests.length === before;
    });
    expect(server.requests.length).toBeLessThan(count / 2);
    expect(server.connections[0]!.socket.writableLength).toBeLessThan(200_000);
    client.socket.resume();
    await until('the rest', () => server.requests.length === count, { timeoutMs: 20_000 });
  });

  it('takes one empty line before a request', async () => {
    const server = await playServer((request) => request.answer('ok'));
    const client = await server.connect();
    expect((await client.ask(`\r\n${get()}`)).status).toBe(200);
    expect((await client.ask(`\r\n${get()}`)).status).toBe(200);
  });

  it('lets a late call on a finished stream have no effect on the next request', async () => {
    const server = await playServer();
    const client = await server.connect();
    client.write(get('/1'));
    await until('the first', () => server.requests.length === 1);
    const first = server.requests[0]!;
    first.answer('one');
    expect((await client.readAnswer()).body.toString()).toBe('one');
    client.write(get('/2'));
    await until('the second', () => server.requests.length === 2);
    first.stream.sendInformation(103, new Fields());
    first.stream.sendHead(head(500, 3), false, true);
    first.stream.sendData(Buffer.from('bad'));
    first.stream.sendEnd(null);
    first.stream.flush();
    first.stream.pauseBody();
    first.stream.discardBody();
    first.stream.abort();
    server.requests[1]!.answer('two');
    const answer = await client.readAnswer();
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toBe('two');
    expect(answer.interim).toEqual([]);
  });
});

describe('the end of a connection', () => {
  it('follows the answer when the client asked for it', async () => {
    const server = await playServer((request) => request.answer('ok'));
    const client = await server.connect();
    const answer = await client.ask(get('/', 'Connection: close'));
    expect(answer.head).toContain('Connection: close\r\n');
    await client.waitForEnd();
  });

  it('follows the answer on HTTP/1.0, unless keep-alive was agreed', async () => {
    const server = await playServer((request) => request.answer('ok'));
    const client = await server.connect();
    const kept = await client.ask(requestHead('GET / HTTP/1.0', ['Connection: keep-alive']));
    expect(kept.head).toContain('Connection: keep-alive\r\n');
    const last = await client.ask(requestHead('GET / HTTP/1.0', []));
    expect(last.head).toContain('Connection: close\r\n');
    await client.waitForEnd();
  });

  it('is announced by a drain in the answer in work', async () => {
    const server = await playServer();
    const client = await server.connect();
    client.write(get());
    await until('the request', () => server.requests.length === 1);
    server.connections[0]!.drain();
    server.requests[0]!.answer('ok');
    expect((await client.readAnswer()).head).toContain('Connection: close\r\n');
    await client.waitForEnd();
  });

  it('follows an answer that had begun before the drain', async () => {
    const server = await playServer();
    const client = await server.connect();
    client.write(get());
    await until('the request', () => server.requests.length === 1);
    server.requests[0]!.stream.sendHead(head(200, 2), false, false);
    server.connections[0]!.drain();
    server.requests[0]!.stream.sendData(Buffer.from('ok'));
    server.requests[0]!.stream.sendEnd(null);
    expect((await client.readAnswer()).body.toString()).toBe('ok');
    await client.waitForEnd();
  });

  it('follows the end of an idle client, or of one that ends inside a head', async () => {
    for (const bytes of ['', get(), 'GET / HT']) {
      const server = await playServer((request) => request.answer('ok'));
      const client = await server.connect();
      if (bytes === get()) await client.ask(bytes);
      else client.write(bytes);
      client.fin();
      await until('the close', () => server.closed === 1);
      expect(server.deadlines.holders.size).toBe(0);
    }
  });

  it('comes at once by a drain of an idle connection', async () => {
    const server = await playServer((request) => request.answer('ok'));
    const client = await server.connect();
    await client.ask(get());
    expect(server.connections[0]!.idle).toBe(true);
    server.connections[0]!.drain();
    await client.waitForEnd();
    client.fin();
    await until('the close', () => server.closed === 1);
  });

  it('comes after a quiet keep-alive time', async () => {
    const server = await playServer((request) => request.answer('ok'));
    const client = await server.connect();
    await client.ask(get());
    server.clock.advance(59_000);
    expect((await client.ask(get())).status).toBe(200);
    server.clock.advance(61_000);
    await client.waitForEnd();
    expect(client.text).toBe('');
    expect(server.refused).toEqual([]);
    expect(server.idleCloses).toBe(1);
  });

  it('comes when the header phase takes too long, however the bytes drip', async () => {
    const server = await playServer((request) => request.answer('ok'));
    const client = await server.connect();
    await client.ask(get());
    for (const piece of ['GET / HT', 'TP/1.1\r\nHo', 'st: a.test\r\n', 'X: y']) {
      client.write(piece);
      await sleep(20);
      server.clock.advance(3000);
    }
    const answer = await client.readAnswer();
    expect(answer.status).toBe(408);
    expect(server.refused.map((fault) => fault.code)).toEqual(['request-timeout']);
    await client.waitForEnd();
  });

  it('does not come while the rest of an answer is still being read by a slow client', async () => {
    const first = Buffer.alloc(6_000_000);
    const second = Buffer.alloc(30_000_000);
    const server = await playServer((request) => {
      request.stream.sendHead(head(200, first.length + second.length), false, true);
      request.stream.sendData(first);
      request.stream.sendData(second);
      request.stream.sendEnd(null);
    });
    const client = await server.connect(true);
    client.write(get());
    await until('the answer', () => server.requests[0]?.finished);
    const { socket } = server.connections[0]!;
    server.clock.advance(55_000);
    client.socket.resume();
    await until('a part to be read', () => socket.writableLength <= second.length, { everyMs: 1 });
    client.socket.pause();
    expect(socket.writableLength).toBe(second.length);
    server.clock.advance(55_000);
    client.socket.resume();
    expect((await client.readAnswer()).body.length).toBe(first.length + second.length);
  });

  it('comes for a client that takes nothing of its answer any more', async () => {
    const first = Buffer.alloc(6_000_000);
    const second = Buffer.alloc(30_000_000);
    const server = await playServer((request) => {
      request.stream.sendHead(head(200, first.length + second.length), false, false);
      request.stream.sendData(first);
      request.stream.sendData(second);
      request.stream.sendEnd(null);
    });
    const client = await server.connect(true);
    client.write(get());
    await until('the answer', () => server.requests[0]?.finished);
    const { socket } = server.connections[0]!;
    server.clock.advance(60_100);
    client.socket.resume();
    await until('a part to be read', () => socket.writableLength <= second.length, { everyMs: 1 });
    client.socket.pause();
    server.clock.advance(60_100);
    await sleep(20);
    expect(server.closed).toBe(0);
    server.clock.advance(60_100);
    await until('the close', () => server.closed === 1);
    expect(server.deadlines.holders.size).toBe(0);
  });
});

describe('the framing of an answer', () => {
  it.each([
    ['HEAD', 200, 0, 1234, 'Content-Length: 1234'],
    ['HEAD', 200, 0, -1, null],
    ['GET', 204, 0, -1, null],
    ['GET', 304, 0, 99, 'Content-Length: 99'],
    ['GET', 200, 0, -1, 'Content-Length: 0'],
  ])('%s %i ends at its blank line', async (method, status, length, declared, line) => {
    const server = await playServer((request) => {
      request.stream.sendHead(head(status, length, new Fields(), declared), false, false);
      request.stream.sendEnd(null);
    });
    const client = await server.connect();
    const answer = await client.ask(requestHead(`${method} / HTTP/1.1`, ['Host: a.test']), { method });
    const framing = answer.head.split('\r\n').filter((each) => /^(content-length|transfer-encoding):/i.test(each));
    expect(framing).toEqual(line === null ? [] : [line]);
    expect((await client.ask(requestHead(`${method} / HTTP/1.1`, ['Host: a.test']), { method })).status).toBe(status);
  });

  it('is chunked when the length is unknown, with trailers for whoever takes them', async () => {
    const server = await playServer((request) => {
      request.stream.sendHead(head(200, unknownLength), false, false);
      request.stream.sendData(Buffer.from('one'));
      request.stream.sendData(Buffer.alloc(0));
      request.stream.sendData(Buffer.alloc(20_000, 'x'));
      request.stream.sendEnd(Fields.of(['X-Sum', '9']));
    });
    const client = await server.connect();
    const plain = await client.ask(get());
    expect(plain.body.length).toBe(20_003);
    expect(plain.trailers).toEqual([]);
    const asked = await client.ask(get('/', 'TE: trailers', 'Connection: TE'));
    expect(asked.complete).toBe(true);
    expect(asked.trailers).toEqual([['X-Sum', '9']]);
  });

  it('is the end of the connection for HTTP/1.0, and a reset when it breaks off', async () => {
    const server = await playServer((request) => {
      request.stream.sendHead(head(200, unknownLength), false, false);
      request.stream.sendData(Buffer.from('half'));
      if (request.stream.head.target === '/whole') request.stream.sendEnd(null);
    });
    const whole = await server.connect();
    whole.write(requestHead('GET /whole HTTP/1.0', []));
    await whole.waitForEnd();
    expect(whole.text).toMatch(/^HTTP\/1\.1 200 OK\r\nConnection: close\r\n\r\nhalf$/);
    const cut = await server.connect();
    cut.write(requestHead('GET /cut HTTP/1.0', []));
    await cut.waitForText('half');
    server.requests[1]!.stream.abort();
    await cut.waitForEnd();
    expect(cut.error?.code).toBe('ECONNRESET');
  });

  it('writes a small head and body as one segment', async () => {
    const server = await playServer((request) => request.answer('small'));
    const client = await server.connect();
    await client.ask(get());
    expect(client.arrivals).toHaveLength(1);
  });

  it('keeps a head back until `flush`', async () => {
    const server = await playServer((request) => request.stream.sendHead(head(200, unknownLength), false, false));
    const client = await server.connect();
    client.write(get());
    await until('the request', () => server.requests.length === 1);
    await sleep(20);
    expect(client.receivedSize).toBe(0);
    server.requests[0]!.stream.flush();
    await client.waitForText('\r\n\r\n');
  });

  it('lets a lone chunk go with the turn of the event loop', async () => {
    const server = await playServer((request) => {
      request.stream.sendHead(head(200, unknownLength), false, false);
      request.stream.sendData(Buffer.from('event'));
    });
    const client = await server.connect();
    client.write(get());
    await client.waitForText('event');
  });

  it('breaks the connection when less is sent than was promised, or more', async () => {
    const server = await playServer((request) => {
      request.stream.sendHead(head(200, 10), false, false);
      request.stream.sendData(Buffer.alloc(request.stream.head.target === '/short' ? 5 : 11, 'x'));
      request.stream.sendEnd(null);
    });
    for (const target of ['/short', '/long']) {
      const client = await server.connect();
      const answer = await client.ask(get(target));
      expect(answer.complete).toBe(false);
      expect(answer.body.length).toBeLessThan(10);
      expect(client.ended).toBe(true);
    }
    expect(server.requests.some((each) => each.finished)).toBe(false);
  });

  it('gives a broken-off answer no proper end', async () => {
    const server = await playServer((request) => {
      request.stream.sendHead(head(200, unknownLength), false, false);
      request.stream.sendData(Buffer.from('half'));
      request.stream.abort();
    });
    const client = await server.connect();
    const answer = await client.ask(get());
    expect(answer.body.toString()).toBe('half');
    expect(answer.complete).toBe(false);
  });

  it('that is broken off waits only a moment for a client that does not read', async () => {
    const server = await playServer((request) => {
      request.stream.sendHead(head(200, unknownLength), false, false);
      request.stream.sendData(Buffer.alloc(20_000_000));
      request.stream.abort();
    });
    const client = await server.connect(true);
    client.write(get());
    await until('the answer', () => server.requests.length === 1);
    await sleep(50);
    expect(server.closed).toBe(0);
    server.clock.advance(2200);
    await until('the close', () => server.closed === 1);
  });

  it('tells when to stop sending, and when to go on', async () => {
    const server = await playServer();
    const client = await server.connect(true);
    client.write(get());
    await until('the request', () => server.requests.length === 1);
    const request = server.requests[0]!;
    request.stream.sendHead(head(200, unknownLength), false, false);
    const chunk = Buffer.alloc(64 * 1024);
    let sent = 0;
    while (request.stream.sendData(chunk)) {
      sent++;
      await sleep(0);
    }
    expect(server.connections[0]!.socket.writableLength).toBeLessThan(1024 * 1024);
    expect(request.writable).toBe(0);
    client.socket.resume();
    await until('the all-clear', () => request.writable > 0);
    request.stream.sendEnd(null);
    expect((await client.readAnswer()).body.length).toBe((sent + 1) * chunk.length);
  });

  it('relays interim answers to HTTP/1.1 and drops them for HTTP/1.0', async () => {
    const server = await playServer((request) => {
      request.stream.sendInformation(103, Fields.of(['Link', '</a.css>']));
      request.answer('ok');
    });
    const client = await server.connect();
    expect((await client.ask(get())).interim.map((each) => each.status)).toEqual([103]);
    expect((await client.ask(requestHead('GET / HTTP/1.0', []))).interim).toEqual([]);
  });
});

describe('the body of a request', () => {
  it('waits until it is asked for, and is read no further than that', async () => {
    const server = await playServer();
    const client = await server.connect();
    const size = 8 * 1024 * 1024;
    client.write(post(`Content-Length: ${size}`));
    client.write(Buffer.alloc(size));
    await until('the request', () => server.requests.length === 1);
    const request = server.requests[0]!;
    const { socket } = server.connections[0]!;
    await until('the pause', () => socket.isPaused());
    expect(socket.bytesRead).toBeLessThan(512 * 1024);
    expect(request.bodySize).toBe(0);
    request.onData = () => request.stream.pauseBody();
    request.stream.resumeBody();
    const first = request.bodySize;
    expect(first).toBeGreaterThan(0);
    await sleep(50);
    expect(request.bodySize).toBe(first);
    request.onData = null;
    request.stream.resumeBody();
    await until('the whole body', () => request.ended);
    expect(request.bodySize).toBe(size);
  });

  it('comes with its trailers, less those that may not be any', async () => {
    const server = await playServer((request) => request.stream.resumeBody());
    const client = await server.connect();
    client.write(`${post('Transfer-Encoding: chunked')}3;ext=1\r\nabc\r\n0\r\nX-Sum: 9\r\nAuthorization: x\r\n\r\n`);
    await until('the end', () => server.requests[0]?.ended);
    expect(server.requests[0]!.body).toBe('abc');
    expect([...server.requests[0]!.trailers!.entries()]).toEqual([['X-Sum', '9']]);
  });

  it('gets a 400 when its framing breaks before the answer', async () => {
    const server = await playServer((request) => request.stream.resumeBody());
    const client = await server.connect();
    const answer = await client.ask(`${post('Transfer-Encoding: chunked')}3\r\nabc\r\n1zz\r\n`);
    expect(answer.status).toBe(400);
    expect(server.requests[0]!.fault?.code).toBe('bad-request');
    expect(server.requests[0]!.ended).toBe(false);
    await client.waitForEnd();
  });

  it('breaks an answer under way when its framing breaks', async () => {
    const server = await playServer((request) => {
      request.stream.sendHead(head(200, 100), false, false);
      request.stream.sendData(Buffer.from('half'));
      request.stream.resumeBody();
    });
    const client = await server.connect();
    const answer = await client.ask(`${post('Transfer-Encoding: chunked')}1zz\r\n`);
    expect(answer.complete).toBe(false);
    expect(server.requests[0]!.fault?.code).toBe('bad-request');
  });

  it('is announced by the client alone: no 100 of our own', async () => {
    const server = await playServer((request) => request.stream.resumeBody());
    const client = await server.connect();
    client.write(post('Expect: 100-continue', 'Content-Length: 5'));
    await until('the request', () => server.requests.length === 1);
    await sleep(50);
    expect(client.receivedSize).toBe(0);
    const request = server.requests[0]!;
    request.stream.sendInformation(100, new Fields());
    await client.waitForText('100 Continue\r\n\r\n');
    client.write('hello');
    await until('the body', () => request.ended);
    request.answer('ok');
    expect((await client.readAnswer()).head).not.toContain('Connection: close');
  });

  it('is not waited for after a final answer without a 100: the connection ends', async () => {
    const server = await playServer((request) => request.answer('no', 417));
    const client = await server.connect();
    const answer = await client.ask(post('Expect: 100-continue', 'Content-Length: 5'));
    expect(answer.status).toBe(417);
    expect(answer.head).toContain('Connection: close\r\n');
    client.write(get('/smuggled'));
    await client.waitForEnd();
    expect(server.requests).toHaveLength(1);
  });

  it('is dropped after an early answer when little of it is left, and the connection goes on', async () => {
    const server = await playServer((request) => request.answer(request.line, 401));
    const client = await server.connect();
    client.write(post('Content-Length: 50000'));
    expect((await client.readAnswer()).head).not.toContain('Connection: close');
    client.write(Buffer.alloc(50_000, 'G'));
    expect((await client.ask(get('/next'))).body.toString()).toBe('GET /next');
  });

  it('does not keep the client from reading an early answer', async () => {
    for (let run = 0; run < 20; run++) {
      const server = await playServer((request) => request.answer('too much', 413));
      const client = await server.connect();
      client.write(post('Content-Length: 52428800'));
      // The body speaks HTTP; none of it may be heard.
      const piece = Buffer.from(get('/smuggled').repeat(2000), 'latin1');
      const pump = () => {
        while (!client.ended && client.write(piece));
      };
      client.socket.on('drain', pump);
      pump();
      const answer = await client.readAnswer({ method: 'POST' });
      expect(answer.status).toBe(413);
      expect(answer.body.toString()).toBe('too much');
      expect(answer.head).toContain('Connection: close\r\n');
      await client.waitForEnd();
      expect(server.requests).toHaveLength(1);
      client.destroy();
    }
  });

  it('ends the connection when more of it follows an answer than may be dropped', async () => {
    const server = await playServer((request) => request.answer('early'));
    const client = await server.connect();
    client.write(post('Transfer-Encoding: chunked'));
    expect((await client.readAnswer()).head).not.toContain('Connection: close');
    const chunk = `8000\r\n${'x'.repeat(0x8000)}\r\n`;
    client.write(chunk.repeat(7));
    await sleep(50);
    expect(client.ended).toBe(false);
    client.write(chunk.repeat(3));
    await client.waitForEnd();
    expect(server.connections[0]!.socket.listenerCount('data')).toBe(0);
    expect(server.connections[0]!.socket.listenerCount('drain')).toBe(0);
  });

  it('is dropped before the answer already, when nobody wants it', async () => {
    const server = await playServer((request) => request.stream.discardBody());
    const client = await server.connect();
    client.write(post('Content-Length: 200000'));
    client.write(Buffer.alloc(200_000));
    await until('the body', () => (server.connections[0]?.socket.bytesRead ?? 0) > 200_000);
    server.requests[0]!.answer('no', 403);
    expect((await client.readAnswer()).status).toBe(403);
    expect(server.requests[0]!.bodySize).toBe(0);
    client.write(get());
    await until('the next', () => server.requests.length === 2);
  });

  it('is dropped for as long as the linger time, not for ever', async () => {
    const server = await playServer();
    const client = await server.connect();
    client.write(post('Content-Length: 52428800'));
    client.write(Buffer.alloc(8_000_000));
    await until('a pause', () => server.connections[0]?.socket.isPaused());
    server.requests[0]!.answer('no', 413);
    await client.readAnswer();
    await client.waitForEnd();
    await until('the body', () => server.connections[0]!.socket.bytesRead > 8_000_000);
    expect(server.closed).toBe(0);
    server.clock.advance(2200);
    await until('the close', () => server.closed === 1);
    expect(server.deadlines.holders.size).toBe(0);
  });
});

describe('what is not a request', () => {
  it.each([
    ['a space before the colon', get().replace('Host:', 'Host :'), 400],
    ['a bare LF', get().replace('\r\n', '\n'), 400],
    ['a bare LF, and no end of the head', 'GET / HTTP/1.1\n', 400],
    ['a NUL, and no end of the head', 'GET / HTTP/1.1\r\nX: \0', 400],
    ['a fold', get('/', 'X: y', ' z'), 400],
    ['two Hosts', get('/', 'Host: b.test'), 400],
    ['length and coding', post('Content-Length: 5', 'Transfer-Encoding: chunked'), 400],
    ['no version', 'GET /\r\n\r\n', 400],
    ['another version', requestHead('GET / HTTP/2.0', ['Host: a.test']), 505],
    ['CONNECT', requestHead('CONNECT a.test:443 HTTP/1.1', ['Host: a.test']), 405],
    ['a long target', get(`/${'x'.repeat(8200)}`), 414],
    ['a long target, and no end of the line', `GET /${'x'.repeat(8400)}`, 414],
    ['a large head', get('/', `X: ${'x'.repeat(40_000)}`), 431],
    ['a large head, and no end of it', `GET / HTTP/1.1\r\nX: ${'x'.repeat(40_000)}`, 431],
    ['many lines', get('/', ...Array.from({ length: 120 }, (_, i) => `X-${i}: y`)), 431],
  ])('%s is refused and the connection ends', async (_, bytes, status) => {
    const server = await playServer();
    const client = await server.connect();
    client.write(bytes + get('/smuggled'));
    const answer = await client.readAnswer();
    expect(answer.status).toBe(status);
    await client.waitForEnd();
    expect(server.requests).toHaveLength(0);
    expect(server.refused.map((fault) => fault.status)).toEqual([status]);
  });

  it('is refused by the same reading when it comes byte by byte', async () => {
    const server = await playServer((request) => request.answer('ok'));
    const client = await server.connect();
    await client.drip(get('/drip'));
    expect((await client.readAnswer()).status).toBe(200);
    await client.drip(get().replace('Host:', 'Host :'));
    expect((await client.readAnswer()).status).toBe(400);
  });
});

describe('a client that leaves', () => {
  it('gets its answer after a FIN when the head comes in time', async () => {
    const server = await playServer();
    const client = await server.connect();
    client.write(get('/1') + get('/2'));
    client.fin();
    await until('the first', () => server.requests.length === 1);
    server.clock.advance(500);
    server.requests[0]!.answer('one');
    await until('the second', () => server.requests.length === 2);
    server.clock.advance(700);
    server.requests[1]!.stream.sendHead(head(200, 3), false, false);
    server.clock.advance(5000);
    server.requests[1]!.stream.sendData(Buffer.from('two'));
    server.requests[1]!.stream.sendEnd(null);
    const [one, two] = [await client.readAnswer(), await client.readAnswer()];
    expect(one.body.toString()).toBe('one');
    expect(one.head).not.toContain('Connection: close');
    expect(two.body.toString()).toBe('two');
    expect(two.head).toContain('Connection: close\r\n');
    await client.waitForEnd();
  });

  it('is gone after a FIN when the head does not come in time', async () => {
    const server = await playServer();
    const client = await server.connect();
    client.write(get());
    client.fin();
    await until('the request', () => server.requests.length === 1);
    await sleep(20);
    server.clock.advance(700);
    expect(server.requests[0]!.fault).toBe(null);
    server.clock.advance(200);
    expect(server.requests[0]!.fault?.code).toBe('client-gone');
    await until('the close', () => server.closed === 1);
  });

  it('is gone at once by a FIN inside its body, or over TLS, or in a handshake', async () => {
    const facts = {
      serverName: null,
      certificateId: '',
      certificateNames: [],
      profileId: '',
      version: '',
      clientSubject: null,
    };
    const handshake = get('/', 'Connection: Upgrade', 'Upgrade: websocket');
    for (const [bytes, tls] of [
      [`${post('Content-Length: 5')}he`, null],
      [get(), facts],
      [handshake, null],
    ] as const) {
      const server = await playServer((request) => request.stream.resumeBody(), {}, tls);
      const client = await server.connect();
      client.write(bytes);
      await until('the request', () => server.requests.length === 1);
      client.fin();
      await until('the abort', () => server.requests[0]!.fault?.code === 'client-gone');
      await until('the close', () => server.closed === 1);
    }
  });

  it('is gone at once by a reset', async () => {
    const server = await playServer();
    const client = await server.connect();
    client.write(get());
    await until('the request', () => server.requests.length === 1);
    client.reset();
    await until('the abort', () => server.requests[0]!.fault?.code === 'client-gone');
    expect(server.requests[0]!.finished).toBe(false);
    expect(server.closed).toBe(1);
  });
});

describe('an upgrade', () => {
  const handshake = get('/', 'Connection: keep-alive, Upgrade', 'Upgrade: WebSocket');

  it('hands the connection over with the early bytes of the client, once', async () => {
    const server = await playServer();
    const client = await server.connect();
    client.write(`${handshake}early`);
    await until('the request', () => server.requests.length === 1);
    const request = server.requests[0]!;
    expect(request.stream.head.upgrade).toBe('websocket');
    await sleep(20);
    client.write(' bytes');
    await sleep(20);
    const tunnel = request.stream.acceptUpgrade(head(101, 0, Fields.of(['Sec-WebSocket-Accept', 'x'])));
    let received = '';
    tunnel.on('error', () => {});
    tunnel.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
    });
    tunnel.resume();
    await client.waitForText('\r\n\r\n');
    expect(client.text).toMatch(
      /^HTTP\/1\.1 101 [^\r]+\r\nSec-WebSocket-Accept: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n$/,
    );
    client.write(' and more');
    await until('the bytes', () => received === 'early bytes and more');
    tunnel.write('back');
    await client.waitForText('back');
    server.clock.advance(3_600_000);
    server.connections[0]!.drain();
    await sleep(20);
    expect(client.ended).toBe(false);
    (tunnel as Duplex).end();
    client.fin();
    await until('the close', () => server.closed === 1);
  });

  it('that is refused ends the connection, and what follows is not read as HTTP', async () => {
    const server = await playServer((request) => request.answer('no', 403));
    const client = await server.connect();
    const answer = await client.ask(handshake + get('/smuggled'));
    expect(answer.status).toBe(403);
    expect(answer.head).toContain('Connection: close\r\n');
    await client.waitForEnd();
    expect(server.requests).toHaveLength(1);
  });

  it.each([
    ['h2c', get('/', 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk')],
    ['two protocols', get('/', 'Connection: Upgrade', 'Upgrade: websocket, h2c')],
    ['no Connection token', get('/', 'Upgrade: websocket')],
    ['a POST', post('Connection: Upgrade', 'Upgrade: websocket', 'Content-Length: 0')],
  ])('is a plain request with %s', async (_, bytes) => {
    const server = await playServer((request) => request.answer('plain'));
    const client = await server.connect();
    expect((await client.ask(bytes)).body.toString()).toBe('plain');
    expect(server.requests[0]!.stream.head.upgrade).toBe('');
    expect((await client.ask(get())).status).toBe(200);
  });
});
