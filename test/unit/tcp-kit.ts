// The data plane of one worker in this process: traffic, HTTP, TLS, tunnels and entrypoints on real ports, fed with
// hand-made snapshots as a publication does.
// Invariant: every socket, timer and file that it opened is gone after `close`.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { BoundSocket, connect, createServer, type Server, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { Deadlines } from '../../src/base/deadlines.ts';
import { silentLog } from '../../src/base/log.ts';
import { Metrics } from '../../src/base/metrics.ts';
import { Entrypoints, type LentSocket } from '../../src/entrypoint/entrypoints.ts';
import { AccessLog } from '../../src/http/access-log.ts';
import { serveHttp2 } from '../../src/http/h2-server.ts';
import { HttpHandler } from '../../src/http/handler.ts';
import { formatBind } from '../../src/model/changes.ts';
import type { RoutingPart, SnapshotParts } from '../../src/model/snapshot.ts';
import { Tunnels } from '../../src/tcp/tunnels.ts';
import type { LeafFor } from '../../src/tls/leaf-cache.ts';
import { TlsTerminator } from '../../src/tls/terminator.ts';
import { type Prepared, Traffic } from '../../src/traffic/traffic.ts';
import { backendTlsCheck } from '../../src/upstream/backend-tls.ts';
import { Backends } from '../../src/upstream/backends.ts';
import { TestDesk } from '../support/gate-desk.ts';
import { limits, snapshot, wholeDelta } from '../support/routing.ts';
import { until } from '../support/wait.ts';

export interface PlaneOptions {
  /** For everything but HTTP/1.1 dates and the log. */
  readonly clock?: Clock;
  readonly leafFor?: LeafFor;
}

export class DataPlane {
  readonly metrics = new Metrics();
  readonly deadlines: Deadlines;
  readonly traffic: Traffic<Backends>;
  readonly entrypoints: Entrypoints;
  readonly drained: { service: string; generation: number; forced: number }[] = [];
  readonly #accessLog: AccessLog;
  readonly #directory = mkdtempSync(join(tmpdir(), 'turnpike-tcp-'));
  readonly #ends = new Set<Socket>();
  readonly #servers: Server[] = [];
  readonly #children: ChildProcess[] = [];
  #revision = 0;

