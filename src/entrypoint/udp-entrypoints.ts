// The UDP entrypoints of one worker, as the committed snapshot wants them and as far as this worker owns them.
// Invariant: a socket is bound only while this worker owns its address; an entrypoint that keeps its address keeps its
// socket and its flows, whatever else changes. What a publication adds is bound in `prepare`, or the publication fails.
import type { Socket } from 'node:dgram';
import type { networkInterfaces } from 'node:os';
import type { Clock, Timer } from '../base/clock.ts';
import type { Deadlines } from '../base/deadlines.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { type Logins, nobodyLoggedIn } from '../gate/logins.ts';
import type { AccessLog } from '../http/access-log.ts';
import type { EntrypointRoutes, RoutingTable } from '../model/routing-table.ts';
import type { Entrypoint } from '../model/snapshot.ts';
import type { Compiled, Participant, Traffic } from '../traffic/traffic.ts';
import type { FlowBackends } from '../udp/flow.ts';
import { FlowMetrics } from '../udp/flow-cells.ts';
import { FlowLog } from '../udp/flow-log.ts';
import type { RelayDeps, RelaySettings } from '../udp/flow-relay.ts';
import { EntrypointMetrics, type EntrypointStats } from './entrypoint-metrics.ts';
import { ambiguousAddresses } from './reply-address.ts';
import { plainAddress, SourcePolicy } from './source-policy.ts';
import { bindUdp, UdpListener } from './udp-listener.ts';
import { UdpTakeOver } from './udp-take-over.ts';

export interface UdpEntrypointsDeps {
  readonly traffic: Traffic<FlowBackends>;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly accessLog: Pick<AccessLog, 'wanted' | 'write'>;
  /** Who is logged in, for entrypoints that ask for it; absent: nobody. */
  readonly logins?: Logins;
  /** Identity of an entrypoint's socket: its transport and address. */
  keyOf(entrypoint: Entrypoint): string;
  /** The machine's addresses, as node:os tells them. */
  interfaces(): ReturnType<typeof networkInterfaces>;
}

interface Wanted {
  readonly entrypoint: Entrypoint;
  readonly settings: RelaySettings;
}

interface PreparedUdp {
  readonly wanted: ReadonlyMap<string, Wanted>;
  /** Sockets that only the commit will use. */
  readonly bound: Map<string, Socket>;
  /** How long flows of an entrypoint that is removed may go on. */
  readonly drainMs: number;
}

/** One whose entrypoint left the configuration. */
interface Leaving {
  readonly listener: UdpListener;
  /** The end of its flows' time; null: somebody else sees to that. */
  readonly limit: Timer | null;
}

export class UdpEntrypoints implements Participant<PreparedUdp> {
  readonly #deps: UdpEntrypointsDeps;
  readonly #relayDeps: RelayDeps;
  readonly #shared: EntrypointMetrics;
  readonly #metrics: FlowMetrics;
  readonly #listeners = new Map<string, UdpListener>();
  /** Their entrypoints left the configuration; they wait for their last flow. */
  readonly #leaving = new Map<string, Leaving>();
  readonly #takeOver: UdpTakeOver;
  #owned: ReadonlySet<string> = new Set();
  #wanted: ReadonlyMap<string, Wanted> = new Map();
  #draining = false;
  #onGone: (() => void) | null = null;

  constructor(deps: UdpEntrypointsDeps) {
    this.#deps = deps;
    this.#shared = new EntrypointMetrics(deps.metrics);
    this.#metrics = new FlowMetrics(deps.metrics);
    const { traffic, clock, deadlines, log, metrics } = deps;
    this.#takeOver = new UdpTakeOver(clock, log, metrics, (key, socket) => this.#listen(key, socket));
    this.#relayDeps = { traffic, clock, deadlines, log: new FlowLog(deps.accessLog) };
  }

