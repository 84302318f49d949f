// The listeners of one worker, as the committed snapshot wants them.
// Invariant: listeners are identified by their address: an entrypoint that keeps its address keeps its listening socket
// and its connections, whatever else changes. Nothing is accepted before the commit that names it.
import type { Clock } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import type { Metrics } from '../base/metrics.ts';
import { type Logins, nobodyLoggedIn } from '../gate/logins.ts';
import type { Entrypoint, EntrypointProtocol } from '../model/snapshot.ts';
import type { OverloadGuard } from '../traffic/overload-guard.ts';
import type { Compiled, Participant } from '../traffic/traffic.ts';
import type { Speak } from './connection.ts';
import { EntrypointMetrics, type EntrypointStats } from './entrypoint-metrics.ts';
import { httpEntrypoint } from './http-entrypoint.ts';
import { httpsEntrypoint } from './https-entrypoint.ts';
import { Listener } from './listener.ts';
import { compileSettings, type ListenerSettings } from './listener-settings.ts';
import { type MuxDeps, muxEntrypoint } from './mux-entrypoint.ts';
import { smartEntrypoint } from './smart-entrypoint.ts';
import { tcpEntrypoint } from './tcp-entrypoint.ts';

export interface EntrypointsDeps extends MuxDeps {
  readonly clock: Clock;
  readonly overload: Pick<OverloadGuard, 'hasRoom'>;
  readonly metrics: Metrics;
  /** Connection limits are shared out over this many. */
  readonly workers: number;
  /** Who is logged in, for entrypoints that ask for it; absent: nobody. */
  readonly logins?: Logins;
  /** Identity of an entrypoint's listener: its transport and address. */
  keyOf(entrypoint: Entrypoint): string;
}

/** The bare handle of a bound socket, as the IPC channel delivers it. */
export interface LentSocket {
  close(): void;
}

interface WantedListener {
  readonly settings: ListenerSettings;
  readonly speak: Speak;
}

interface PreparedEntrypoints {
  readonly wanted: ReadonlyMap<string, WantedListener>;
  /** How long connections of an entrypoint that is removed may go on. */
  readonly drainMs: number;
}

export class Entrypoints implements Participant<PreparedEntrypoints> {
  readonly #deps: EntrypointsDeps;
  readonly #metrics: EntrypointMetrics;
  readonly #protocols: Readonly<Record<Exclude<EntrypointProtocol, 'udp'>, Speak>>;
  /** Bound sockets that no commit has named yet, by key. */
  readonly #offered = new Map<string, LentSocket>();
  readonly #listeners = new Map<string, Listener>();
  /** Accept nothing any more and wait for their last connections. */
  readonly #leaving = new Set<Listener>();
  #draining = false;
  #onGone: (() => void) | null = null;

