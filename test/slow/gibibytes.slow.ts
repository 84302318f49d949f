// Five gibibytes up and five down, over HTTP/1.1 and HTTP/2: what arrives is what was sent, and memory does not grow with it.
//
// A proxy that keeps a part of a body for a moment too long shows it here and nowhere else (nodejs/node#9254 and
// MAXeaglet/commandcode-proxy#20 grew with the body), and so do lengths that are kept in 32 bits.
import { createHash, type Hash } from 'node:crypto';
import { createServer, type IncomingMessage, request, type Server } from 'node:http';
import { type ClientHttp2Stream, connect } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { TestCa } from '../support/certificates.ts';
import { freePorts } from '../support/ports.ts';
import { residentSize, Turnpike } from '../support/turnpike.ts';

const miB = 1024 * 1024;
const total = 5 * 1024 * miB;
/** What the collector may leave lying about for a moment; a body kept would be a hundred times as much. */
const mostGrowth = 96 * miB;

interface Seen {
  readonly size: number;
  readonly sha256: string;
}

/** `total` bytes that repeat after 16 MiB and one: no piece falls on the same place of a buffer twice. */
async function* content(hash: Hash): AsyncGenerator<Buffer> {
  const source = Buffer.alloc(16 * miB + 1);
  for (let i = 0, x = 1; i + 4 <= source.length; i += 4) {
    x = (Math.imul(x, 1_664_525) + 1_013_904_223) >>> 0;
    source.writeUInt32LE(x, i);
  }
  let left = total;
  for (let at = 0; left > 0; ) {
    const size = Math.min(left, 192 * 1024 + 7, source.length - at);
    const piece = source.subarray(at, at + size);
    hash.update(piece);
    left -= size;
    at = (at + size) % source.length;
    yield piece;
  }
}

async function hashOf(stream: AsyncIterable<Buffer>): Promise<Seen> {
  const hash = createHash('sha256');
  let size = 0;
  for await (const piece of stream) {
    hash.update(piece);
    size += piece.length;
  }
  return { size, sha256: hash.digest('hex') };
}

let p: Turnpike;
let backend: Server;
let port = 0;
let tlsPort = 0;
const ca = new TestCa('Turnpike slow tests');
let sentByBackend = '';

beforeAll(async () => {
  backend = createServer({ requestTimeout: 0 }, (incoming, answer) => {
    const run = async (): Promise<void> => {
      if (incoming.method === 'POST') {
        answer.end(JSON.stringify(await hashOf(incoming)));
        return;
      }
      const hash = createHash('sha256');
      if (incoming.url === '/sized') answer.setHeader('Content-Length', total);
      await pipeline(Readable.from(content(hash)), answer);
      sentByBackend = hash.digest('hex');
    };
    run().catch((error: unknown) => answer.destroy(error as Error));
  });
  await new Promise<void>((resolve) => backend.listen(0, '127.0.0.1', resolve));
  const pair = ca.leaf(['app.test']);
  [port, tlsPort] = (await freePorts(2)) as [number, number];
  p = await Turnpike.start({
    config: `
workers = 1
[entrypoints.web]
address = "127.0.0.1:${port}"
protocol = "http"
[entrypoints.websecure]
address = "127.0.0.1:${tlsPort}"
protocol = "https"
[tls]
redirect = false
[[tls.certificate]]
cert_file = "${pair.certFile}"
key_file = "${pair.keyFile}"
[log]
access = false
format = "json"
[external_routes."app.test"]
to = ["127.0.0.1:${(backend.address() as AddressInfo).port}"]
`,
  });
});

afterAll(async () => {
  await p.stop();
  backend.closeAllConnections();
  backend.close();
});

/** The most that the worker grew by while this went on, after a first stretch in which its pools fill. */
async function growthDuring(work: () => Promise<void>): Promise<number> {
  const [pid = 0] = await p.workerPids();
  const sizes: number[] = [];
  const timer = setInterval(() => sizes.push(residentSize(pid)), 200);
  const started = performance.now();
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  const [first = 0, ...rest] = sizes.slice(10);
  const growth = Math.max(...rest) - first;
  const rate = total / miB / ((performance.now() - started) / 1000);
  console.log(
    `  ${rate.toFixed(0)} MiB/s, ${(first / miB).toFixed(0)} MiB at first, then at most ${(growth / miB).toFixed(1)} MiB more`,
  );
  expect(sizes.length, 'samples of the memory').toBeGreaterThan(20);
  return growth;
}

const h1 = (method: string, path: string, headers: Record<string, string | number> = {}) =>
  request({ host: '127.0.0.1', port, method, path, headers: { Host: 'app.test', ...headers }, agent: false });

function answerTo(outgoing: ReturnType<typeof h1>): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    outgoing.once('response', resolve);
    outgoing.once('error', reject);
  });
}

async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts).toString();
}

async function overH2(work: (open: (headers: Record<string, string>) => ClientHttp2Stream) => Promise<void>) {
  const session = connect(`https://127.0.0.1:${tlsPort}`, { servername: 'app.test', ca: ca.pem });
  session.on('error', () => {});
  // A client with windows that are worth a test of speed.
  session.once('connect', () => session.setLocalWindowSize(4 * miB));
  try {
    await work((headers) => session.request({ ':authority': 'app.test', ...headers }));
  } finally {
    session.destroy();
  }
}

it.each([
  ['with a length', '/sized', { 'Content-Length': total }],
  ['in chunks', '/chunked', {}],
] as const)('five GiB up and down over HTTP/1.1 %s', async (_name, path, headers) => {
  const up = await growthDuring(async () => {
    const hash = createHash('sha256');
    const outgoing = h1('POST', path, headers);
    const answer = answerTo(outgoing);
    await pipeline(Readable.from(content(hash)), outgoing);
    const seen = JSON.parse(await textOf(await answer)) as Seen;
    expect(seen).toEqual({ size: total, sha256: hash.digest('hex') });
  });
  const down = await growthDuring(async () => {
    const outgoing = h1('GET', path);
    outgoing.end();
    const seen = await hashOf(await answerTo(outgoing));
    expect(seen).toEqual({ size: total, sha256: sentByBackend });
  });
  expect(up).toBeLessThan(mostGrowth);
  expect(down).toBeLessThan(mostGrowth);
});

it('five GiB up and down over HTTP/2', async () => {
  const up = await growthDuring(() =>
    overH2(async (open) => {
      const hash = createHash('sha256');
      const stream = open({ ':method': 'POST', ':path': '/' });
      await pipeline(Readable.from(content(hash)), stream);
      const seen = JSON.parse(await textOf(stream)) as Seen;
      expect(seen).toEqual({ size: total, sha256: hash.digest('hex') });
    }),
  );
  const down = await growthDuring(() =>
    overH2(async (open) => {
      const seen = await hashOf(open({ ':path': '/sized' }));
      expect(seen).toEqual({ size: total, sha256: sentByBackend });
    }),
  );
  expect(up).toBeLessThan(mostGrowth);
  expect(down).toBeLessThan(mostGrowth);
});
