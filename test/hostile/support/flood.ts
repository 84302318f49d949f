// Frames without end on one HTTP/2 connection, in bursts or one at a time, and what came of it.
// Invariant: it stops when the connection does, so `sent` says how much the proxy put up with.
import { encodeFrame, FrameType, H2Connection } from '../../support/h2-frames.ts';
import { encodeBlock } from '../../support/hpack.ts';
import type { ProxyFixture } from '../../support/proxy-fixture.ts';
import type { Line } from '../../support/recorder.ts';
import type { Transport } from '../../support/transports.ts';
import { sleep } from '../../support/wait.ts';

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** The number of the i-th stream of a client. */
export function streamId(i: number): number {
  return 2 * i + 1;
}

export function requestBlock(method: string, extra: readonly Line[] = [], path = '/'): Buffer {
  return encodeBlock(H2Connection.request(method, 'app1.test', path, extra));
}

/** HEADERS of a whole request without a body. */
export function get(id: number, path = '/'): Buffer {
  return encodeFrame(FrameType.Headers, 5, id, requestBlock('GET', [], path));
}

/** HEADERS of a request whose body is to come. */
export function post(id: number, extra: readonly Line[] = []): Buffer {
  return encodeFrame(FrameType.Headers, 4, id, requestBlock('POST', extra));
}

export function rst(id: number, code = 8): Buffer {
  return encodeFrame(FrameType.RstStream, 0, id, uint32(code));
}

export async function connect(
  f: ProxyFixture,
  transport: Transport,
  options: { settings?: readonly (readonly [number, number])[]; refill?: boolean; greet?: boolean } = {},
): Promise<H2Connection> {
  return H2Connection.connect({
    port: transport === 'h2' ? f.securePort : f.webPort,
    ...(transport === 'h2' ? { tls: { servername: 'app1.test', ca: f.ca.pem } } : {}),
    ...options,
  });
}

export interface FloodResult {
  readonly connection: H2Connection;
  readonly sent: number;
}

/**
 * Sends `frame(0)`, `frame(1)` … as fast as they go, until the connection ends or `count` are out and some time to judge
 * them has passed.
 */
export async function flood(
  f: ProxyFixture,
  transport: Transport,
  frame: (i: number) => Buffer,
  options: { count?: number; read?: boolean; patienceMs?: number } = {},
): Promise<FloodResult> {
  const { count = 20_000, read = true, patienceMs = 2000 } = options;
  const connection = await connect(f, transport);
  if (!read) connection.socket.pause();
  let sent = 0;
  while (sent < count && !connection.closed) {
    const burst: Buffer[] = [];
    for (let i = 0; i < 50 && sent < count; i++) burst.push(frame(sent++));
    connection.write(Buffer.concat(burst));
    if (connection.backlogged) await Promise.race([connection.drained(), sleep(20)]);
    else await sleep(0);
  }
  if (!read) connection.socket.resume();
  const patience = performance.now() + patienceMs;
  while (!connection.closed && performance.now() < patience) await sleep(10);
  return { connection, sent };
}

/**
 * Sends one opening after the other and, once the backend has the request, what trips it. Returns how many openings were
 * sent before the connection ended.
 */
export async function tripped(
  f: ProxyFixture,
  transport: Transport,
  opening: (id: number) => Buffer,
  trip: (id: number) => Buffer,
  count: number,
): Promise<FloodResult> {
  const connection = await connect(f, transport);
  let sent = 0;
  while (sent < count && !connection.closed) {
    const seen = f.app1.exchanges.length;
    connection.write(opening(streamId(sent++)));
    const patience = performance.now() + 100;
    while (f.app1.exchanges.length === seen && !connection.closed && performance.now() < patience) await sleep(0);
    connection.write(trip(streamId(sent - 1)));
  }
  const patience = performance.now() + 1000;
  while (!connection.closed && performance.now() < patience) await sleep(10);
  return { connection, sent };
}
