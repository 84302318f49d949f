// A worker: carries the traffic of the snapshot it was given, and nothing else. Takes moves from the supervisor over IPC.
// Invariant: it accepts no connection before its first commit and outlives its supervisor by no more than a moment.
import { networkInterfaces } from 'node:os';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { systemClock } from '../base/clock.ts';
import { Deadlines } from '../base/deadlines.ts';
import { Fault } from '../base/fault.ts';
import { createLog, type Log } from '../base/log.ts';
import { Metrics } from '../base/metrics.ts';
import { Entrypoints, type LentSocket } from '../entrypoint/entrypoints.ts';
import { UdpEntrypoints } from '../entrypoint/udp-entrypoints.ts';
import { AccessLog } from '../http/access-log.ts';
import { serveHttp2 } from '../http/h2-server.ts';
import { HttpHandler } from '../http/handler.ts';
import { openPart, type SealedPart } from '../model/part-code.ts';
import type { Certificate, PartName, SealedDelta, SnapshotDelta, SnapshotParts } from '../model/snapshot.ts';
import { Tunnels } from '../tcp/tunnels.ts';
import { TlsTerminator } from '../tls/terminator.ts';
import { type Prepared, Traffic } from '../traffic/traffic.ts';
import { backendTlsCheck } from '../upstream/backend-tls.ts';
import { Backends } from '../upstream/backends.ts';
import { WorkerGate } from './gate-worker.ts';
import { listenerKey } from './listener-key.ts';
import type {
  DrainLimits,
  Flip,
  FromWorker,
  ProcessMetrics,
  Question,
  Questions,
  ToWorker,
  WorkerStats,
} from './protocol.ts';
import { WorkerOverload } from './worker-overload.ts';

type Start = Extract<ToWorker, { kind: 'start' }>;

/** Time for close frames and last bytes after the drain limit ended what was left. */
const lastWordsMs = 400;

/** Becomes a worker of the process at the other end of the IPC channel. */
export function runWorker(): void {
  let worker: Worker | null = null;
  process.on('message', (message: ToWorker, handle?: LentSocket) => {
    if (message.kind === 'start') worker = new Worker(message);
    else worker?.take(message, handle ?? null);
  });
  // Without a supervisor nobody decides what to serve, and nobody would ever end this process.
  process.on('disconnect', () => {
    worker?.flush();
    process.exit(0);
  });
  // A terminal and some service managers signal the whole group; when to leave is the supervisor's word.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
}

class Worker {
  readonly #log: Log;
  readonly #metrics = new Metrics();
  readonly #accessLog = new AccessLog(systemClock, 1);
  readonly #traffic: Traffic<Backends>;
  readonly #entrypoints: Entrypoints;
  readonly #udp: UdpEntrypoints;
  readonly #overload: WorkerOverload;
  readonly #gate: WorkerGate;
  readonly #leaves = new Map<string, (certificate: Certificate | null) => void>();
  #prepared: Prepared | null = null;
  /** Rises with every question to prepare and with every abort: what was being opened before it is void. */
  #opening = 0;
  #moving: readonly string[] = [];

