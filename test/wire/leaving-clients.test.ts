// Clients that leave in the middle, and peers that stop reading: nothing leaks, nothing is buffered without bound.
import { readdirSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { H2Connection } from '../support/h2-frames.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import type { Exchange } from '../support/recorder.ts';
import { isH2, isTls, overTransports, type Transport } from '../support/transports.ts';
import { residentSize } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

const f = useProxy({ limits: 'body_idle_timeout = "4s"' });

/** An answer without end at about 40 KiB/s. */
function endless(exchange: Exchange): void {
  exchange.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
  const chunk = `1000\r\n${'z'.repeat(4096)}\r\n`;
  const timer = setInterval(() => {
    if (exchange.connection.open) exchange.send(chunk);
    else clearInterval(timer);
  }, 100);
  exchange.connection.socket.once('close', () => clearInterval(timer));
}

async function workersDescriptors(): Promise<number> {
  const pids = await f.p.workerPids();
  return pids.reduce((sum, pid) => sum + readdirSync(`/proc/${pid}/fd`).length, 0);
}

overTransports('a client that leaves during a download', (transport) => {
  // http-party/node-http-proxy#1586, #1559, #158, nodejs/node#57946: the backend went on streaming.
  const clients = 50;

  async function openDownloads(
    requesters = Array.from({ length: 5 }, () => f.requester(transport)),
  ): Promise<(() => void)[]> {
    f.app1.script = endless;
    if (isH2(transport)) {
      const streams = await Promise.all(
        Array.from({ length: clients }, async (_each, i) => {
          const connection = await requesters[i % 5]!.h2();
          const stream = connection.open(H2Connection.request('GET', 'app1.test', `/d${i}`));
          await until('data', () => stream.size > 0);
          return stream;
        }),
      );
      return streams.map((stream) => () => stream.reset());
    }
    const raw = await Promise.all(
      Array.from({ length: clients }, async (_each, i) => {
        const client = await f.raw(transport);
        client.write(`GET /d${i} HTTP/1.1\r\nHost: app1.test\r\n\r\n`);
        await client.waitForText('zzzz');
        return client;
      }),
    );
    return raw.map((client) => () => client.reset());
  }

  it('by a reset frees its backend socket within a second', async () => {
    const leave = await openDownloads();
    expect(f.app1.open.length).toBe(clients);
    for (const each of leave) each();
    await until('the backend sockets to close', () => f.app1.open.length === 0, { timeoutMs: 1000 });
  });

  it('five times over leaves no descriptor behind', async () => {
    const counts: number[] = [];
    const requesters = Array.from({ length: 5 }, () => f.requester(transport));
    for (let round = 0; round < 5; round++) {
      for (const each of await openDownloads(requesters)) each();
      await until('the backend sockets to close', () => f.app1.open.length === 0, { timeoutMs: 1500 });
      await sleep(50);
      counts.push(await workersDescriptors());
    }
    expect(counts.at(-1)! - counts[0]!, counts.join()).toBeLessThanOrEqual(4);
  });

  if (isH2(transport)) {
    it('one stream reset does not disturb the other streams of its connection', async () => {
      f.app1.script = endless;
      const connection = await f.requester(transport).h2();
      const one = connection.open(H2Connection.request('GET', 'app1.test', '/one'));
      const two = connection.open(H2Connection.request('GET', 'app1.test', '/two'));
      await until('data on both', () => one.size > 0 && two.size > 0);
      one.reset();
      await until('one backend socket to close', () => f.app1.open.length === 1, { timeoutMs: 1000 });
      const before = two.size;
      await until('data to go on', () => two.size > before + 8192);
      expect(two.over).toBe(false);
    });

    it('a dropped connection frees all of them', async () => {
      f.app1.script = endless;
      const connection = await f.requester(transport).h2();
      const streams = Array.from({ length: 20 }, (_each, i) =>
        connection.open(H2Connection.request('GET', 'app1.test', `/c${i}`)),
      );
      await until('data on all', () => streams.every((stream) => stream.size > 0));
      connection.reset();
      await until('the backend sockets to close', () => f.app1.open.length === 0, { timeoutMs: 1000 });
    });
  } else {
    it('by a FIN frees its backend socket when it cannot be a half-close any more', async () => {
      f.app1.script = endless;
      const client = await f.raw(transport);
      client.write('GET /fin HTTP/1.1\r\nHost: app1.test\r\n\r\n');
      await client.waitForText('zzzz');
      // Closes both directions, as a program that ends does: our FIN first, a reset to whatever comes after it.
      client.destroy();
      await until('the backend socket to close', () => f.app1.open.length === 0, { timeoutMs: 1900 });
    });
  }

  it('during its upload ends the backend request visibly cut', async () => {
    f.app1.script = () => {};
    const live = await f.requester(transport).open({ method: 'POST', path: '/up' });
    await live.send('some');
    const exchange = await f.app1.waitForExchange();
    await until('the content', () => exchange.body.toString() === 'some');
    live.abort();
    await until('the backend socket to close', () => !exchange.connection.open, { timeoutMs: 1000 });
    expect(exchange.bodyComplete).toBe(false);
  });
});

describe('a reader that stops', () => {
  // MAXeaglet/commandcode-proxy#20, spdy-http2/node-spdy#174, nodejs/node#9254: hundreds of MB in the proxy.
  const stalled = 24;
  /** What a process may grow by without keeping anything: garbage that is not collected yet. MiB, for all workers. */
  const slack = 48;
  const big = 500 * 1024 * 1024;
  const piece = Buffer.alloc(256 * 1024, 'y');

  /** Answers with 500 MiB (or what the path asks for), as fast as they are taken. */
  function flood(exchange: Exchange): void {
    const { socket } = exchange.connection;
    const size = exchange.target === '/warm' ? 96 * piece.length : big;
    exchange.send(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
    if (size < big) exchange.complete();
    let left = size;
    const more = (): void => {
      while (left > 0 && socket.writable) {
        left -= piece.length;
        if (!socket.write(piece)) {
          socket.once('drain', more);
          return;
        }
      }
    };
    more();
  }

  /** Whole downloads first: what a process grows by once, for its garbage, is there before anything is measured. */
  async function warm(transport: Transport): Promise<void> {
    f.app1.script = flood;
    const clients = Array.from({ length: 12 }, () => f.requester(transport));
    await Promise.all(clients.map((client) => client.request({ path: '/warm', timeoutMs: 20_000 })));
    for (const client of clients) client.close();
    f.app1.reset();
  }

  async function workersSize(): Promise<number> {
    return (await f.p.workerPids()).reduce((sum, pid) => sum + residentSize(pid), 0);
  }

  /** Waits until a number has stopped growing: everything between the two ends is full. */
  async function settled(what: string, value: () => number): Promise<number> {
    let last = -1;
    let since = performance.now();
    await until(
      `${what} to stop growing`,
      () => {
        const now = value();
        if (now !== last) {
          last = now;
          since = performance.now();
        }
        return performance.now() - since > 700;
      },
      { timeoutMs: 20_000, everyMs: 50 },
    );
    return last;
  }

  overTransports('costs the proxy less than 1 MiB', (transport) => {
    it(`each of ${stalled} downloads`, { timeout: 60_000 }, async () => {
      await warm(transport);
      f.app1.script = flood;
      const before = await workersSize();
      for (let i = 0; i < stalled; i++) {
        const port = isTls(transport) ? f.securePort : f.webPort;
        const tls = { servername: 'app1.test', ca: f.ca.pem };
        if (isH2(transport)) {
          const connection = await H2Connection.connect({ port, refill: false, ...(isTls(transport) ? { tls } : {}) });
          connection.open(H2Connection.request('GET', 'app1.test', '/flood'));
        } else {
          const socket = isTls(transport) ? connectTls({ port, ...tls }) : connectTcp({ port });
          socket.on('error', () => {});
          await new Promise((resolve) => socket.once(isTls(transport) ? 'secureConnect' : 'connect', resolve));
          socket.write('GET /flood HTTP/1.1\r\nHost: app1.test\r\n\r\n');
          socket.pause();
          stopped.push(socket);
        }
      }
      await until('all downloads to begin', () => f.app1.connections.length === stalled);
      const taken = await settled('what the backend could send', () =>
        f.app1.connections.reduce((sum, { socket }) => sum + socket.bytesWritten - socket.writableLength, 0),
      );
      expect(taken, 'the backend is made to wait').toBeLessThan((stalled * big) / 4);
      const growth = (await workersSize()) - before;
      expect(growth / 1024 / 1024, `${stalled} stalled downloads`).toBeLessThan(stalled + slack);
      // Others are served meanwhile, and in the end the idle limit frees everything.
      expect((await f.requester(transport).request({ host: 'app2.test' })).status).toBe(200);
      await until('the stalled downloads to be given up', () => f.app1.open.length === 0, { timeoutMs: 9000 });
      for (const socket of stopped.splice(0)) socket.destroy();
    });

    it(`each of ${stalled} uploads to a backend that does not read`, { timeout: 60_000 }, async () => {
      f.app1.keep = 1024;
      f.app1.script = ({ connection }) => void connection.socket.pause();
      const before = await workersSize();
      const lives = await Promise.all(
        Array.from({ length: stalled }, () =>
          f.requester(transport).open({ method: 'POST', path: '/up', lines: [['Content-Length', String(big)]] }),
        ),
      );
      let sent = 0;
      let stop = false;
      const senders = lives.map(async (live) => {
        for (let n = 0; n < big / piece.length && !stop; n++) {
          await live.send(piece);
          sent += piece.length;
        }
      });
      expect(await settled('what the clients could send', () => sent), 'the client is made to wait').toBeLessThan(
        (stalled * big) / 2,
      );
      const growth = (await workersSize()) - before;
      expect(growth / 1024 / 1024, `${stalled} stalled uploads`).toBeLessThan(stalled + slack);
      stop = true;
      for (const live of lives) live.abort();
      await Promise.all(senders);
      for (const { socket } of f.app1.connections) socket.destroy();
      f.app1.keep = 1024 * 1024;
    });
  });

  const stopped: { destroy(): void }[] = [];
});

describe('bodies beyond 32 bits', () => {
  // h2o/h2o#821: a 3.6 GB download came out short; root-gg/plik#208: negative sizes over 2 GB.
  const piece = Buffer.alloc(1024 * 1024);
  for (let i = 0; i < piece.length; i++) piece[i] = (i * 31) & 255;

  it('a download of 4 GiB and 5 bytes is exact', { timeout: 120_000 }, async () => {
    const size = 4_294_967_301;
    f.app1.script = (exchange) => {
      const { socket } = exchange.connection;
      exchange.send(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
      let left = size;
      const more = (): void => {
        while (left > 0 && socket.writable) {
          const part = piece.subarray(0, Math.min(piece.length, left));
          left -= part.length;
          if (!socket.write(part)) {
            socket.once('drain', more);
            return;
          }
        }
        exchange.complete();
      };
      more();
    };
    const socket = connectTcp({ port: f.webPort, host: '127.0.0.1' });
    socket.write('GET /big HTTP/1.1\r\nHost: app1.test\r\nConnection: close\r\n\r\n');
    let received = -1;
    let wrong = 0;
    await new Promise<void>((resolve, reject) => {
      socket.on('error', reject);
      socket.on('end', resolve);
      socket.on('data', (chunk: Buffer) => {
        let at = 0;
        if (received < 0) {
          const end = chunk.indexOf('\r\n\r\n');
          expect(chunk.subarray(0, end).toString('latin1')).toContain(`Content-Length: ${size}`);
          at = end + 4;
          received = 0;
        }
        // Every chunk is compared with what belongs at its place.
        for (let i = at; i < chunk.length; ) {
          const offset = received % piece.length;
          const part = Math.min(chunk.length - i, piece.length - offset);
          if (chunk.compare(piece, offset, offset + part, i, i + part) !== 0) wrong++;
          received += part;
          i += part;
        }
      });
    });
    socket.destroy();
    expect(received).toBe(size);
    expect(wrong).toBe(0);
  });

  it.each([false, true])('an upload of 3 GiB is exact (chunked: %s)', { timeout: 120_000 }, async (isChunked) => {
    const size = 3 * 1024 ** 3;
    let wrong = 0;
    f.app1.keep = 0;
    f.app1.script = (exchange) => void exchange.whole().then(() => exchange.ok('got it'));
    f.app1.onContent = (exchange, part) => {
      let offset = (exchange.bodySize - part.length) % piece.length;
      for (let i = 0; i < part.length; ) {
        const length = Math.min(part.length - i, piece.length - offset);
        if (part.compare(piece, offset, offset + length, i, i + length) !== 0) wrong++;
        i += length;
        offset = 0;
      }
    };
    const client = await f.plain();
    client.write(
      `POST /up HTTP/1.1\r\nHost: app1.test\r\n${isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${size}`}\r\n\r\n`,
    );
    for (let sent = 0; sent < size; sent += piece.length) {
      if (isChunked) client.write(`${piece.length.toString(16)}\r\n`);
      client.write(piece);
      if (isChunked) client.write('\r\n');
      if (client.socket.writableNeedDrain) await new Promise((resolve) => client.socket.once('drain', resolve));
    }
    if (isChunked) client.write('0\r\n\r\n');
    const answer = await client.readAnswer({ timeoutMs: 60_000 });
    f.app1.keep = 1024 * 1024;
    expect(answer.status).toBe(200);
    expect(f.app1.last.bodySize).toBe(size);
    expect(wrong).toBe(0);
  });

  it.each(['h1', 'h1+tls', 'h2', 'h2c'] as const)('a declared length beyond 32 bits passes [%s]', async (transport) => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nContent-Length: 4294967301\r\n\r\nfirst');
    };
    const down = await f.requester(transport).open({ endStream: true });
    await down.seen('first');
    down.abort();
    await until('the backend socket to close', () => f.app1.open.length === 0);
    f.app1.script = (exchange) => exchange.ok('enough', 'Connection: close\r\n');
    const up = await f.requester(transport).open({ method: 'POST', lines: [['Content-Length', '4294967301']] });
    await up.send('first');
    expect((await up.answer()).body.toString()).toBe('enough');
    expect(f.app1.last.values('content-length')).toEqual(['4294967301']);
    up.abort();
  });

  it('a range beyond 4 GiB passes both ways', async () => {
    f.app1.script = (exchange) =>
      exchange.reply(
        'HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 4294967296-4294967300/4294967301\r\nContent-Length: 5\r\n\r\nabcde',
      );
    const client = await f.plain();
    const answer = await client.ask('GET /r HTTP/1.1\r\nHost: app1.test\r\nRange: bytes=4294967296-4294967300\r\n\r\n');
    expect(answer.status).toBe(206);
    expect(f.app1.last.value('range')).toBe('bytes=4294967296-4294967300');
    expect(answer.body.toString()).toBe('abcde');
  });

  it('a length beyond 2^53 is refused, not wrapped', async () => {
    const client = await f.plain();
    const answer = await client.ask('POST / HTTP/1.1\r\nHost: app1.test\r\nContent-Length: 9007199254740993\r\n\r\n');
    expect(answer.status).toBe(400);
    f.app1.script = (exchange) =>
      void exchange.send('HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551617\r\n\r\nx');
    const other = await f.plain();
    expect((await other.ask('GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n')).status).toBe(502);
  });

  it('the byte counters are exact and not negative', async () => {
    const text = await f.p.metrics();
    const sent = text
      .split('\n')
      .filter((line) => line.startsWith('turnpike_http_sent_bytes_total{') && line.includes('route="app1.test"'))
      .map((line) => Number(line.split(' ').at(-1)))
      .reduce((sum, value) => sum + value, 0);
    expect(sent).toBeGreaterThanOrEqual(4_294_967_301);
  });
});

describe('a connection that is reset before its request is complete', () => {
  it('is no error of the proxy', async () => {
    const client = await RawClient.connect({ port: f.webPort });
    client.write('GET / HTTP/1.1\r\nHo');
    await sleep(20);
    client.reset();
  });
});
