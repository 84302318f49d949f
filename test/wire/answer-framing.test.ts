// Where an answer ends: answers without a body, backends that die, trailers, interim answers.
import { createServer as createH2Server, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { afterAll, describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { requestHead } from '../support/raw-client.ts';
import { valuesOf } from '../support/recorder.ts';
import { isH2, overTransports } from '../support/transports.ts';
import { until } from '../support/wait.ts';

let h2Backend: Http2Server;
let h2Port = 0;

const f = useProxy({
  names: ['h2c.test'],
  more: async () => {
    h2Backend = createH2Server();
    await new Promise<void>((resolve) => h2Backend.listen(0, '127.0.0.1', resolve));
    h2Port = (h2Backend.address() as AddressInfo).port;
    return `
[external_routes."h2c.test"]
to = ["127.0.0.1:${h2Port}"]
protocol = "h2c"
`;
  },
});

afterAll(() => new Promise<void>((resolve) => h2Backend.close(() => resolve())));

overTransports('an answer without a body ends at its blank line', (transport) => {
  // graygnuorg/pound#54, apache/trafficserver#271, sbstp/attohttpc#201: the proxy waited for a body that never came.
  it.each([
    ['HEAD', '200 OK', 'Transfer-Encoding: chunked', ''],
    ['HEAD', '200 OK', 'Content-Length: 1234', ''],
    ['HEAD', '200 OK', 'X-None: 1', ''],
    ['GET', '304 Not Modified', 'Transfer-Encoding: chunked', ''],
    ['GET', '304 Not Modified', 'Content-Length: 1234', ''],
    ['GET', '304 Not Modified', 'X-None: 1', ''],
    ['GET', '204 No Content', 'Content-Length: 3', ''],
    ['GET', '204 No Content', 'Content-Length: 3', 'abc'],
    ['GET', '204 No Content', 'Transfer-Encoding: chunked', '3\r\nabc\r\n0\r\n\r\n'],
    ['HEAD', '200 OK', 'Content-Length: 3', 'abc'],
  ])('%s → %s with %s%s', async (method, status, line, stray) => {
    f.app1.script = (exchange) => {
      if (exchange.target === '/second') exchange.ok('second');
      else exchange.reply(`HTTP/1.1 ${status}\r\n${line}\r\n\r\n${stray}`);
    };
    const requester = f.requester(transport);
    const started = performance.now();
    const first = await requester.request({ method, path: '/first' });
    expect(first.endAt - started).toBeLessThan(200);
    expect(first.status).toBe(Number(status.slice(0, 3)));
    expect(first.body.length).toBe(0);
    const second = await requester.request({ path: '/second' });
    expect(second.status).toBe(200);
    expect(second.body.toString()).toBe('second');
    if (stray !== '') {
      const [one, two] = f.app1.exchanges;
      expect(two!.connection, 'stray bytes discard the backend socket').not.toBe(one!.connection);
    }
    if (status.startsWith('204')) expect(valuesOf(first.lines, 'content-length')).toEqual([]);
    if (method === 'HEAD' && line.endsWith('1234')) expect(valuesOf(first.lines, 'content-length')).toEqual(['1234']);
  });
});

overTransports('a backend that dies within its answer', (transport) => {
  // caddyserver/caddy#7845, therealaleph/MasterHttpRelayVPN-RUST#48, h2o/h2o#725: a short body looked complete.
  it.each([
    ['a FIN after the head', '500 Oops', 123, '', 'fin'],
    ['a FIN within the body', '200 OK', 10, 'abc', 'fin'],
    ['a reset within the body', '200 OK', 10, 'abc', 'reset'],
  ] as const)('%s is seen as cut', async (_name, status, length, sent, how) => {
    f.app1.script = (exchange) => {
      exchange.send(`HTTP/1.1 ${status}\r\nX-Mark: m\r\nContent-Length: ${length}\r\n\r\n${sent}`);
      setTimeout(() => (how === 'fin' ? exchange.connection.fin() : exchange.connection.reset()), 30);
    };
    const started = performance.now();
    const answer = await f.requester(transport).request({ timeoutMs: 3000 });
    expect(answer.endAt - started).toBeLessThan(1000);
    if (answer.status === 502) {
      // Nothing had been sent yet: a whole error answer is right, too.
      expect(answer.complete).toBe(true);
      return;
    }
    expect(answer.status).toBe(Number(status.slice(0, 3)));
    expect(valuesOf(answer.lines, 'x-mark')).toEqual(['m']);
    expect(valuesOf(answer.lines, 'content-length')).toEqual([String(length)]);
    expect(answer.body.toString()).toBe(sent);
    expect(answer.complete, 'the client must see that it is incomplete').toBe(false);
    if (isH2(transport)) expect(answer.resetCode).not.toBeNull();
  });

  it('a chunked body without its end is seen as cut', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n');
      setTimeout(() => exchange.connection.fin(), 30);
    };
    const answer = await f.requester(transport).request({ timeoutMs: 3000 });
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toBe('abc');
    expect(answer.complete).toBe(false);
  });

  it('a malformed chunk is seen as cut, and nothing behind it is relayed', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n');
      setTimeout(() => exchange.send('1zz\r\nsecret\r\n0\r\n\r\n'), 30);
    };
    const answer = await f.requester(transport).request({ timeoutMs: 3000 });
    expect(answer.body.toString()).toBe('abc');
    expect(answer.complete).toBe(false);
    await until('the backend socket to be dropped', () => f.app1.open.length === 0);
  });

  it('a body that ends with the connection is whole', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\n\r\nabc');
      setTimeout(() => exchange.send('def'), 50);
      setTimeout(() => exchange.connection.fin(), 60);
    };
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toBe('abcdef');
    expect(answer.complete).toBe(true);
  });

  it('a body that ends with a reset is not', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\n\r\nabc');
      setTimeout(() => exchange.connection.reset(), 50);
    };
    const answer = await f.requester(transport).request({ timeoutMs: 3000 });
    expect(answer.complete && answer.status === 200).toBe(false);
  });

  it('the access log says that it was cut', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc');
      setTimeout(() => exchange.connection.fin(), 30);
    };
    const path = `/cut-${transport}`;
    await f.requester(transport).request({ path, timeoutMs: 3000 });
    const line = await until('the log line', () => f.p.accessLog.find((each) => each['path'] === path));
    expect(JSON.stringify(line)).toContain('upstream');
  });
});

