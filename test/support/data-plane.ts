// The data plane of one worker in this process: every protocol of entrypoint, on ports of its own, fed with snapshots.
// Invariant: built as a worker builds it; everything it opened is closed by `close`.
import { BoundSocket, Socket } from 'node:net';
import { systemClock } from '../../src/base/clock.ts';
import { Deadlines } from '../../src/base/deadlines.ts';
import { silentLog } from '../../src/base/log.ts';
import { Metrics } from '../../src/base/metrics.ts';
import { Entrypoints, type LentSocket } from '../../src/entrypoint/entrypoints.ts';
import { AccessLog } from '../../src/http/access-log.ts';
import { serveHttp2 } from '../../src/http/h2-server.ts';
import { HttpHandler } from '../../src/http/handler.ts';
import { formatBind } from '../../src/model/changes.ts';
import type { ChallengesPart, RoutingPart, SnapshotParts } from '../../src/model/snapshot.ts';
import { Tunnels } from '../../src/tcp/tunnels.ts';
import { TlsTerminator } from '../../src/tls/terminator.ts';
import { OverloadGuard } from '../../src/traffic/overload-guard.ts';
import { Traffic } from '../../src/traffic/traffic.ts';
import { Backends } from '../../src/upstream/backends.ts';
import { TestDesk } from './gate-desk.ts';
import { limits, snapshot, wholeDelta } from './routing.ts';

export class DataPlane {
  readonly metrics = new Metrics();
  readonly traffic: Traffic<Backends>;
  readonly #deadlines = new Deadlines(systemClock, 20);
  readonly #entrypoints: Entrypoints;
  #revision = 0;
  #routing: RoutingPart | null = null;
  #parts: Partial<SnapshotParts> = {};

  constructor() {
    const { metrics } = this;
    const overload = new OverloadGuard(metrics);
    const deps = { clock: systemClock, deadlines: this.#deadlines, log: silentLog, metrics };
    this.traffic = new Traffic<Backends>(
      systemClock,
      (service, down) =>
        new Backends(service, down, { ...deps, limits: () => limits, cookieKey: () => Buffer.alloc(32, 7) }),
      () => {},
      overload,
    );
    const traffic = this.traffic;
    const terminator = new TlsTerminator({ ...deps, leafFor: async () => null });
    // Nothing is written: `settings` of the snapshots turn it off.
    const accessLog = new AccessLog(systemClock, 1);
    const http = new HttpHandler({ ...deps, traffic, accessLog, workers: 1, gate: new TestDesk() });
    this.#entrypoints = new Entrypoints({
      ...deps,
      overload,
      workers: 1,
      keyOf: ({ host, port }) => formatBind(host, port),
      http,
      serveHttp2: (socket, facts) => serveHttp2(socket, facts, http),
      terminator,
      tunnels: new Tunnels({ ...deps, traffic, accessLog }),
    });
    traffic.register(terminator);
    traffic.register(this.#entrypoints);
  }

  /** A port for an entrypoint of the next routing. */
  lend(): number {
    const bound = new BoundSocket({ host: '127.0.0.1', port: 0 });
    const { port } = bound.address() as { port: number };
    const socket = new Socket({ handle: bound, readable: false, writable: false });
    const { _handle: handle } = socket as unknown as { readonly _handle: LentSocket };
    this.#entrypoints.offer(formatBind('127.0.0.1', port), handle);
    return port;
  }

  publish(routing: RoutingPart, parts: Partial<SnapshotParts> = {}): void {
    this.#routing = { ...routing, settings: { ...routing.settings, accessLog: false } };
    this.#parts = { ...this.#parts, ...parts };
    const next = snapshot(++this.#revision, this.#routing, this.#parts);
    this.traffic.commit(this.traffic.prepare(wholeDelta(next)));
  }

  publishChallenges(challenges: ChallengesPart): void {
    if (this.#routing === null) throw new Error('nothing is published yet');
    this.publish(this.#routing, { challenges });
  }

  async close(): Promise<void> {
    const drained = this.#entrypoints.drain();
    this.#entrypoints.destroy();
    await drained;
    for (const live of this.traffic.services()) live.current.resource.close();
    this.#deadlines.close();
  }
}
