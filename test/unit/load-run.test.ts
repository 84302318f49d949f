import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createH2Server, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server as TcpServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { TestCa } from '../support/certificates.ts';
import { run } from '../support/command.ts';
import { acceptFor, decodeWsFrames, encodeWsFrame, Opcode } from '../support/websocket-frames.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

async function listening<S extends TcpServer | Server | Http2Server>(server: S): Promise<number> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  closers.push(() => {
    server.close();
    if ('closeAllConnections' in server) server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

const http = (listener: RequestListener): Promise<number> => listening(createServer(listener));

async function bench(...argv: string[]) {
  const { code, out, err } = await run(['bench', ...argv, '--json'], '/');
  return { code, err, report: code === 2 ? null : JSON.parse(out) };
}

describe('closed loop', () => {
  test('counts what the target counted, by status, with the bytes of the bodies', async () => {
    let seen = 0;
    const port = await http((request, response) => {
      seen++;
      request.resume();
      response.writeHead(seen % 2 === 0 ? 200 : 302, { 'content-length': 5 }).end('hello');
    });
    const { code, report } = await bench(`http://127.0.0.1:${port}/`, '--connections', '4', '--duration', '300ms');
    expect(code).toBe(0);
    expect(report.answered).toBe(seen);
    expect(report.begun).toBe(seen);
    expect(report.classes['2xx'] + report.classes['3xx']).toBe(seen);
    expect(report.bytesIn).toBe(5 * seen);
    expect(report.connections).toBe(4);
    expect(report.failed).toBe(0);
    expect(report.latency.count).toBe(seen);
  });

  test('sends method, fields, target and body as asked', async () => {
    const requests: string[] = [];
    const port = await http((request, response) => {
      let body = '';
      request.on('data', (chunk) => (body += chunk));
      request.on('end', () => {
        requests.push(`${request.method} ${request.url} ${request.headers['x-key']} ${request.headers.host} ${body}`);
        response.end();
      });
    });
    const url = `http://app.test/path?q=1`;
    await bench(
      url,
      '--connect',
      `127.0.0.1:${port}`,
      '--connections',
      '1',
      '--duration',
      '50ms',
      '--header',
      'X-Key: v',
      '--body',
      'abc',
    );
    expect(new Set(requests)).toEqual(new Set(['POST /path?q=1 v app.test abc']));
  });

  test('a target that closes after each answer costs a connection each and nothing else', async () => {
    const port = await http((_, response) => response.setHeader('connection', 'close').end('x'));
    const { report } = await bench(`http://127.0.0.1:${port}/`, '--connections', '2', '--duration', '200ms');
    expect(report.failed).toBe(0);
    expect(report.connections).toBeGreaterThanOrEqual(report.answered);
  });

  test('answers of 4xx and 5xx have failed, and --strict says so by its exit code', async () => {
    const port = await http((_, response) => response.writeHead(503).end());
    const loose = await bench(`http://127.0.0.1:${port}/`, '--connections', '1', '--duration', '50ms');
    expect(loose.code).toBe(0);
    expect(loose.report.failed).toBe(loose.report.answered);
    const strict = await bench(`http://127.0.0.1:${port}/`, '--connections', '1', '--duration', '50ms', '--strict');
    expect(strict.code).toBe(1);
  });

  test('a port where nobody listens is refused, over and over, and the exit code is 1', async () => {
    const server = createTcpServer();
    const port = await listening(server);
    server.close();
    const { code, report } = await bench(`http://127.0.0.1:${port}/`, '--connections', '2', '--duration', '100ms');
    expect(code).toBe(1);
    expect(report.answered).toBe(0);
    expect(report.errors).toEqual({ refused: report.begun });
    expect(report.begun).toBeLessThan(40);
  });

  test('answers that are cut short, malformed or missing are told apart', async () => {
    const texts = ['HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc', 'HTTP/1.1 OK\r\n\r\n', ''];
    let turn = 0;
    const server = createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.end(texts[turn++ % 3]!));
    });
    const port = await listening(server);
    const { report } = await bench(`http://127.0.0.1:${port}/`, '--connections', '1', '--duration', '150ms');
    expect(Object.keys(report.errors)).toEqual(['cut short', 'malformed', 'reset']);
    expect(report.answered).toBe(0);
  });

  test('a request without an answer in time is a timeout, and its late answer belongs to nobody', async () => {
    let count = 0;
    const port = await http((_, response) => {
      if (++count === 1) setTimeout(() => response.end('late'), 300);
      else response.end('x');
    });
    const { report } = await bench(
      `http://127.0.0.1:${port}/`,
      '--connections',
      '1',
      '--duration',
      '500ms',
      '--timeout',
      '100ms',
    );
    expect(report.errors).toEqual({ timeout: 1 });
    expect(report.answered).toBe(report.begun - 1);
    expect(report.bytesIn).toBe(report.answered);
  });
});