overTransports('a backend that dies without an answer', (transport) => {
  it.each(['fin', 'reset'] as const)('by %s makes it 502', async (how) => {
    f.app1.script = (exchange) => (how === 'fin' ? exchange.connection.fin() : exchange.connection.reset());
    const answer = await f.requester(transport).request({ method: 'POST', body: 'x' });
    expect(answer.status).toBe(502);
    expect(answer.complete).toBe(true);
  });

  it.each([
    ['not HTTP', 'SSH-2.0-OpenSSH_9.2\r\n\r\n'],
    ['both framings', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!'],
    ['an odd transfer coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'],
    ['xchunked', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\nok'],
    ['an unasked 101', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: Upgrade\r\n\r\n'],
    ['a folded line', 'HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 2\r\n\r\nok'],
  ])('with %s makes it 502 and drops the socket', async (_name, bytes) => {
    f.app1.script = (exchange) => void exchange.send(bytes);
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(502);
    await until('the backend socket to be dropped', () => f.app1.open.length === 0);
  });
});

overTransports('trailers of an answer', (transport) => {
  // golang/go#20437, coupergateway/couper#968, traefik/traefik#4181: gRPC's status travels in unannounced trailers.
  const fromH1 = (): void => {
    f.app1.script = (exchange) =>
      exchange.reply(
        'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n0\r\ngrpc-status: 0\r\nx-sum: 9\r\n\r\n',
      );
  };

  it('of an HTTP/1.1 backend reach who accepts them', async () => {
    fromH1();
    const answer = await f.requester(transport).request({ lines: [['TE', 'trailers'], ...connectionTe(transport)] });
    expect(answer.body.toString()).toBe('data');
    expect(answer.complete).toBe(true);
    expect(valuesOf(answer.trailers, 'grpc-status')).toEqual(['0']);
    expect(valuesOf(answer.trailers, 'x-sum')).toEqual(['9']);
    expect(valuesOf(answer.lines, 'x-sum')).toEqual([]);
  });

  it('never damage the framing for who does not', async () => {
    fromH1();
    const requester = f.requester(transport);
    const answer = await requester.request();
    expect(answer.body.toString()).toBe('data');
    expect(answer.complete).toBe(true);
    expect(valuesOf(answer.lines, 'x-sum')).toEqual([]);
    f.app1.script = (exchange) => exchange.ok('next');
    expect((await requester.request()).body.toString()).toBe('next');
  });

  it('may not carry framing, routing or connection fields', async () => {
    f.app1.script = (exchange) =>
      exchange.reply(
        'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n0\r\nContent-Length: 9\r\nSet-Cookie: a=1\r\n' +
          'Connection: close\r\nx-sum: 9\r\n\r\n',
      );
    const answer = await f.requester(transport).request({ lines: [['TE', 'trailers'], ...connectionTe(transport)] });
    for (const name of ['content-length', 'connection', 'set-cookie']) {
      expect(valuesOf(answer.trailers, name), name).toEqual([]);
    }
  });

  it('of an HTTP/2 backend reach who accepts them', async () => {
    h2Backend.removeAllListeners('stream');
    h2Backend.once('stream', (stream) => {
      (stream as ServerHttp2Stream).respond({ ':status': 200 }, { waitForTrailers: true });
      stream.on('wantTrailers', () => (stream as ServerHttp2Stream).sendTrailers({ 'grpc-status': '0', 'x-sum': '9' }));
      stream.end('data');
    });
    const answer = await f
      .requester(transport)
      .request({ host: 'h2c.test', lines: [['TE', 'trailers'], ...connectionTe(transport)] });
    expect(answer.body.toString()).toBe('data');
    expect(answer.complete).toBe(true);
    expect(valuesOf(answer.trailers, 'grpc-status')).toEqual(['0']);
    expect(valuesOf(answer.trailers, 'x-sum')).toEqual(['9']);
  });

  it.each([0, 8])('an HTTP/2 backend that resets with code %i within the body is seen as cut', async (code) => {
    h2Backend.removeAllListeners('stream');
    h2Backend.once('stream', (stream) => {
      stream.on('error', () => {});
      (stream as ServerHttp2Stream).respond({ ':status': 200, 'content-length': '10' });
      stream.write('abc');
      setTimeout(() => stream.close(code), 50);
    });
    const answer = await f.requester(transport).request({ host: 'h2c.test', timeoutMs: 3000 });
    expect(answer.complete && answer.status === 200).toBe(false);
  });
});

overTransports('trailers of a request', (transport) => {
  it('reach the backend', async () => {
    const live = await f.requester(transport).open({ method: 'POST', lines: [['Trailer', 'x-sum']] });
    await live.send('data');
    live.end([['x-sum', '9']]);
    expect((await live.answer()).status).toBe(200);
    expect(f.app1.last.body.toString()).toBe('data');
    expect(valuesOf(f.app1.last.trailers, 'x-sum')).toEqual(['9']);
  });
});

overTransports('interim answers', (transport) => {
  // fpco/http-reverse-proxy#44, caddyserver/caddy#5074, #6041, envoyproxy/envoy#25881
  it('a 103 reaches the client before the final answer, and its Link does not stick', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n');
      setTimeout(() => exchange.send('HTTP/1.1 103 Early Hints\r\nLink: </b.css>; rel=preload\r\n\r\n'), 200);
      setTimeout(() => exchange.ok('done'), 400);
    };
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toBe('done');
    expect(answer.interim.map((each) => each.status)).toEqual([103, 103]);
    expect(answer.interim.map((each) => valuesOf(each.lines, 'link'))).toEqual([
      ['</a.css>; rel=preload'],
      ['</b.css>; rel=preload'],
    ]);
    expect(answer.headAt - answer.interim[0]!.at).toBeGreaterThan(300);
    expect(valuesOf(answer.lines, 'link')).toEqual([]);
  });

  it('without end are cut off with 502', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(20_000));
      exchange.ok('never');
    };
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(502);
    expect(answer.interim.length).toBeLessThan(1000);
  });

  it('an unasked 100 is no final answer', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 100 Continue\r\n\r\n');
      setTimeout(() => exchange.ok('done'), 50);
    };
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toBe('done');
  });
});

describe('interim answers and HTTP/1.0', () => {
  it('the client gets the final answer only', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n');
      setTimeout(() => exchange.ok('done'), 50);
    };
    const client = await f.plain();
    const answer = await client.ask(requestHead('GET', '/', [['Host', 'app1.test']], '1.0'));
    expect(answer.interim).toEqual([]);
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toBe('done');
  });
});

describe('a pooled backend socket', () => {
  it('that speaks while idle is discarded, and its words are never an answer', async () => {
    const requester = f.requester('h1');
    f.app1.script = (exchange) => {
      exchange.ok('first');
      setTimeout(() => exchange.connection.send('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'), 30);
    };
    expect((await requester.request()).body.toString()).toBe('first');
    await until('the socket to be dropped', () => f.app1.open.length === 0);
    f.app1.script = (exchange) => exchange.ok('second');
    expect((await requester.request()).body.toString()).toBe('second');
  });
});

/** HTTP/1.1 names TE in Connection (RFC 9110 §10.1.4); HTTP/2 has no Connection. */
function connectionTe(transport: Parameters<typeof isH2>[0]): [string, string][] {
  return isH2(transport) ? [] : [['Connection', 'TE']];
}
