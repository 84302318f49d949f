// UDP addresses that this worker owns and another socket still has: the last owner's, for an instant, or a stranger's.
// Invariant: each is tried again, ever more slowly, until it is bound or given up; a stranger is told of once in the log, and
// in the stats and a gauge for as long as it is in the way.
import type { Socket } from 'node:dgram';
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Family, Metrics } from '../base/metrics.ts';
import type { Entrypoint } from '../model/snapshot.ts';
import { bindUdp } from './udp-listener.ts';

/** The first tries are for an owner that is just leaving, the later ones for whatever else took the port meanwhile. */
const firstRetryMs = 2;
const longestRetryMs = 1000;

interface Waiting {
  readonly entrypoint: Entrypoint;
  readonly timer: Timer;
  /** Why it cannot be had; null: the last owner may just be closing it. */
  readonly problem: string | null;
}

export class UdpTakeOver {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #unbound: Family;
  readonly #onBound: (key: string, socket: Socket) => void;
  readonly #waiting = new Map<string, Waiting>();

  constructor(clock: Clock, log: Log, metrics: Metrics, onBound: (key: string, socket: Socket) => void) {
    this.#clock = clock;
    this.#log = log;
    this.#unbound = metrics.gauge('udp_unbound', '1: the port of this UDP entrypoint is taken by a stranger.', [
      'entrypoint',
    ]);
    this.#onBound = onBound;
  }

  /** Binds it now, or as soon as that is possible. Harmless when that is under way. */
  begin(key: string, entrypoint: Entrypoint): void {
    const waiting = this.#waiting.get(key);
    if (waiting?.entrypoint.name === entrypoint.name) return;
    this.#forget(key);
    this.#try(key, entrypoint, firstRetryMs);
  }

  /** Gives up all but these. */
  keep(isStill: (key: string) => boolean): void {
    for (const key of this.#waiting.keys()) if (!isStill(key)) this.#forget(key);
  }

  /** Entrypoints that nobody can reach, and why. */
  problems(): readonly { readonly name: string; readonly problem: string }[] {
    return [...this.#waiting.values()].flatMap(({ entrypoint: { name }, problem }) =>
      problem === null ? [] : [{ name, problem }],
    );
  }

  #forget(key: string): void {
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) return;
    this.#waiting.delete(key);
    waiting.timer.cancel();
    if (waiting.problem !== null) this.#unbound.drop('entrypoint', waiting.entrypoint.name);
  }

  #try(key: string, entrypoint: Entrypoint, retryMs: number): void {
    let socket: Socket;
    try {
      socket = bindUdp(entrypoint, []);
    } catch (error) {
      this.#failed(key, entrypoint, retryMs, error);
      return;
    }
    this.#forget(key);
    this.#log.info('udp-taken-over', { entrypoint: entrypoint.name });
    this.#onBound(key, socket);
  }

  #failed(key: string, entrypoint: Entrypoint, retryMs: number, error: unknown): void {
    const nextMs = Math.min(retryMs * 2, longestRetryMs);
    let problem = this.#waiting.get(key)?.problem ?? null;
    // The last owner's socket is closed within milliseconds; somebody else's is news, once.
    if (nextMs === longestRetryMs && problem === null) {
      problem = error instanceof Error ? error.message : String(error);
      this.#log.error('udp-bind-failed', { entrypoint: entrypoint.name, err: error });
      this.#unbound.cell(entrypoint.name).value = 1;
    }
    const timer = this.#clock.after(retryMs, () => this.#try(key, entrypoint, nextMs));
    this.#waiting.set(key, { entrypoint, timer, problem });
  }
}
