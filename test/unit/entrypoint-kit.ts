// Entrypoints on real ports, with a toy application behind them that answers from a function.
// Invariant: everything made here is closed by `close`.
import { once } from 'node:events';
import { BoundSocket, connect, Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '../../src/base/clock.ts';
import { Deadlines } from '../../src/base/deadlines.ts';
import type { Fault } from '../../src/base/fault.ts';
import { silentLog } from '../../src/base/log.ts';
import { Metrics } from '../../src/base/metrics.ts';
import { Entrypoints, type LentSocket } from '../../src/entrypoint/entrypoints.ts';
import type { HttpSide } from '../../src/entrypoint/http-entrypoint.ts';
import { AccessLog } from '../../src/http/access-log.ts';
import { serveHttp2 } from '../../src/http/h2-server.ts';
import { Fields } from '../../src/message/fields.ts';
import type { ClientStream, ConnectionFacts, RequestReceiver } from '../../src/message/stream.ts';
import { formatBind } from '../../src/model/changes.ts';
import { compileRoutingTable } from '../../src/model/routing-table.ts';
import type { Entrypoint, Host, SnapshotParts } from '../../src/model/snapshot.ts';
import { Tunnels } from '../../src/tcp/tunnels.ts';
import { TlsTerminator } from '../../src/tls/terminator.ts';
import { type Compiled, Traffic } from '../../src/traffic/traffic.ts';
import type { Backends } from '../../src/upstream/backends.ts';
import { entrypoint, limits, routing, snapshot } from '../support/routing.ts';

export { limits } from '../support/routing.ts';

/** Answers each request; a promise keeps it in work. */
export type App = (target: string, facts: ConnectionFacts) => string | Promise<string>;

class ToyHttp implements HttpSide {
  readonly seen: { target: string; facts: ConnectionFacts }[] = [];
  readonly faults: Fault[] = [];
  readonly #app: App;

  constructor(app: App) {
    this.#app = app;
  }

  handle(stream: ClientStream): void {
    const { target } = stream.head;
    const receiver: RequestReceiver = {
      requestData: () => {},
      requestEnd: () => {},
      requestAborted: () => {},
      clientWritable: () => {},
      clientFinished: () => {},
    };
    stream.receiver = receiver;
    this.seen.push({ target, facts: stream.connection });
    stream.resumeBody();
    void Promise.resolve(this.#app(target, stream.connection)).then((text) => {
      const body = Buffer.from(text);
      const head = {
        status: 200,
        reason: 'OK',
        fields: Fields.of(['Content-Type', 'text/plain']),
        bodyLength: body.length,
        declaredLength: -1,
      };
      stream.sendHead(head, false, false);
      stream.sendData(body);
      stream.sendEnd(null);
    });
  }

  answerFault(fault: Fault): Buffer {
    return Buffer.from(`HTTP/1.1 ${fault.status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
  }

  refused(fault: Fault): void {
    this.faults.push(fault);
  }

  idleClosed(): void {}
}

export interface Declared {
  readonly entrypoints: readonly Entrypoint[];
  readonly hosts?: readonly Host[];
  readonly parts?: Partial<SnapshotParts>;
}

export class Edge {
  readonly http: ToyHttp;
  readonly metrics = new Metrics();
  readonly deadlines = new Deadlines(systemClock, 20);
  readonly terminator: TlsTerminator;
  readonly entrypoints: Entrypoints;
  readonly #clients = new Set<Socket>();
  /** Whether there is a descriptor for another connection. */
  hasRoom = true;
  #revision = 0;

  constructor(app: App = (target) => target, workers = 1) {
    const { deadlines, metrics } = this;
    const clock = systemClock;
    this.http = new ToyHttp(app);
    this.terminator = new TlsTerminator({ clock, deadlines, log: silentLog, leafFor: async () => null });
    this.entrypoints = new Entrypoints({
      clock,
      deadlines,
      log: silentLog,
      metrics,
      overload: { hasRoom: () => this.hasRoom },
      workers,
      keyOf: ({ host, port }) => formatBind(host, port),
      http: this.http,
      serveHttp2: (socket, facts) =>
        serveHttp2(socket, facts, {
          deadlines,
          limitsOf: () => limits,
          handle: (stream) => this.http.handle(stream),
          refuse: (stream) => stream.abort(),
          cutOff: () => {},
          idleClosed: () => {},
        }),
      terminator: this.terminator,
      // Nothing in these tests leads to a network service.
      tunnels: new Tunnels({
        traffic: new Traffic<Backends>(clock, unexpected, () => {}),
        clock,
        deadlines,
        log: silentLog,
        metrics,
        accessLog: new AccessLog(clock, 1),
      }),
    });
  }

  /** A free port, bound and lent; nothing listens on it yet. */
  lend(host = '127.0.0.1', wanted = 0): number {
    const bound = new BoundSocket({ host, port: wanted });
    const { port } = bound.address() as { port: number };
    const socket = new Socket({ handle: bound, readable: false, writable: false });
    const { _handle: handle } = socket as unknown as { readonly _handle: LentSocket };
    this.entrypoints.offer(formatBind(host, port), handle);
    return port;
  }

  compile({ entrypoints, hosts = [], parts = {} }: Declared): Compiled {
    const part = routing({ entrypoints, hosts });
    const table = compileRoutingTable(part, (text) => text);
    return { snapshot: snapshot(++this.#revision, part, parts), table };
  }

  publish(declared: Declared): void {
    const compiled = this.compile(declared);
    const tls = this.terminator.prepare(compiled, null, new Set(['routing', 'certificates', 'keys']));
    const prepared = this.entrypoints.prepare(compiled);
    this.terminator.commit(tls);
    this.entrypoints.commit(prepared);
  }

  async client(port: number, localAddress = '127.0.0.1', host = '127.0.0.1'): Promise<Client> {
    const socket = connect({ port, host, localAddress, noDelay: true, allowHalfOpen: true });
    this.#clients.add(socket);
    socket.on('error', () => {});
    await once(socket, 'connect');
    return new Client(socket);
  }

  async close(): Promise<void> {
    for (const socket of this.#clients) socket.destroy();
    const drained = this.entrypoints.drain();
    this.entrypoints.destroy();
    await drained;
    this.deadlines.close();
  }
}

/** Collects what arrives. */
export class Client {
  readonly socket: Socket;
  text = '';
  ended = false;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.text += chunk.toString('latin1');
    });
    socket.on('end', () => {
      this.ended = true;
    });
    socket.on('close', () => {
      this.ended = true;
    });
  }

  get(target: string, more = ''): void {
    this.socket.write(`GET ${target} HTTP/1.1\r\nHost: a.test\r\n${more}\r\n`);
  }

  /** Until the text so far matches; fails loudly after five seconds. */
  async until(pattern: RegExp): Promise<string> {
    for (let waited = 0; !pattern.test(this.text); waited += 5) {
      if (waited > 5000) throw new Error(`no ${pattern} in ${JSON.stringify(this.text)}`);
      await delay(5);
    }
    return this.text;
  }

  async untilEnd(): Promise<string> {
    for (let waited = 0; !this.ended; waited += 5) {
      if (waited > 5000) throw new Error(`still open after ${JSON.stringify(this.text)}`);
      await delay(5);
    }
    return this.text;
  }
}

const unexpected = (): never => {
  throw new Error('no service is declared here');
};

export function onPort(port: number, over: Partial<Entrypoint> = {}): Entrypoint {
  return entrypoint(over.name ?? 'web', { host: '127.0.0.1', port, ...over });
}