  constructor({ slot, workers, logLevel }: Start) {
    process.title = `turnpike worker ${slot}`;
    const clock = systemClock;
    const metrics = this.#metrics;
    const log = createLog(logLevel, { worker: slot });
    this.#log = log;
    process.on('uncaughtException', (error) => this.#crash(error));
    const deadlines = new Deadlines(clock);
    this.#gate = new WorkerGate(clock, tell);
    this.#overload = new WorkerOverload({ clock, log, metrics });
    const overload = this.#overload.guard;
    this.#traffic = new Traffic<Backends>(
      clock,
      (service, down) =>
        new Backends(service, down, {
          clock,
          deadlines,
          log,
          metrics,
          limits: () => this.#traffic.table.part.settings.limits,
          cookieKey: () => Buffer.from(this.#traffic.current.snapshot.parts.keys.cookieKey, 'base64'),
          onEjected: (name, address, until) => tell({ kind: 'ejected', service: name, address, until }),
        }),
      (drained) => {
        // The service left the configuration and its last generation is gone: so are its series.
        if (this.#traffic.service(drained.service) === undefined) metrics.drop('service', drained.service);
        tell({ kind: 'drained', ...drained });
      },
      overload,
    );
    const terminator = new TlsTerminator({ clock, deadlines, log, leafFor: (name) => this.#leafFor(name) });
    const handler = new HttpHandler({
      traffic: this.#traffic,
      deadlines,
      clock,
      log,
      metrics,
      accessLog: this.#accessLog,
      workers,
      gate: this.#gate,
    });
    const tunnels = new Tunnels({
      traffic: this.#traffic,
      clock,
      deadlines,
      log,
      metrics,
      accessLog: this.#accessLog,
    });
    this.#entrypoints = new Entrypoints({
      clock,
      overload,
      deadlines,
      log,
      metrics,
      workers,
      keyOf: listenerKey,
      logins: handler.gatekeeper,
      http: handler,
      serveHttp2: (socket, facts) => serveHttp2(socket, facts, handler),
      terminator,
      tunnels,
    });
    this.#udp = new UdpEntrypoints({
      traffic: this.#traffic,
      clock,
      deadlines,
      log,
      metrics,
      accessLog: this.#accessLog,
      logins: handler.gatekeeper,
      keyOf: listenerKey,
      interfaces: networkInterfaces,
    });
    this.#overload.watch({
      entrypoints: this.#entrypoints,
      delayLimitMs: () => this.#traffic.limits?.overloadDelayMs ?? Number.POSITIVE_INFINITY,
      want: (keys) => tell({ kind: 'listeners-wanted', keys }),
    });
    // Certificates and plans are in place before a listener accepts.
    this.#traffic.register(backendTlsCheck);
    this.#traffic.register(terminator);
    this.#traffic.register(this.#entrypoints);
    this.#traffic.register(this.#udp);
    tell({ kind: 'booted' });
  }

  take(message: Exclude<ToWorker, Start>, handle: LentSocket | null): void {
    switch (message.kind) {
      case 'listener':
        if (handle !== null) this.#entrypoints.offer(message.key, handle);
        break;
      case 'withdraw':
        this.#entrypoints.withdraw(message.keys);
        break;
      case 'own':
        this.#udp.own(message.keys);
        break;
      case 'prepare':
        this.#beginPrepare(message.id, message.ask.delta);
        break;
      case 'hold':
        this.#answer<'hold'>(message.id, () => {
          this.#moving = message.ask.services;
          this.#traffic.hold(message.ask.services);
          return null;
        });
        break;
      case 'commit':
        this.#answer<'commit'>(message.id, () => ({ flips: this.#commit(message.ask) }));
        break;
      case 'abort':
        this.#opening++;
        this.#moving = [];
        this.#traffic.abort(this.#prepared);
        this.#prepared = null;
        break;
      case 'credentials':
        this.#answer<'credentials'>(message.id, () => {
          this.#gate.credentials.apply(message.ask);
          // Some may have lost what let them in.
          this.#entrypoints.review();
          this.#udp.review();
          return null;
        });
        break;
      case 'desk':
        this.#gate.answered(message.id, message.answer);
        break;
      case 'throttled':
        this.#gate.throttled(message.addresses);
        break;
      case 'ping':
        this.#answer<'ping'>(message.id, () => null);
        break;
      case 'stats':
        this.#answer<'stats'>(message.id, () => this.#stats());
        break;
      case 'metrics':
        this.#answer<'metrics'>(message.id, () => this.#collectMetrics());
        break;
      case 'leaf':
        this.#leaves.get(message.name)?.(message.certificate);
        this.#leaves.delete(message.name);
        break;
      case 'log':
        this.#log.setLevel(message.level);
        break;
      case 'drain':
        this.#drain(message.limits);
    }
  }

  /** Writes what is left of the access log. */
  flush(): void {
    this.#accessLog.close();
  }

  #answer<Q extends Question>(id: number, run: () => Questions[Q]['answer']): void {
    try {
      tell({ kind: 'answer', id, answer: run(), fault: null });
    } catch (error) {
      if (!(error instanceof Fault)) this.#log.error('bug', { err: error });
      const code = error instanceof Fault ? error.code : 'internal';
      const detail = error instanceof Error ? error.message : String(error);
      tell({ kind: 'answer', id, answer: null, fault: { code, detail } });
    }
  }

  /** Opens what came in small steps, and then builds from it in one. */
  #beginPrepare(id: number, delta: SealedDelta): void {
    const turn = ++this.#opening;
    openParts(delta.parts).then(
      (parts) =>
        this.#answer<'prepare'>(id, () => {
          if (turn !== this.#opening) throw new Fault('publish-refused', 'it was given up meanwhile');
          return this.#prepare({ ...delta, parts });
        }),
      (error: unknown) =>
        this.#answer<'prepare'>(id, () => {
          throw error;
        }),
    );
  }

  #prepare(delta: SnapshotDelta): Questions['prepare']['answer'] {
    // One that was never committed nor aborted: its supervisor gave it up.
    if (this.#prepared !== null) this.#traffic.abort(this.#prepared);
    this.#prepared = null;
    this.#prepared = this.#traffic.prepare(delta);
    return { digests: this.#prepared.compiled.snapshot.digests };
  }

  #commit({ drainMs }: Questions['commit']['ask']): readonly Flip[] {
    if (this.#prepared === null) throw new Fault('internal', 'nothing was prepared');
    const flips = this.#moving.map((name): Flip => {
      const live = this.#traffic.service(name);
      const generation = live?.current.generation.number ?? 0;
      return { service: name, generation, active: live?.current.active ?? 0, held: live?.waiting ?? 0 };
    });
    const prepared = this.#prepared;
    this.#prepared = null;
    this.#moving = [];
    this.#traffic.commit(prepared, drainMs);
    return flips;
  }

  #stats(): WorkerStats {
    return {
      revision: this.#traffic.current.snapshot.revision,
      rssBytes: process.memoryUsage.rss(),
      load: this.#overload.load,
      services: [...this.#traffic.services()].map(({ service, current, draining, waiting }) => ({
        service: service.name,
        generation: current.generation.number,
        active: current.active,
        claimed: current.claimed,
        waiting,
        draining: [...draining].map(({ generation, active, claimed }) => ({
          generation: generation.number,
          active,
          claimed,
        })),
        backends: current.resource.stats().map(({ address, inflight, total, failures, state }) => ({
          address,
          active: inflight,
          requests: total,
          failures,
          ejected: state === 'ejected',
        })),
      })),
      entrypoints: [...this.#entrypoints.stats(), ...this.#udp.stats()],
    };
  }

  #collectMetrics(): ProcessMetrics {
    this.#entrypoints.countBytes();
    return this.#metrics.collect();
  }

  #leafFor(name: string): Promise<Certificate | null> {
    return new Promise((resolve) => {
      this.#leaves.set(name, resolve);
      tell({ kind: 'leaf-wanted', name });
    });
  }

  async #drain({ requestsMs, streamsMs }: DrainLimits): Promise<void> {
    const end = (what: (kind: string) => boolean): void => {
      for (const generation of this.#traffic.generations()) {
        generation.endClaims('shutdown', (holder) => what(holder.claimKind));
      }
    };
    systemClock.after(requestsMs, () => end((kind) => kind === 'request'));
    const lastMs = Math.max(requestsMs, streamsMs);
    const late = new Promise<void>((resolve) => {
      systemClock.after(lastMs, () => {
        end(() => true);
        systemClock.after(lastWordsMs, resolve);
      });
    });
    await Promise.race([Promise.all([this.#entrypoints.drain(), this.#udp.drain()]), late]);
    this.#entrypoints.destroy();
    this.#udp.destroy();
    this.#accessLog.close();
    tell({ kind: 'leaving', metrics: this.#collectMetrics() }, () => process.exit(0));
  }

  /** A bug: what this process holds in memory cannot be trusted any more. The supervisor starts another one. */
  #crash(error: Error): void {
    this.#log.error('uncaught-exception', { err: error });
    this.#accessLog.close();
    process.exit(1);
  }
}

function tell(message: FromWorker, then?: () => void): void {
  if (process.connected) process.send!(message, undefined, undefined, then ?? (() => {}));
}

async function openParts(sealed: SealedDelta['parts']): Promise<Partial<SnapshotParts>> {
  const parts: Partial<Record<PartName, object>> = {};
  for (const [name, part] of Object.entries(sealed) as [PartName, SealedPart][]) {
    parts[name] = await openPart(part, nextTurn);
  }
  return parts as Partial<SnapshotParts>;
}
