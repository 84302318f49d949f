// WebSocket over HTTP/1.1 and over HTTP/2 (RFC 8441): handshakes, refusals, early bytes, ends.
import { describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { H2Connection, Setting } from '../support/h2-frames.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { fieldValue, RawClient } from '../support/raw-client.ts';
import { valuesOf } from '../support/recorder.ts';
import { isH2, overTransports, type Transport, upgradeStatus } from '../support/transports.ts';
import { sleep, until } from '../support/wait.ts';
import {
  acceptHandshake,
  echoScript,
  encodeWsFrame,
  extendedConnect,
  H2Tunnel,
  handshake,
  Opcode,
  sampleKey,
} from '../support/websocket-frames.ts';

const f = useProxy({ limits: 'backend_head_timeout = "1500ms"\nstream_idle_timeout = "3s"' });

const h1Transports: readonly Transport[] = ['h1', 'h1+tls'];
const h2Transports: readonly Transport[] = ['h2', 'h2c'];
const hello = encodeWsFrame(Opcode.Text, 'hi', { mask: true });

overTransports('a WebSocket', (transport) => {
  it('opens, carries frames both ways and ends together', async () => {
    f.app1.script = echoScript;
    const { answer, tunnel } = await f.requester(transport).webSocket();
    expect(answer.status).toBe(upgradeStatus(transport));
    tunnel.send(hello);
    tunnel.send(encodeWsFrame(Opcode.Binary, Buffer.alloc(100_000, 7), { mask: true }));
    const frames = await tunnel.waitForFrames(2);
    expect(frames[0]!.payload.toString()).toBe('hi');
    expect(frames[1]!.payload.equals(Buffer.alloc(100_000, 7))).toBe(true);
    tunnel.send(encodeWsFrame(Opcode.Close, Buffer.of(0x03, 0xe8), { mask: true }));
    expect((await tunnel.waitForFrames(3))[2]!.code).toBe(1000);
    await tunnel.waitForEnd();
    await until('the backend socket to close', () => f.app1.open.length === 0);
  });

  it('asks the backend with exactly one Upgrade and one Connection token', async () => {
    f.app1.script = echoScript;
    await f.requester(transport).webSocket({ lines: [['Sec-WebSocket-Protocol', 'chat, superchat']] });
    const { last } = f.app1;
    expect(last.method).toBe('GET');
    expect(last.values('upgrade').map((each) => each.toLowerCase())).toEqual(['websocket']);
    expect(last.values('connection').map((each) => each.toLowerCase())).toEqual(['upgrade']);
    expect(last.values('sec-websocket-key').length).toBe(1);
    expect(last.values('sec-websocket-version')).toEqual(['13']);
    expect(last.values('sec-websocket-protocol')).toEqual(['chat, superchat']);
    expect(last.values('host')).toEqual(['app1.test']);
    expect(last.values('x-forwarded-for')).toEqual(['127.0.0.1']);
    expect(last.values('content-length').concat(last.values('transfer-encoding'))).toEqual([]);
    if (isH2(transport)) expect(last.value('sec-websocket-key')).not.toBe(sampleKey);
  });
});

overTransports('a handshake that the backend refuses', (transport) => {
  // sagemathinc/http-proxy-3#26, http-party/node-http-proxy#783, #708: neither forwarded nor closed; ports ran out.
  it.each([
    ['401', 'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 20\r\n\r\n01234567890123456789'],
    ['302', 'HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n'],
    ['200', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n'],
    ['403', 'HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno'],
  ])('with %s reaches the client as it is', async (status, bytes) => {
    f.app1.script = (exchange) => exchange.reply(bytes);
    for (let i = 0; i < 25; i++) {
      const { answer, tunnel } = await f.requester(transport).webSocket();
      if (status === '200' && isH2(transport)) {
        // To an extended CONNECT every 2xx means "accepted" (RFC 9110 §9.3.6): it must not be taken for that.
        expect(answer.status).toBe(502);
        continue;
      }
      expect(answer.status).toBe(Number(status));
      if (status === '401') {
        expect(answer.body.toString()).toBe('01234567890123456789');
        expect(fieldValue(answer, 'www-authenticate')).toBe('Bearer');
      }
      if (status === '200') expect(answer.body.toString()).toBe('hello');
      if (status === '302') expect(fieldValue(answer, 'location')).toBe('/login');
      expect(answer.complete).toBe(true);
      tunnel.reset();
    }
    await until('backend sockets to be closed or idle', () => f.app1.open.length <= 2);
  });

  it('by a FIN is 502', async () => {
    f.app1.script = (exchange) => exchange.connection.fin();
    const { answer } = await f.requester(transport).webSocket();
    expect(answer.status).toBe(502);
  });

  it('by silence is 504', async () => {
    f.app1.script = () => {};
    const { answer } = await f.requester(transport).webSocket();
    expect(answer.status).toBe(504);
    await until('the backend socket to close', () => f.app1.open.length === 0);
  });

  it('by a 101 for something else is 502, and so is a wrong accept for a key of ours', async () => {
    if (isH2(transport)) {
      f.app1.script = (exchange) =>
        void exchange.send(
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: d3Jvbmc=\r\n\r\n',
        );
      expect((await f.requester(transport).webSocket()).answer.status).toBe(502);
    }
    f.app1.script = (exchange) =>
      void exchange.send('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n');
    expect((await f.requester(transport).webSocket()).answer.status).toBe(502);
  });
});

overTransports('bytes that come with the handshake', (transport) => {
  // http-party/node-http-proxy#473, hodfords-solutions/nestjs-api-gateway#36, h2o/h2o#1276, nodejs/node#17789
  it('of the backend reach the client', async () => {
    f.app1.script = (exchange) => {
      exchange.reply(
        Buffer.concat([Buffer.from(acceptHandshake(exchange), 'latin1'), encodeWsFrame(Opcode.Text, 'hi')]),
      );
    };
    const { answer, tunnel } = await f.requester(transport).webSocket();
    expect(answer.status).toBe(upgradeStatus(transport));
    const frames = await tunnel.waitForFrames(1);
    expect(frames.map((each) => each.payload.toString())).toEqual(['hi']);
  });

  it('of the backend, split at every byte around the blank line, reach the client once', async () => {
    const frame = encodeWsFrame(Opcode.Text, 'hi');
    for (let split = -6; split <= 4; split++) {
      f.app1.script = (exchange) => {
        const bytes = Buffer.concat([Buffer.from(acceptHandshake(exchange), 'latin1'), frame]);
        const at = bytes.length - frame.length + split;
        exchange.reply(bytes.subarray(0, at));
        setTimeout(() => exchange.send(bytes.subarray(at)), 5);
      };
      const { tunnel } = await f.requester(transport).webSocket();
      await tunnel.waitForFrames(1);
      expect(tunnel.received.equals(frame), `split ${split}`).toBe(true);
      tunnel.reset();
    }
  });

  it('of the client wait for the 101 and then reach the backend once, in order', async () => {
    const second = encodeWsFrame(Opcode.Text, 'second', { mask: true });
    f.app1.script = (exchange) => {
      setTimeout(() => exchange.reply(acceptHandshake(exchange)), 300);
    };
    if (isH2(transport)) {
      const connection = await f.requester(transport).h2();
      const stream = connection.open(extendedConnect('app1.test'), { endStream: false });
      await stream.send(Buffer.concat([hello, second]));
      await stream.head();
      expect(new H2Tunnel(stream).ended).toBe(false);
    } else {
      const client = await f.raw(transport);
      client.write(Buffer.concat([Buffer.from(handshake('app1.test'), 'latin1'), hello, second]));
      expect((await client.readAnswer()).status).toBe(101);
    }
    const exchange = f.app1.last;
    await until('the frames', () => exchange.connection.raw.length >= hello.length + second.length);
    expect(exchange.connection.raw.equals(Buffer.concat([hello, second]))).toBe(true);
  });

  it('of the client are dropped, not parsed, when the answer is no 101', async () => {
    f.app1.script = (exchange) => {
      if (exchange.target !== '/ws') exchange.ok('never');
      else setTimeout(() => exchange.reply('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno'), 100);
    };
    const smuggled = Buffer.from('GET /smuggled HTTP/1.1\r\nHost: app1.test\r\n\r\n');
    if (isH2(transport)) {
      const connection = await f.requester(transport).h2();
      const stream = connection.open(extendedConnect('app1.test'), { endStream: false });
      await stream.send(smuggled);
      await stream.head();
      expect(stream.status).toBe(403);
    } else {
      const client = await f.raw(transport);
      client.write(Buffer.concat([Buffer.from(handshake('app1.test'), 'latin1'), smuggled]));
      expect((await client.readAnswer()).status).toBe(403);
    }
    await sleep(200);
    expect(f.app1.exchanges.map((each) => each.target)).toEqual(['/ws']);
    expect(f.app1.text).not.toContain('/smuggled');
  });

  it('a 101 with a stray Transfer-Encoding is still only a tunnel', async () => {
    f.app1.script = (exchange) => {
      const head = acceptHandshake(exchange, 'Transfer-Encoding: chunked\r\n');
      exchange.reply(Buffer.concat([Buffer.from(head, 'latin1'), encodeWsFrame(Opcode.Text, 'hi')]));
    };
    const { answer, tunnel } = await f.requester(transport).webSocket();
    // A 101 has no content (RFC 9112 §6.1); refusing such a backend is as right as ignoring the field.
    if (answer.status === 502) return;
    expect(answer.status).toBe(upgradeStatus(transport));
    expect(valuesOf(answer.lines, 'transfer-encoding')).toEqual([]);
    expect((await tunnel.waitForFrames(1))[0]!.payload.toString()).toBe('hi');
  });
});

overTransports(
  'Connection and Upgrade are lists of tokens',
  (transport) => {
    // robaho/httpserver#12, stalwartlabs/stalwart#3178, tarasko/picows#115, processone/ejabberd#510
    const base = `Host: app1.test\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${sampleKey}\r\n`;

    it.each([
      ['Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n'],
      ['connection: upgrade\r\nupgrade: websocket\r\n'],
      ['Connection: keep-alive\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'],
      ['Connection: Upgrade\r\nUpgrade: WebSocket\r\n'],
    ])('%j opens a tunnel', async (lines) => {
      f.app1.script = echoScript;
      const client = await f.raw(transport);
      const answer = await client.ask(`GET /ws HTTP/1.1\r\n${base}${lines}\r\n`);
      expect(answer.status).toBe(101);
      expect(f.app1.last.values('upgrade').map((each) => each.toLowerCase())).toEqual(['websocket']);
      expect(f.app1.last.values('connection').map((each) => each.toLowerCase())).toEqual(['upgrade']);
    });

    it.each([
      ['GET', 'Upgrade: websocket\r\n'],
      ['GET', 'Connection: keep-alive\r\nUpgrade: websocket\r\n'],
      ['POST', 'Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n'],
      ['GET', 'Connection: Upgrade\r\nUpgrade: h2c\r\n'],
      ['GET', 'Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n'],
    ])('%s with %j is a plain request', async (method, lines) => {
      f.app1.script = (exchange) => exchange.ok('plain');
      const client = await f.raw(transport);
      const answer = await client.ask(`${method} /ws HTTP/1.1\r\n${base}${lines}\r\n`, { method });
      expect(answer.status).toBe(200);
      expect(answer.body.toString()).toBe('plain');
      expect(f.app1.last.values('upgrade')).toEqual([]);
      expect(f.app1.last.value('connection')?.toLowerCase() ?? '').not.toContain('upgrade');
    });

    it('without a key it is the backend that decides', async () => {
      f.app1.script = (exchange) => exchange.reply('HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nkey');
      const client = await f.raw(transport);
      const answer = await client.ask(
        'GET /ws HTTP/1.1\r\nHost: app1.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
      );
      expect(answer.status).toBe(400);
    });

    // golang/go#80416, dotnet/yarp#877, traefik/traefik#9341: the upgrade to h2c became a blind tunnel.
    it('an h2c upgrade is forwarded without its three fields, and its 101 is refused', async () => {
      f.app1.script = (exchange) => {
        if (exchange.values('upgrade').length > 0) {
          exchange.send('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n');
        } else exchange.ok('plain');
      };
      for (const lines of [
        'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n',
        'Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n',
      ]) {
        const client = await f.raw(transport);
        const answer = await client.ask(`GET /public HTTP/1.1\r\nHost: app1.test\r\n${lines}\r\n`);
        expect([200, 400]).toContain(answer.status);
        for (const exchange of f.app1.exchanges) {
          expect(exchange.values('upgrade').concat(exchange.values('http2-settings'))).toEqual([]);
        }
      }
    });
  },
  h1Transports,
);

overTransports(
  'a WebSocket over HTTP/2',
  (transport) => {
    // vercel-labs/portless#363, unjs/httpxy#150: the page came over h2, then wss on the same connection failed.
    it('is announced', async () => {
      const connection = await f.requester(transport).h2();
      expect(connection.settings.get(Setting.EnableConnectProtocol)).toBe(1);
    });

    it('of another protocol is refused cleanly', async () => {
      const connection = await f.requester(transport).h2();
      const stream = connection.open(extendedConnect('app1.test', '/ws', [], 'foo'), { endStream: false });
      const answer = await stream.answer();
      expect([400, 405, 501]).toContain(answer.status);
      expect(f.app1.exchanges.length).toBe(0);
    });

    it('by a plain CONNECT is refused', async () => {
      const connection = await f.requester(transport).h2();
      const stream = connection.open(
        [
          [':method', 'CONNECT'],
          [':authority', 'app1.test:443'],
        ],
        { endStream: false },
      );
      const outcome = await stream.answer().then(
        (answer) => answer.status,
        () => 'reset',
      );
      expect([405, 400, 'reset']).toContain(outcome);
      expect(f.app1.exchanges.length).toBe(0);
    });

    it('ends with END_STREAM when the backend ends with FIN', async () => {
      f.app1.script = echoScript;
      const { tunnel } = await f.requester(transport).webSocket();
      tunnel.send(hello);
      await tunnel.waitForFrames(1);
      f.app1.last.connection.fin();
      await tunnel.waitForEnd();
      expect((tunnel as H2Tunnel).stream.ended).toBe(true);
    });

    it('goes beside ordinary requests on one connection', async () => {
      f.app1.script = (exchange) => {
        if (exchange.target === '/ws') echoScript(exchange);
        else exchange.ok('page');
      };
      const requester = f.requester(transport);
      const { tunnel } = await requester.webSocket();
      expect((await requester.request({ path: '/page' })).body.toString()).toBe('page');
      tunnel.send(hello);
      await tunnel.waitForFrames(1);
    });
  },
  h2Transports,
);

describe('CONNECT over HTTP/1.1', () => {
  it.each(h1Transports)('is refused with 405 [%s]', async (transport) => {
    const client = await f.raw(transport);
    const answer = await client.ask('CONNECT app1.test:443 HTTP/1.1\r\nHost: app1.test:443\r\n\r\n', {
      method: 'GET',
    });
    expect(answer.status).toBe(405);
    expect(f.app1.exchanges.length).toBe(0);
  });
});

overTransports('a peer that vanishes', (transport) => {
  // http-party/node-http-proxy#559, #1510, #1223: one socket was closed, the other stayed.
  const count = 40;

  async function openTunnels(): Promise<Awaited<ReturnType<ReturnType<typeof f.requester>['webSocket']>>['tunnel'][]> {
    f.app1.script = echoScript;
    const requester = f.requester(transport);
    if (isH2(transport)) await requester.h2();
    return Promise.all(Array.from({ length: count }, async () => (await requester.webSocket()).tunnel));
  }

  it('by a reset of the client closes the backend socket', async () => {
    const tunnels = await openTunnels();
    expect(f.app1.open.length).toBe(count);
    for (const tunnel of tunnels) tunnel.reset();
    await until('the backend sockets to close', () => f.app1.open.length === 0, { timeoutMs: 1000 });
  });

  it('by a reset of the backend closes the client', async () => {
    const tunnels = await openTunnels();
    for (const connection of f.app1.connections) connection.reset();
    await until('the clients to see it', () => tunnels.every((tunnel) => tunnel.ended), { timeoutMs: 1000 });
  });

  it('by a FIN of the client passes the FIN on, and what the backend still says arrives', async () => {
    const tunnels = await openTunnels();
    f.app1.finOnFin = false;
    for (const tunnel of tunnels) {
      tunnel.send(hello);
      tunnel.fin();
    }
    if (transport !== 'h1+tls') {
      await until('the FIN at the backend', () => f.app1.connections.every((each) => each.finAt !== null), {
        timeoutMs: 1500,
      });
      await until('the echo', () => tunnels.every((tunnel) => tunnel.frames.length === 1));
    }
    for (const connection of f.app1.connections) connection.fin();
    await until('the tunnels to end', () => tunnels.every((tunnel) => tunnel.ended), { timeoutMs: 2000 });
    await until('the backend sockets to close', () => f.app1.open.length === 0, { timeoutMs: 2000 });
  });

  it('without a word is let go at the idle limit', { timeout: 15_000 }, async () => {
    const tunnels = await openTunnels();
    await until('the idle limit', () => tunnels.every((tunnel) => tunnel.ended), { timeoutMs: 6000 });
    await until('the backend sockets to close', () => f.app1.open.length === 0);
  });
});

describe('the ws library', () => {
  it('talks through the proxy in both roles, with compression', async () => {
    const server = new WebSocketServer({ noServer: true, perMessageDeflate: true });
    f.app1.script = (exchange) => {
      // The library takes the socket over as node:http would have handed it.
      const { socket } = exchange.connection;
      socket.removeAllListeners('data');
      const headers = Object.fromEntries(exchange.lines.map(([name, value]) => [name.toLowerCase(), value]));
      const request = { method: 'GET', url: exchange.target, headers, httpVersion: '1.1', socket };
      exchange.complete();
      server.handleUpgrade(request as never, socket, Buffer.alloc(0), (webSocket) => {
        webSocket.on('message', (data, isBinary) => webSocket.send(data, { binary: isBinary }));
      });
    };
    for (const scheme of ['ws', 'wss'] as const) {
      const port = scheme === 'ws' ? f.webPort : f.securePort;
      const client = new WebSocket(`${scheme}://127.0.0.1:${port}/ws`, {
        headers: { host: 'app1.test' },
        ca: f.ca.pem,
        perMessageDeflate: true,
        ...{ servername: 'app1.test' },
      });
      await new Promise<void>((resolve, reject) => {
        client.once('open', resolve);
        client.once('error', reject);
      });
      expect(client.extensions).toContain('permessage-deflate');
      const text = 'compress me '.repeat(2000);
      const echoed = new Promise<string>((resolve) => client.once('message', (data) => resolve(data.toString())));
      client.send(text);
      expect(await echoed).toBe(text);
      const closed = new Promise<number>((resolve) => client.once('close', resolve));
      client.close(1000);
      expect(await closed).toBe(1000);
    }
    server.close();
  });
});

describe('a WebSocket and reuse', () => {
  it('never puts its backend socket back into the pool', async () => {
    f.app1.script = echoScript;
    const { tunnel } = await f.requester('h1').webSocket();
    const webSocket = f.app1.last.connection;
    tunnel.fin();
    await tunnel.waitForEnd();
    f.app1.script = (exchange) => exchange.ok('plain');
    await f.requester('h1').request();
    expect(f.app1.last.connection).not.toBe(webSocket);
  });

  it('is opened on a fresh or a pooled backend socket alike', async () => {
    const client = await RawClient.connect({ port: f.webPort });
    await client.ask('GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n');
    f.app1.script = echoScript;
    client.write(handshake('app1.test'));
    expect((await client.readAnswer()).status).toBe(101);
    client.write(hello);
    await until('the echo', () => client.received.length > 0);
    expect(client.received.equals(encodeWsFrame(Opcode.Text, 'hi'))).toBe(true);
  });
});

describe('an HTTP/2 stream that carries a WebSocket', () => {
  it('obeys flow control: a client that stops reading stops the backend', async () => {
    f.app1.script = (exchange) => {
      exchange.reply(acceptHandshake(exchange));
      const frame = encodeWsFrame(Opcode.Binary, Buffer.alloc(60_000));
      const { socket } = exchange.connection;
      const more = (): void => {
        while (socket.writable && socket.write(frame));
        socket.once('drain', more);
      };
      more();
    };
    const connection = await H2Connection.connect({
      port: f.securePort,
      refill: false,
      tls: { servername: 'app1.test', ca: f.ca.pem },
    });
    const stream = connection.open(extendedConnect('app1.test'), { endStream: false });
    await stream.head();
    await until('the window to be used up', () => stream.size >= 65_535);
    await sleep(500);
    const { socket } = f.app1.last.connection;
    const taken = socket.bytesWritten - socket.writableLength;
    await sleep(300);
    expect(socket.bytesWritten - socket.writableLength).toBe(taken);
    expect(stream.size).toBe(65_535);
  });
});