  constructor(deps: EntrypointsDeps) {
    this.#deps = deps;
    this.#metrics = new EntrypointMetrics(deps.metrics);
    this.#protocols = {
      http: httpEntrypoint(deps),
      https: httpsEntrypoint(deps),
      smart_tcp: smartEntrypoint(deps),
      tls_mux: muxEntrypoint(deps),
      tcp: tcpEntrypoint(deps),
    };
  }

  /** Lends a bound socket. It is listened on once a committed snapshot names its key. */
  offer(key: string, lent: LentSocket): void {
    const listener = this.#listeners.get(key);
    if (listener !== undefined) {
      // Asked for by a listener that had paused; or once too often.
      if (listener.paused) listener.resume(lent);
      else lent.close();
      return;
    }
    this.#offered.get(key)?.close();
    if (this.#draining) lent.close();
    else this.#offered.set(key, lent);
  }

  /** Logins have ended. */
  review(): void {
    for (const listener of [...this.#listeners.values(), ...this.#leaving]) listener.review();
  }

  /** Takes offers back that no commit has named. */
  withdraw(keys: readonly string[]): void {
    for (const key of keys) {
      this.#offered.get(key)?.close();
      this.#offered.delete(key);
    }
  }

  prepare(next: Compiled): PreparedEntrypoints {
    const wanted = new Map<string, WantedListener>();
    const { settings } = next.table.part;
    for (const routes of next.table.entrypoints.values()) {
      const { entrypoint } = routes;
      // Datagrams have no listener and no connections.
      if (entrypoint.protocol === 'udp') continue;
      const speak = this.#protocols[entrypoint.protocol];
      const key = this.#deps.keyOf(entrypoint);
      // A worker that drains follows publications for the requests it still has, without a listener.
      if (!this.#draining && !this.#listeners.has(key) && !this.#offered.has(key)) {
        throw new Fault('bind-failed', `${entrypoint.origin}: no socket was lent for ${key}`);
      }
      const { workers, clock, logins = nobodyLoggedIn } = this.#deps;
      const cells = this.#metrics.cells(entrypoint.name);
      wanted.set(key, { settings: compileSettings(routes, settings, workers, clock, cells, logins), speak });
    }
    return { wanted, drainMs: Math.max(settings.limits.drainMs, settings.limits.streamDrainMs) };
  }

  commit({ wanted, drainMs }: PreparedEntrypoints): void {
    for (const [key, listener] of this.#listeners) {
      if (wanted.has(key)) continue;
      this.#leave(key, listener);
      this.#deps.clock.after(drainMs, () => listener.destroy());
    }
    if (this.#draining) return;
    for (const [key, { settings, speak }] of wanted) {
      const listener = this.#listeners.get(key);
      if (listener !== undefined) {
        listener.configure(settings, speak);
        continue;
      }
      const lent = this.#offered.get(key)!;
      this.#offered.delete(key);
      this.#listeners.set(key, new Listener(key, lent, settings, speak, this.#deps));
    }
  }

  abort(): void {
    // Offers stay until they are withdrawn: the next publication may name them.
  }

  /** Accepts nothing until each socket is offered again. */
  pause(): void {
    for (const listener of this.#listeners.values()) if (!listener.paused) listener.pause();
  }

  /** What `offer` has to bring for the paused ones to go on. */
  get pausedKeys(): readonly string[] {
    return [...this.#listeners].filter(([, listener]) => listener.paused).map(([key]) => key);
  }

  /** Closes connections that have asked for nothing in several calls of this; how many. */
  sweepIdle(): number {
    let closed = 0;
    for (const listener of this.#listeners.values()) closed += listener.sweepIdle();
    return closed;
  }

  stats(): readonly EntrypointStats[] {
    this.countBytes();
    return [...this.#listeners.values()].map(({ settings }) =>
      this.#metrics.stats(settings.entrypoint.name, settings.cells),
    );
  }

  /** Brings the counters of bytes up to now. */
  countBytes(): void {
    for (const listener of [...this.#listeners.values(), ...this.#leaving]) listener.countBytes();
  }

  /** Client connections that are open, those of leaving listeners included. */
  get connections(): number {
    let sum = 0;
    for (const listener of [...this.#listeners.values(), ...this.#leaving]) sum += listener.connections;
    return sum;
  }

  /**
   * Accepts nothing more. Requests in work are finished, idle connections told to go; resolves when the last connection is
   * closed. How long that may take is the caller's to say, with `destroy`.
   */
  drain(): Promise<void> {
    this.#draining = true;
    this.withdraw([...this.#offered.keys()]);
    for (const [key, listener] of this.#listeners) this.#leave(key, listener);
    if (this.#leaving.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onGone = resolve;
    });
  }

  /** Ends everything now. */
  destroy(): void {
    this.#draining = true;
    this.withdraw([...this.#offered.keys()]);
    for (const listener of [...this.#listeners.values(), ...this.#leaving]) listener.destroy();
  }

  #leave(key: string, listener: Listener): void {
    this.#listeners.delete(key);
    this.#leaving.add(listener);
    listener.drain(() => {
      this.#leaving.delete(listener);
      const { name } = listener.settings.entrypoint;
      if (!this.#draining && !this.#isNamed(name)) this.#metrics.drop(name);
      if (this.#leaving.size === 0) this.#onGone?.();
    });
  }

  #isNamed(entrypoint: string): boolean {
    for (const { settings } of this.#listeners.values()) if (settings.entrypoint.name === entrypoint) return true;
    return false;
  }
}