describe('open loop', () => {
  test('begins as many requests as the rate says', async () => {
    const port = await http((_, response) => response.end('x'));
    const { report } = await bench(
      `http://127.0.0.1:${port}/`,
      '--connections',
      '5',
      '--duration',
      '500ms',
      '--rate',
      '200',
    );
    expect(report.begun + report.unsent).toBe(100);
    expect(report.answered).toBe(report.begun);
  });

  test('a target that stalls cannot hide the requests it kept from being sent', async () => {
    // One connection, one stall of 400 ms in a second of 100/s: about 40 requests were due while it lasted.
    let count = 0;
    const port = await http((_, response) => {
      if (++count === 30) setTimeout(() => response.end('x'), 400);
      else response.end('x');
    });
    const { report } = await bench(
      `http://127.0.0.1:${port}/`,
      '--connections',
      '1',
      '--duration',
      '1s',
      '--rate',
      '100',
    );
    // Counted from when each was sent, only one of a hundred would be slow and the 75th percentile small.
    expect(report.latency.percentiles['75']).toBeGreaterThan(50_000);
    expect(report.failed).toBe(0);
  });

  test('requests that were never sent are told, and fail a strict run', async () => {
    const port = await http((_, response) => setTimeout(() => response.end('x'), 100));
    const argv = ['--connections', '1', '--duration', '500ms', '--rate', '100', '--strict'];
    const { code, report } = await bench(`http://127.0.0.1:${port}/`, ...argv);
    expect(code).toBe(1);
    expect(report.unsent).toBe(50 - report.begun);
    expect(report.unsent).toBeGreaterThan(30);
    expect(report.failed).toBe(report.unsent);
  });
});

describe('HTTP/2', () => {
  test('keeps its streams busy on the connections it was given, and takes resets for failures', async () => {
    let seen = 0;
    let widest = 0;
    let open = 0;
    const server = createH2Server();
    server.on('stream', (stream: ServerHttp2Stream) => {
      seen++;
      widest = Math.max(widest, ++open);
      stream.on('close', () => open--);
      stream.on('error', () => {});
      if (seen === 5) stream.close(2);
      else
        setTimeout(() => {
          stream.respond({ ':status': 200 });
          stream.end('hello');
        }, 5);
    });
    const port = await listening(server);
    const { report } = await bench(
      `http://127.0.0.1:${port}/`,
      '--h2',
      '--connections',
      '2',
      '--streams',
      '3',
      '--duration',
      '300ms',
    );
    expect(report.begun).toBe(seen);
    expect(report.errors).toEqual({ reset: 1 });
    expect(report.answered).toBe(seen - 1);
    expect(report.connections).toBe(2);
    expect(widest).toBe(6);
  });
});

describe('TLS', () => {
  const ca = new TestCa('load');
  const pair = ca.leaf(['load.test']);

  async function https(): Promise<number> {
    const server = createHttpsServer({ cert: pair.cert, key: pair.key }, (_, response) => response.end('x'));
    return listening(server);
  }

  test('trusts the issuer it was given, for the name in the URL', async () => {
    const port = await https();
    const to = ['--connect', `127.0.0.1:${port}`, '--connections', '1', '--duration', '100ms'];
    const trusted = await bench('https://load.test/', ...to, '--ca', ca.file);
    expect(trusted.report.failed).toBe(0);
    expect(trusted.report.answered).toBeGreaterThan(0);
    const wrongName = await bench('https://other.test/', ...to, '--ca', ca.file);
    expect(wrongName.report.errors).toEqual({ 'tls: ERR_TLS_CERT_ALTNAME_INVALID': wrongName.report.begun });
  });

  test('an issuer nobody vouched for is refused unless --insecure', async () => {
    const port = await https();
    const to = ['--connect', `127.0.0.1:${port}`, '--connections', '1', '--duration', '100ms'];
    const refused = await bench('https://load.test/', ...to);
    expect(refused.code).toBe(1);
    expect(Object.keys(refused.report.errors).join()).toMatch(/^tls: /);
    expect((await bench('https://load.test/', ...to, '--insecure')).report.failed).toBe(0);
  });
});