  /** These sockets are this worker's from now on, and no others. What it gives up is closed at once: another one waits. */
  own(keys: readonly string[]): void {
    this.#owned = new Set(keys);
    for (const [key, listener] of this.#listeners) {
      if (this.#owned.has(key)) continue;
      this.#listeners.delete(key);
      listener.close();
    }
    this.#takeOverOwned();
  }

  prepare(next: Compiled, current: Compiled | null): PreparedUdp {
    const wanted = new Map<string, Wanted>();
    const bound = new Map<string, Socket>();
    const served = current === null ? [] : udpEntrypoints(current.table);
    const before = new Set(served.map(this.#keyOf));
    const leaving = [...this.#leaving.values()].map(({ listener }) => listener);
    const ours = [...served, ...leaving].map(({ entrypoint }) => entrypoint);
    try {
      for (const routes of udpEntrypoints(next.table)) {
        const key = this.#keyOf(routes);
        wanted.set(key, { entrypoint: routes.entrypoint, settings: this.#compile(routes, next.table) });
        // One that was there before is bound, or is being bound again, which no publication waits for.
        if (this.#draining || !this.#owned.has(key) || before.has(key)) continue;
        if (!this.#listeners.has(key) && !this.#leaving.has(key)) bound.set(key, bindUdp(routes.entrypoint, ours));
      }
    } catch (error) {
      for (const socket of bound.values()) socket.close();
      throw error;
    }
    const { limits } = next.table.part.settings;
    return { wanted, bound, drainMs: limits.streamDrainMs };
  }

  commit({ wanted, bound, drainMs }: PreparedUdp): void {
    this.#wanted = wanted;
    for (const [key, listener] of this.#listeners) if (!wanted.has(key)) this.#leave(key, listener, drainMs);
    for (const [key, { settings, entrypoint }] of wanted) {
      const listener = this.#listeners.get(key) ?? this.#comeBack(key);
      const socket = bound.get(key);
      if (listener !== null) {
        const { name } = listener.entrypoint;
        listener.configure(entrypoint, settings);
        this.#forget(name);
      } else if (socket !== undefined && this.#owned.has(key) && !this.#draining) {
        bound.delete(key);
        this.#listen(key, socket);
      }
    }
    for (const socket of bound.values()) socket.close();
    this.#takeOverOwned();
  }

  abort({ bound }: PreparedUdp): void {
    for (const socket of bound.values()) socket.close();
  }

  /** Logins have ended. */
  review(): void {
    const leaving = [...this.#leaving.values()].map(({ listener }) => listener);
    for (const { relay } of [...this.#listeners.values(), ...leaving]) relay.review();
  }

  stats(): readonly EntrypointStats[] {
    const stats = (name: string): EntrypointStats => this.#shared.stats(name, this.#shared.cells(name));
    return [
      ...[...this.#listeners.values()].map(({ entrypoint: { name } }) => stats(name)),
      ...this.#takeOver.problems().map(({ name, problem }) => ({ ...stats(name), problem })),
    ];
  }

  /** Takes no new flows; resolves when the last one has ended. How long that may take is the caller's to say. */
  drain(): Promise<void> {
    this.#draining = true;
    this.#takeOver.keep(() => false);
    return new Promise((resolve) => {
      this.#onGone = resolve;
      for (const [key, listener] of this.#listeners) this.#leave(key, listener, null);
      this.#checkGone();
    });
  }

  /** Ends everything now. */
  destroy(): void {
    this.#draining = true;
    this.#takeOver.keep(() => false);
    for (const { listener, limit } of this.#leaving.values()) {
      limit?.cancel();
      listener.close();
    }
    for (const listener of this.#listeners.values()) listener.close();
    this.#listeners.clear();
    this.#leaving.clear();
    this.#checkGone();
  }

  // ---- inside ----------------------------------------------------------------------------------------------------

  readonly #keyOf = ({ entrypoint }: EntrypointRoutes): string => this.#deps.keyOf(entrypoint);

  #compile({ entrypoint, udp }: EntrypointRoutes, table: RoutingTable): RelaySettings {
    const service = udp === null ? undefined : table.services.get(udp.service);
    const policy = SourcePolicy.of(entrypoint, this.#deps.logins ?? nobodyLoggedIn);
    const { active, accepted, received, sent, refused } = this.#shared.cells(entrypoint.name);
    const { limits } = table.part.settings;
    return {
      entrypoint: entrypoint.name,
      service: udp?.service ?? null,
      maxFlows: entrypoint.limits.udpSessions,
      idleMs: service?.network?.udpIdleTimeoutMs ?? limits.udpIdleTimeoutMs,
      drainMs: service?.streamDrainMs ?? limits.streamDrainMs,
      cells: this.#metrics.cells(entrypoint.name, {
        active,
        accepted,
        received,
        sent,
        sourceRefused: refused('source'),
      }),
      admit(address) {
        const plain = plainAddress(address);
        return policy.admits(plain) ? plain : null;
      },
    };
  }

  /** Binds what is owned and wanted, and was another worker's until now. */
  #takeOverOwned(): void {
    this.#takeOver.keep((key) => this.#owned.has(key) && this.#wanted.has(key));
    if (this.#draining) return;
    for (const [key, { entrypoint }] of this.#wanted) {
      if (this.#owned.has(key) && !this.#listeners.has(key)) this.#takeOver.begin(key, entrypoint);
    }
  }

  #listen(key: string, socket: Socket): void {
    const { entrypoint, settings } = this.#wanted.get(key)!;
    if (entrypoint.host === '') this.#warnOfReplies(entrypoint);
    this.#listeners.set(key, new UdpListener(entrypoint, socket, settings, this.#relayDeps, this.#deps.log));
  }

  #warnOfReplies({ name }: Entrypoint): void {
    const addresses = ambiguousAddresses(this.#deps.interfaces());
    if (addresses.length === 0) return;
    const detail = 'replies may leave from another address than was asked; give each address an entrypoint of its own';
    this.#deps.log.warn('udp-wildcard-replies', { entrypoint: name, addresses: addresses.join(' '), detail });
  }

  #comeBack(key: string): UdpListener | null {
    const leaving = this.#leaving.get(key);
    if (leaving === undefined || this.#draining || !this.#owned.has(key)) return null;
    const { listener, limit } = leaving;
    limit?.cancel();
    this.#leaving.delete(key);
    this.#listeners.set(key, listener);
    listener.relay.resume();
    return listener;
  }

  #leave(key: string, listener: UdpListener, drainMs: number | null): void {
    const gone = (): void => {
      if (this.#leaving.get(key)?.listener !== listener) return;
      limit?.cancel();
      this.#leaving.delete(key);
      listener.close();
      if (!this.#draining) this.#forget(listener.entrypoint.name);
      this.#checkGone();
    };
    const limit = drainMs === null ? null : this.#deps.clock.after(drainMs, gone);
    this.#listeners.delete(key);
    this.#leaving.set(key, { listener, limit });
    listener.relay.drain(gone);
  }

  /** Drops the series of an entrypoint that is no longer called like this. */
  #forget(name: string): void {
    for (const { entrypoint } of this.#wanted.values()) if (entrypoint.name === name) return;
    this.#shared.drop(name);
    this.#metrics.drop(name);
  }

  #checkGone(): void {
    if (this.#listeners.size > 0 || this.#leaving.size > 0 || this.#onGone === null) return;
    const onGone = this.#onGone;
    this.#onGone = null;
    onGone();
  }
}

function udpEntrypoints(table: RoutingTable): readonly EntrypointRoutes[] {
  return [...table.entrypoints.values()].filter(({ entrypoint }) => entrypoint.protocol === 'udp');
}
