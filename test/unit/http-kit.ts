// The HTTP layer of one worker in this process: a listener, the engines of both protocol versions, a handler, and a hand-made
// snapshot in front of real backends.
// Invariant: every socket and timer it opened is gone after `close`.
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/base/clock.ts';
import { Deadlines } from '../../src/base/deadlines.ts';
import { silentLog } from '../../src/base/log.ts';
import { Metrics } from '../../src/base/metrics.ts';
import { AccessLog } from '../../src/http/access-log.ts';
import { serveHttp2 } from '../../src/http/h2-server.ts';
import { HttpHandler } from '../../src/http/handler.ts';
import { ServerConnection } from '../../src/http1/server-connection.ts';
import type { ConnectionFacts, TlsFacts } from '../../src/message/stream.ts';
import { digestOf } from '../../src/model/digest.ts';
import type { CertificatesPart, GatePart, Limits, RoutingPart } from '../../src/model/snapshot.ts';
import { Traffic } from '../../src/traffic/traffic.ts';
import { Backends } from '../../src/upstream/backends.ts';
import { TestDesk } from '../support/gate-desk.ts';
import { limits, noCertificates, noGate, snapshot, wholeDelta } from '../support/routing.ts';
import { until } from '../support/wait.ts';

export interface EdgeOptions {
  readonly routing: RoutingPart;
  readonly certificates?: CertificatesPart;
  /** Facts of every connection. */
  readonly trustedPeer?: boolean;
  readonly tls?: TlsFacts | null;
  readonly entrypoint?: string;
}

export interface LogLine {
  readonly status: number;
  readonly reason: string;
  readonly [member: string]: unknown;
}

export class Edge {
  readonly metrics = new Metrics();
  readonly gate = new TestDesk();
  readonly deadlines = new Deadlines(systemClock, 10);
  readonly traffic: Traffic<Backends>;
  readonly handler: HttpHandler;
  /** Facts of connections accepted from now on. */
  trustedPeer: boolean;
  tls: TlsFacts | null;
  port = 0;
  readonly drained: { service: string; generation: number; forced: number }[] = [];
  readonly engines = new Set<{ drain(): void; destroy(): void }>();
  readonly #accessLog: AccessLog;
  readonly #directory = mkdtempSync(join(tmpdir(), 'turnpike-http-'));
  /** Of connections accepted from now on. */
  entrypoint: string;
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  #revision = 0;

  private constructor(options: EdgeOptions) {
    this.trustedPeer = options.trustedPeer ?? false;
    this.tls = options.tls ?? null;
    this.entrypoint = options.entrypoint ?? 'web';
    const { deadlines, metrics } = this;
    const deps = { clock: systemClock, deadlines, log: silentLog, metrics };
    this.traffic = new Traffic<Backends>(
      systemClock,
      (service, down) =>
        new Backends(service, down, { ...deps, limits: () => limits, cookieKey: () => Buffer.alloc(32, 7) }),
      (drained) => this.drained.push(drained),
    );
    this.#accessLog = new AccessLog(systemClock, openSync(join(this.#directory, 'access.log'), 'a'));
    this.handler = new HttpHandler({
      ...deps,
      traffic: this.traffic,
      accessLog: this.#accessLog,
      workers: 1,
      gate: this.gate,
    });
    this.publish(options.routing, options.certificates);
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#accept(socket));
  }

  static async start(options: EdgeOptions): Promise<Edge> {
    const edge = new Edge(options);
    await new Promise<void>((resolve) => edge.#server.listen(0, '127.0.0.1', resolve));
    edge.port = (edge.#server.address() as { port: number }).port;
    return edge;
  }

  /** Swaps to this routing, as a publication does. */
  publish(routing: RoutingPart, certificates: CertificatesPart = noCertificates, gate: GatePart = noGate): void {
    const next = snapshot(++this.#revision, routing, { certificates, gate });
    const prepared = this.traffic.prepare(wholeDelta(next));
    this.traffic.commit(prepared);
  }

  /** The access log, once it has this many lines. */
  async log(count: number): Promise<LogLine[]> {
    const file = join(this.#directory, 'access.log');
    const lines = (): string[] => readFileSync(file, 'utf8').split('\n').slice(0, -1);
    await until(`${count} log lines`, () => lines().length >= count, { seen: lines });
    return lines().map((line) => JSON.parse(line) as LogLine);
  }

  /** Value of the series with these labels, 0 when there is none. */
  metric(name: string, labels: Record<string, string>): number {
    const family = this.metrics.collect().find((each) => each.name === `turnpike_${name}`);
    const wanted = digestOf(labels);
    return family?.values.find((each) => digestOf(each.labels) === wanted)?.value ?? 0;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const live of this.traffic.services()) live.current.resource.close();
    this.deadlines.close();
    this.#accessLog.close();
    rmSync(this.#directory, { recursive: true });
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    const facts: ConnectionFacts = Object.freeze({
      entrypoint: this.entrypoint,
      peerAddress: '127.0.0.1',
      peerPort: socket.remotePort ?? 0,
      localAddress: '127.0.0.1',
      localPort: socket.localPort ?? 0,
      trustedPeer: this.trustedPeer,
      tls: this.tls,
    });
    socket.once('data', (initial: Buffer) => {
      socket.pause();
      if (initial.toString('latin1', 0, 3) === 'PRI') {
        socket.unshift(initial);
        this.engines.add(serveHttp2(socket, facts, this.handler));
        return;
      }
      const connection = new ServerConnection(socket, {
        facts,
        deadlines: this.deadlines,
        limits: () => this.handler.limitsOf(this.entrypoint),
        onRequest: (stream) => this.handler.handle(stream),
        answerFault: (fault, head) => this.handler.answerFault(fault, head),
        onRefused: (fault) => this.handler.refused(fault, facts),
        onIdleTimeout: () => this.handler.idleClosed(),
        onClose() {},
      });
      this.engines.add(connection);
      connection.start(initial);
    });
  }
}

export function routeLimits(over: Partial<Limits>): Limits {
  return { ...limits, ...over };
}