describe('WebSocket', () => {
  async function echo(answer: (message: Buffer) => Buffer, accept = acceptFor): Promise<number> {
    const server = createServer();
    server.on('upgrade', (request, socket) => {
      const key = String(request.headers['sec-websocket-key']);
      socket.on('error', () => {});
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept(key)}\r\n\r\n`,
      );
      let rest: Buffer = Buffer.alloc(0);
      socket.on('data', (chunk: Buffer) => {
        const decoded = decodeWsFrames(Buffer.concat([rest, chunk]));
        rest = decoded.rest;
        for (const frame of decoded.frames) socket.write(answer(frame.payload));
      });
      closers.push(() => socket.destroy());
    });
    return listening(server);
  }

  test('counts the messages that come back', async () => {
    let seen = 0;
    const port = await echo((message) => {
      seen++;
      return encodeWsFrame(Opcode.Binary, message);
    });
    const { report } = await bench(
      `ws://127.0.0.1:${port}/`,
      '--connections',
      '3',
      '--duration',
      '200ms',
      '--size',
      '200B',
    );
    expect(report.answered).toBe(seen);
    expect(report.connections).toBe(3);
    expect(report.bytesIn).toBe(204 * seen);
    expect(report.failed).toBe(0);
  });

  test('a handshake with the wrong answer, a refusal and a close are failures', async () => {
    const wrong = await echo(
      (message) => message,
      () => 'wrong',
    );
    expect(
      Object.keys((await bench(`ws://127.0.0.1:${wrong}/`, '--connections', '1', '--duration', '50ms')).report.errors),
    ).toEqual(['wrong handshake']);
    const refusing = await http((_, response) => response.writeHead(403).end());
    expect(
      Object.keys(
        (await bench(`ws://127.0.0.1:${refusing}/`, '--connections', '1', '--duration', '50ms')).report.errors,
      ),
    ).toEqual(['answered 403 to the handshake']);
    const closing = await echo(() => encodeWsFrame(Opcode.Close, ''));
    expect(
      Object.keys(
        (await bench(`ws://127.0.0.1:${closing}/`, '--connections', '1', '--duration', '50ms')).report.errors,
      ),
    ).toEqual(['closed by the target']);
  });
});

describe('UDP', () => {
  async function echo(answer: (socket: DatagramSocket, message: Buffer, port: number) => void): Promise<number> {
    const socket = createSocket('udp4');
    socket.on('message', (message, { port }) => answer(socket, message, port));
    await new Promise<void>((done) => socket.bind(0, '127.0.0.1', done));
    closers.push(() => socket.close());
    return socket.address().port;
  }

  test('counts datagrams that come back, whole and in turn', async () => {
    let seen = 0;
    const port = await echo((socket, message, to) => {
      seen++;
      socket.send(message, to);
    });
    const { report } = await bench(
      `udp://127.0.0.1:${port}`,
      '--connections',
      '2',
      '--duration',
      '200ms',
      '--size',
      '100B',
    );
    expect(report.answered).toBe(seen);
    expect(report.bytesIn).toBe(100 * seen);
  });

  test('a lost one is a timeout; one that comes twice or late is no second answer', async () => {
    let seen = 0;
    const port = await echo((socket, message, to) => {
      if (++seen === 2) return;
      socket.send(message, to);
      socket.send(message, to);
    });
    const { report } = await bench(
      `udp://127.0.0.1:${port}`,
      '--connections',
      '1',
      '--duration',
      '400ms',
      '--timeout',
      '100ms',
    );
    expect(report.errors).toEqual({ timeout: 1 });
    expect(report.answered).toBe(seen - 1);
  });
});

describe('the command', () => {
  test('tells people in a few lines, with progress beside it', async () => {
    const port = await http((_, response) => response.end('hello'));
    const { code, out, err } = await run(
      ['bench', `http://127.0.0.1:${port}/`, '--duration', '1100ms', '--connections', '1'],
      '/',
    );
    expect(code).toBe(0);
    expect(out).toMatch(
      /1\.1 s, 1 connection, closed loop\n {2}requests +\d+ begun, \d+ answered, \d+\/s, none failed\n/,
    );
    expect(out).toMatch(/ {2}latency +p50 .* p99\.9 .* max /);
    expect(err).toMatch(/1 s {2}\d+ answered, \d+\/s, p50 /);
  });

  test.each([
    ['ftp://a.test/', [], 'a URL with http, https, ws, wss or udp'],
    ['udp://a.test', [], 'udp needs a port'],
    ['http://a.test/', ['--connections', '0'], '--connections 0: a whole number from 1'],
    ['http://a.test/', ['--duration', '10'], '--duration 10: a duration such as 30s'],
    ['http://a.test/', ['--rate', 'fast'], '--rate fast: a whole number'],
    ['http://a.test/', ['--connect', 'here'], '--connect here: HOST:PORT is accepted'],
    ['http://a.test/', ['--header', 'no colon'], '--header no colon: "Name: value" is accepted'],
    ['http://a.test/', ['--body', 'x', '--size', '1KiB'], 'Either --body or --size'],
    ['http://a.test/', ['--body', '@/nowhere/file'], '--body @/nowhere/file:'],
    ['ws://a.test/', ['--h2'], '--h2 goes with http:// and https:// only'],
    ['udp://a.test:1', ['--size', '7B'], 'A datagram has 8 to 65507 bytes here, not 7'],
  ])('%s %j is wrong usage: %s', async (url, argv, message) => {
    const { code, err } = await run(['bench', url, ...argv], '/');
    expect(code).toBe(2);
    expect(err).toContain(message);
  });
});
