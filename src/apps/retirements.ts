// Generations that serve no more: waits until nobody uses them, then stops them, in the background.
// Invariant: an instance is asked to end only after its last claim is gone (or its drain limit over) and while it is written
// down as stopping; what could not be stopped is tried again until it is gone, and is never forgotten before.
import type { Clock, Timer } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { AppsBook } from './book.ts';
import type { AppsObserver, AppsStore } from './ports.ts';
import type { Retiring } from './state.ts';

export interface RetirementGround {
  readonly clock: Clock;
  readonly log: Log;
  readonly book: AppsBook;
  readonly store: AppsStore;
  readonly runtime: Runtime;
  readonly observer: AppsObserver;
}

const retryMs = 5000;

export class Retirements {
  readonly #ground: RetirementGround;
  readonly #running = new Map<string, Retirement>();

  constructor(ground: RetirementGround) {
    this.#ground = ground;
  }

  /**
   * Takes over what has just been written down as retiring.
   * @param drained  its claims are gone
   * @param keepMs  how long it stays in any case: it may have to serve again
   */
  begin(instance: string, drained: Promise<unknown>, keepMs: number): void {
    const retirement = new Retirement(instance, this.#ground, () => this.#running.delete(instance));
    this.#running.set(instance, retirement);
    retirement.begin(drained, keepMs);
  }

  /** Those that an earlier process left behind: they have no claims any more. */
  resume(): void {
    for (const { instance } of this.#ground.book.retiring()) {
      if (!this.#running.has(instance.id)) this.begin(instance.id, Promise.resolve(), 0);
    }
  }

  /** Not stopped before `release`; false: it is too late. */
  keep(instance: string): boolean {
    return this.#running.get(instance)?.keep() ?? false;
  }

  release(instance: string): void {
    this.#running.get(instance)?.release();
  }

  /** It serves again. */
  cancel(instance: string): void {
    this.#running.get(instance)?.cancel();
    this.#running.delete(instance);
  }

  /** Stops every one of a service now, drained or not, and waits until all are gone. Rejects when one cannot be stopped. */
  async hasten(incarnation: string, service: string | null): Promise<void> {
    const all = this.#ground.book.retiringOf(incarnation, service);
    for (const { instance } of all) if (!this.#running.has(instance.id)) this.begin(instance.id, Promise.resolve(), 0);
    await Promise.all(all.map(({ instance }) => this.#running.get(instance.id)?.hasten()));
  }

  close(): void {
    for (const each of this.#running.values()) each.cancel();
    this.#running.clear();
  }
}

class Retirement {
  readonly #id: string;
  readonly #ground: RetirementGround;
  readonly #onGone: () => void;
  #kept = false;
  #due = false;
  #stopping = false;
  #cancelled = false;
  #timer: Timer | null = null;
  readonly #waiting: { readonly resolve: () => void; readonly reject: (fault: Fault) => void }[] = [];

  constructor(id: string, ground: RetirementGround, onGone: () => void) {
    this.#id = id;
    this.#ground = ground;
    this.#onGone = onGone;
  }

  begin(drained: Promise<unknown>, keepMs: number): void {
    const window =
      keepMs === 0
        ? Promise.resolve()
        : new Promise<void>((resolve) => {
            this.#ground.clock.after(keepMs, resolve);
          });
    Promise.all([drained, window]).then(() => {
      this.#due = true;
      if (!this.#kept) void this.#stop();
    });
  }

  keep(): boolean {
    if (this.#stopping || this.#cancelled) return false;
    this.#kept = true;
    return true;
  }

  release(): void {
    this.#kept = false;
    if (this.#due) void this.#stop();
  }

  cancel(): void {
    this.#cancelled = true;
    this.#timer?.cancel();
  }

  hasten(): Promise<void> {
    const gone = new Promise<void>((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
    });
    this.#timer?.cancel();
    this.#timer = null;
    void this.#stop();
    return gone;
  }

  async #stop(): Promise<void> {
    if (this.#stopping || this.#cancelled) return;
    this.#stopping = true;
    const { book, store, runtime, log, clock, observer } = this.#ground;
    const row = book.retiringInstance(this.#id);
    if (row === null) return;
    const { instance } = row;
    const names = { app: row.app, service: row.service, instance: instance.id };
    try {
      if (row.phase !== 'stopping') this.#write({ ...row, phase: 'stopping' });
      observer('stop-old');
      await runtime.stop(instance, instance.stopGraceMs, (step) => log.info(`app-instance-${step}`, names));
      await runtime.forget(instance.id);
      observer('old-stopped');
      const change = { retired: [instance.id] };
      store.write(change);
      book.adopt(change);
      log.info('app-instance-stopped', names);
      this.#onGone();
      for (const { resolve } of this.#waiting.splice(0)) resolve();
    } catch (error) {
      // Whoever starts next goes on with it.
      if (this.#cancelled) return;
      log.error('app-instance-not-stopped', { ...names, err: error });
      const fault = new Fault('stop-failed', `${row.app}/${row.service} was not stopped: ${messageOf(error)}`);
      for (const { reject } of this.#waiting.splice(0)) reject(fault);
      this.#stopping = false;
      this.#timer = clock.after(retryMs, () => void this.#stop());
    }
  }

  #write(row: Retiring): void {
    const change = { retiring: [row] };
    this.#ground.store.write(change);
    this.#ground.book.adopt(change);
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
