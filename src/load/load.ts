// One load run: decides when each request begins, and counts what becomes of it.
// Invariant: in an open loop a latency counts from the moment the request was due, not from when a lane was free for it: a
// target that stalls cannot hide the requests that it kept from being sent (coordinated omission).
import { Http1Lane } from './http1-lane.ts';
import { Http2Connection } from './http2-lane.ts';
import type { Lane, LaneHost } from './lane.ts';
import type { LoadPlan } from './plan.ts';
import { type LoadReport, Tally } from './tally.ts';
import { UdpLane } from './udp-lane.ts';
import { WebSocketLane } from './websocket-lane.ts';

/**
 * Timers wake about once a millisecond. A request that is sent by the first wake-up after its time counts from that
 * wake-up: the grain of our own timer is no latency of the target. One that is later than this counts from its time.
 */
const grainMs = 2;
const wakeMs = 1;
const sweepMs = 50;

export interface LoadProgress {
  readonly elapsedMs: number;
  readonly answered: number;
  readonly failed: number;
  /** Answers per second since the last call. */
  readonly perSecond: number;
  /** Microseconds, of the whole run until now. */
  readonly p50: number;
  readonly p99: number;
}

/** Resolves when every request that was begun has ended. `signal` ends it early, with a report of what was seen. */
export function runLoad(
  plan: LoadPlan,
  progress: (progress: LoadProgress) => void,
  signal: AbortSignal,
): Promise<LoadReport> {
  return new Promise((resolve) => new LoadRun(plan, progress, resolve, signal).start());
}

class LoadRun implements LaneHost {
  readonly plan: LoadPlan;
  readonly #tally = new Tally();
  readonly #progress: (progress: LoadProgress) => void;
  readonly #resolve: (report: LoadReport) => void;
  readonly #signal: AbortSignal;
  readonly #lanes: Lane[] = [];
  readonly #idle: Lane[] = [];
  readonly #working = new Set<Lane>();
  readonly #timers: NodeJS.Timeout[] = [];
  #startedAt = 0;
  #endsAt = 0;
  #stopped = false;
  #answeredInTime = 0;

  constructor(
    plan: LoadPlan,
    progress: (progress: LoadProgress) => void,
    resolve: (report: LoadReport) => void,
    signal: AbortSignal,
  ) {
    this.plan = plan;
    this.#progress = progress;
    this.#resolve = resolve;
    this.#signal = signal;
  }

  start(): void {
    this.#makeLanes();
    this.#startedAt = performance.now();
    this.#endsAt = this.#startedAt + this.plan.durationMs;
    this.#timers.push(setTimeout(() => this.#stop(this.#endsAt), this.plan.durationMs));
    this.#timers.push(setInterval(() => this.#sweep(), sweepMs));
    this.#reportEverySecond();
    this.#signal.addEventListener('abort', () => this.#stop(performance.now()), { once: true });
    if (this.#signal.aborted) this.#stop(this.#startedAt);
    else if (this.plan.rate === null) for (const lane of this.#lanes) this.#begin(lane, this.#startedAt);
    else {
      this.#idle.push(...this.#lanes);
      this.#timers.push(setInterval(() => this.#beginDue(), wakeMs));
    }
  }

  // ---- LaneHost --------------------------------------------------------------------------------------------------

  answered(lane: Lane, status: number): void {
    if (!this.#working.delete(lane)) return;
    const now = performance.now();
    this.#tally.answer(status, (now - lane.dueAt) * 1000);
    if (!this.#stopped) this.#answeredInTime++;
    this.#next(lane, now);
  }

  failed(lane: Lane, why: string): void {
    if (!this.#working.delete(lane)) return;
    this.#tally.error(why);
    // A target that refuses at once must not turn the closed loop into a busy one.
    setTimeout(() => this.#next(lane, performance.now()), 10);
  }

  received(bytes: number): void {
    this.#tally.bytesIn += bytes;
  }

  connected(): void {
    this.#tally.connections++;
  }

  // ---- pace ------------------------------------------------------------------------------------------------------

  #next(lane: Lane, now: number): void {
    if (this.#stopped) this.#finishWhenQuiet();
    else if (this.plan.rate === null) this.#begin(lane, now);
    else {
      this.#idle.push(lane);
      this.#beginDue();
    }
  }

  #begin(lane: Lane, dueAt: number): void {
    lane.dueAt = dueAt;
    this.#working.add(lane);
    this.#tally.begun++;
    lane.begin();
  }

  #beginDue(): void {
    if (this.#stopped) return;
    const now = performance.now();
    const due = this.#dueAt(Math.min(now, this.#endsAt));
    while (this.#tally.begun < due && this.#idle.length > 0) {
      const dueAt = this.#startedAt + (this.#tally.begun * 1000) / this.plan.rate!;
      this.#begin(this.#idle.pop()!, now - dueAt <= grainMs ? now : dueAt);
    }
  }

  /** Open loop: requests whose time has come. The first one's is the start. */
  #dueAt(now: number): number {
    const { rate, durationMs } = this.plan;
    const elapsed = Math.floor(((now - this.#startedAt) / 1000) * rate!) + 1;
    return Math.min(elapsed, Math.max(1, Math.round((durationMs / 1000) * rate!)));
  }

  /** Ends requests that take too long. */
  #sweep(): void {
    const now = performance.now();
    for (const lane of this.#working) {
      if (now - lane.dueAt < this.plan.timeoutMs) continue;
      lane.abandon();
      this.failed(lane, 'timeout');
    }
  }

  // ---- end -------------------------------------------------------------------------------------------------------

  #stop(endsAt: number): void {
    if (this.#stopped) return;
    this.#endsAt = endsAt;
    if (this.plan.rate !== null) {
      this.#beginDue();
      this.#tally.unsent = Math.max(0, this.#dueAt(endsAt) - this.#tally.begun);
    }
    this.#stopped = true;
    this.#finishWhenQuiet();
  }

  #finishWhenQuiet(): void {
    if (this.#working.size > 0) return;
    for (const timer of this.#timers) clearTimeout(timer);
    for (const lane of this.#lanes) lane.close();
    this.#resolve(this.#tally.report(Math.max(1, this.#endsAt - this.#startedAt), this.#answeredInTime));
  }

  #reportEverySecond(): void {
    let before = 0;
    let last = this.#startedAt;
    const tell = (): void => {
      const now = performance.now();
      const { answered, failed, latency } = this.#tally;
      const perSecond = ((answered - before) * 1000) / (now - last);
      this.#progress({
        elapsedMs: now - this.#startedAt,
        answered,
        failed,
        perSecond,
        p50: latency.percentile(50),
        p99: latency.percentile(99),
      });
      before = answered;
      last = now;
    };
    this.#timers.push(setInterval(tell, 1000));
  }

  #makeLanes(): void {
    const { protocol, connections, streams } = this.plan;
    for (let i = 0; i < connections; i++) {
      if (protocol === 'http1') this.#lanes.push(new Http1Lane(this));
      else if (protocol === 'websocket') this.#lanes.push(new WebSocketLane(this));
      else if (protocol === 'udp') this.#lanes.push(new UdpLane(this));
      else this.#lanes.push(...new Http2Connection(this).lanes(streams));
    }
  }
}
