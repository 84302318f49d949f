// A world for the life cycle of certificates: true time, processes with clocks of their own that may be wrong, and stores that
// stop with the process that uses them.
// Invariant: what a process did before it was killed has happened, what it would have done next never does.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock, Timer } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { Metrics } from '../../src/base/metrics.ts';
import { FileStore } from '../../src/certificates/acme/file-store.ts';
import type { Issuer } from '../../src/certificates/acme/issuer.ts';
import type { Preflight } from '../../src/certificates/acme/preflight.ts';
import { RenewalMetrics } from '../../src/certificates/acme/renewal-metrics.ts';
import { Renewals } from '../../src/certificates/acme/renewals.ts';
import type { RenewalSettings } from '../../src/certificates/acme/settings.ts';
import { type AcmeStore, entryId } from '../../src/certificates/acme/store.ts';
import { HandClock } from './hand-clock.ts';

export const epoch = Date.UTC(2026, 0, 1);
/** Memory where there is some: four hundred days of fsync take long on a disk. */
const fast = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** A clock that a process sees: its wall may be wrong, its timers end with it. */
export class ProcessClock implements Clock {
  skewMs = 0;
  dead = false;
  /** SIGSTOP: timers do not run. */
  stopped = false;
  readonly #base: Clock;

  constructor(base: Clock) {
    this.#base = base;
  }

  now(): number {
    return epoch + this.#base.now() + this.skewMs;
  }

  monotonic(): number {
    return this.#base.monotonic();
  }

  after(ms: number, fn: () => void): Timer {
    return this.#base.after(ms, () => {
      if (!this.dead && !this.stopped) fn();
    });
  }

  every(ms: number, fn: () => void): Timer {
    const timer = this.#base.every(ms, () => {
      if (this.dead) timer.cancel();
      else if (!this.stopped) fn();
    });
    return timer;
  }
}

export interface NodeOptions {
  readonly settings: RenewalSettings;
  readonly store?: AcmeStore;
  readonly preflight?: Preflight;
  readonly pollMs?: number;
  readonly random?: () => number;
  readonly skewMs?: number;
}

/** One process that looks after certificates. */
export class AcmeNode {
  readonly clock: ProcessClock;
  readonly store: AcmeStore;
  readonly metrics = new Metrics();
  readonly renewals: Renewals;

  private constructor(world: AcmeWorld, options: NodeOptions) {
    this.clock = new ProcessClock(world.clock);
    this.clock.skewMs = options.skewMs ?? 0;
    this.store = mortal(options.store ?? new FileStore(world.directory), this.clock);
    this.renewals = new Renewals({
      clock: this.clock,
      log: silentLog,
      metrics: new RenewalMetrics(this.metrics),
      store: this.store,
      holder: `node-${world.started++}`,
      preflight: options.preflight ?? (async () => null),
      // As the whole product does: other certificates may mean other targets.
      onChange: async () => this.renewals.follow(this.renewals.settings),
      onLease: () => {},
      random: options.random ?? (() => 0.5),
      pollMs: options.pollMs ?? 3_600_000,
    });
  }

  static async start(world: AcmeWorld, options: NodeOptions): Promise<AcmeNode> {
    await new FileStore(world.directory).open();
    const node = new AcmeNode(world, options);
    world.nodes.add(node);
    await node.renewals.load();
    node.renewals.follow(options.settings);
    node.renewals.start();
    return node;
  }

  /** SIGKILL: nothing is told to anybody. */
  kill(): void {
    this.clock.dead = true;
  }
}

/** Calls of a process that is dead never come back. */
function mortal(store: AcmeStore, clock: ProcessClock): AcmeStore {
  return new Proxy(store, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== 'function') return member;
      return async (...args: unknown[]) => {
        if (clock.dead) await new Promise(() => {});
        const result: unknown = await (member as (...all: unknown[]) => unknown).apply(target, args);
        if (clock.dead) await new Promise(() => {});
        return result;
      };
    },
  });
}

export class AcmeWorld {
  readonly clock = new HandClock();
  readonly directory = mkdtempSync(join(fast, 'turnpike-acme-'));
  readonly nodes = new Set<AcmeNode>();
  started = 0;

  /** True time. */
  readonly now = (): number => epoch + this.clock.now();

  /** Lets time pass timer by timer; everything that a timer set off is over before the next one. */
  async pass(ms: number, look: () => void = () => {}): Promise<void> {
    const until = this.clock.now() + ms;
    for (;;) {
      await this.idle();
      look();
      const next = this.clock.nextAt;
      if (next === null || next > until) break;
      this.clock.advance(next - this.clock.now());
    }
    this.clock.advance(until - this.clock.now());
    await this.idle();
    look();
  }

  async idle(): Promise<void> {
    for (const { clock, renewals } of this.nodes) if (!clock.dead) await renewals.idle();
  }

  close(): void {
    for (const node of this.nodes) node.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

export interface SettingsOptions {
  readonly issuers: readonly Issuer[];
  readonly names: readonly string[];
  readonly announcements?: boolean;
}

export function settingsFor({ issuers, names, announcements = true }: SettingsOptions): RenewalSettings {
  return {
    targets: names.map((name) => ({
      id: entryId([name]),
      names: [name],
      coveredBy: null,
      directories: issuers.map(({ directoryUrl }) => directoryUrl),
      impossible: null,
      challenge: 'http-01',
      challengeWhy: '',
    })),
    directories: issuers.map((issuer) => ({
      url: issuer.directoryUrl,
      issuer,
      profile: null,
      preferredChain: null,
    })),
    keyType: 'p256',
    announcements,
  };
}

/** The same numbers every time (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let x = Math.imul(state ^ (state >>> 15), 1 | state);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}