  constructor({ clock = systemClock, leafFor = async () => null }: PlaneOptions = {}) {
    const deadlines = new Deadlines(clock, 10);
    this.deadlines = deadlines;
    const deps = { clock, deadlines, log: silentLog, metrics: this.metrics };
    this.traffic = new Traffic<Backends>(
      clock,
      (service, down) =>
        new Backends(service, down, { ...deps, limits: () => limits, cookieKey: () => Buffer.alloc(32, 7) }),
      (drained) => this.drained.push(drained),
    );
    this.#accessLog = new AccessLog(systemClock, openSync(join(this.#directory, 'access.log'), 'a'));
    const more = { ...deps, traffic: this.traffic, accessLog: this.#accessLog, workers: 1 };
    const http = new HttpHandler({ ...more, gate: new TestDesk() });
    const terminator = new TlsTerminator({ ...deps, leafFor });
    this.entrypoints = new Entrypoints({
      ...more,
      overload: this.traffic.overload,
      keyOf: ({ host, port }) => formatBind(host, port),
      http,
      serveHttp2: (socket, facts) => serveHttp2(socket, facts, http),
      terminator,
      tunnels: new Tunnels(more),
    });
    this.traffic.register(backendTlsCheck);
    this.traffic.register(terminator);
    this.traffic.register(this.entrypoints);
  }

  /** A free port, bound and lent; nothing listens on it yet. */
  lend(host = '127.0.0.1'): number {
    const bound = new BoundSocket({ host, port: 0 });
    const { port } = bound.address() as { port: number };
    const socket = new Socket({ handle: bound, readable: false, writable: false });
    const { _handle: handle } = socket as unknown as { readonly _handle: LentSocket };
    this.entrypoints.offer(formatBind(host, port), handle);
    return port;
  }

  prepare(part: RoutingPart, over: Partial<SnapshotParts> = {}): Prepared {
    return this.traffic.prepare(wholeDelta(snapshot(++this.#revision, part, over)));
  }

  /** Swaps to this routing, as a publication does. */
  publish(part: RoutingPart, over: Partial<SnapshotParts> = {}): void {
    this.traffic.commit(this.prepare(part, over));
  }

  async client(port: number, localAddress = '127.0.0.1'): Promise<End> {
    const end = this.dial(port, localAddress);
    await until('a connection', () => end.open || end.closed !== null);
    return end;
  }

  /** A client that is not connected yet, and may be reset before it is. */
  dial(port: number, localAddress = '127.0.0.1'): End {
    return this.end(connect({ port, host: '127.0.0.1', localAddress, noDelay: true, allowHalfOpen: true }));
  }

  /** A backend that does nothing by itself. */
  async backend(accept: (end: End) => void = () => {}): Promise<TestBackend> {
    const ends: End[] = [];
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      const end = this.end(socket);
      ends.push(end);
      accept(end);
    });
    this.#servers.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    return { port, address: `127.0.0.1:${port}`, ends, server };
  }

  /** An address that neither accepts nor refuses: its backlog is full, and nobody takes anything from it. */
  async hanging(): Promise<string> {
    const script =
      "const s = require('net').createServer(); s.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, " +
      '() => console.log(s.address().port));';
    const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#children.push(child);
    const [line] = (await once(child.stdout!, 'data')) as [Buffer];
    const hanging = Number(line.toString());
    child.kill('SIGSTOP');
    for (let i = 0; i < 2; i++) await this.client(hanging);
    return `127.0.0.1:${hanging}`;
  }

  end(socket: Socket): End {
    this.#ends.add(socket);
    socket.on('close', () => this.#ends.delete(socket));
    return new End(socket);
  }

  /** The access log, once it has this many lines. */
  async log(count: number): Promise<Record<string, unknown>[]> {
    const file = join(this.#directory, 'access.log');
    const lines = (): string[] => readFileSync(file, 'utf8').split('\n').slice(0, -1);
    await until(`${count} log lines`, () => lines().length >= count, { seen: lines });
    return lines().map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /** Sum of the series with (at least) these labels. */
  metric(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const family = this.metrics.collect().find((each) => each.name === `turnpike_${name}`);
    let sum = 0;
    for (const series of family?.values ?? []) {
      if (Object.entries(labels).every(([key, value]) => series.labels[key] === value)) sum += series.value;
    }
    return sum;
  }

  async close(): Promise<void> {
    for (const socket of this.#ends) socket.destroy();
    const drained = this.entrypoints.drain();
    this.entrypoints.destroy();
    await drained;
    for (const server of this.#servers) server.close();
    for (const child of this.#children) child.kill('SIGKILL');
    for (const generation of this.traffic.generations()) generation.resource.close();
    this.deadlines.close();
    this.#accessLog.close();
    rmSync(this.#directory, { recursive: true });
  }
}

export interface TestBackend {
  readonly port: number;
  readonly address: string;
  /** Accepted so far. */
  readonly ends: End[];
  readonly server: Server;
}

/** One end of a connection in the hands of a test: keeps what arrives, and how it ended. */
export class End {
  readonly socket: Socket;
  readonly chunks: Buffer[] = [];
  size = 0;
  /** A FIN came. */
  finished = false;
  /** Code of the error that broke it; '' when it closed without one. Null while open. */
  closed: string | null = null;
  /** It is connected. */
  open = false;
  #error = '';

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on('connect', () => {
      this.open = true;
    });
    socket.on('data', (chunk: Buffer) => {
      this.chunks.push(chunk);
      this.size += chunk.length;
    });
    socket.on('end', () => {
      this.finished = true;
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.#error = error.code ?? error.message;
    });
    socket.on('close', () => {
      this.closed = this.#error;
    });
  }

  get bytes(): Buffer {
    return Buffer.concat(this.chunks);
  }

  get text(): string {
    return this.bytes.toString('latin1');
  }

  send(text: string | Buffer): this {
    this.socket.write(typeof text === 'string' ? Buffer.from(text, 'latin1') : text);
    return this;
  }

  fin(): this {
    this.socket.end();
    return this;
  }

  reset(): void {
    this.socket.resetAndDestroy();
  }

  async has(text: string): Promise<void> {
    await until(`${JSON.stringify(text)} to arrive`, () => this.text === text, { seen: () => this.text });
  }

  async hasSize(size: number): Promise<void> {
    await until(`${size} bytes`, () => this.size >= size, { seen: () => this.size });
  }

  async hasFin(): Promise<void> {
    await until('a FIN', () => this.finished, { seen: () => this.closed });
  }

  /** Closed from the other side, with an end or a reset. */
  async isShut(): Promise<void> {
    await until('an end', () => this.finished || this.closed !== null, { seen: () => this.text });
  }

  /** With a reset, or without. */
  async isClosed(): Promise<string> {
    await until('a close', () => this.closed !== null, { seen: () => this.text });
    return this.closed!;
  }
}
