// The way to the engine over the life of the process: opened when first needed, and again after the engine was away.
// Invariant: whoever gets an engine from here gets one that answered a moment ago; what it is was asked of itself.
import type { Clock } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import { Engine, type EngineOptions } from './engine.ts';
import type { Owner } from './ownership.ts';

/** For so long an answer counts as proof that the next call will be answered too. */
const trustMs = 1000;

export class EngineDoor {
  readonly #clock: Clock;
  readonly #options: EngineOptions;
  readonly #owner: Owner;
  #engine: Engine | null = null;
  #provenAt = 0;
  #closed = false;
  #opening: Promise<Engine> | null = null;

  constructor(clock: Clock, options: EngineOptions, owner: Owner) {
    this.#clock = clock;
    this.#options = options;
    this.#owner = owner;
  }

  /** Throws a Fault `runtime-unavailable`. */
  open(): Promise<Engine> {
    if (this.#engine !== null && this.#clock.monotonic() - this.#provenAt < trustMs) {
      return Promise.resolve(this.#engine);
    }
    this.#opening ??= this.#prove().finally(() => {
      this.#opening = null;
    });
    return this.#opening;
  }

  /** For good: what waits for the engine is told that it is away. */
  close(): void {
    this.#closed = true;
    this.#forget();
  }

  #forget(): void {
    this.#engine?.close();
    this.#engine = null;
  }

  async #prove(): Promise<Engine> {
    const known = this.#engine;
    if (known !== null) {
      try {
        await known.ping();
        this.#provenAt = this.#clock.monotonic();
        return known;
      } catch {
        // It ended, or another one has taken its place: found anew.
        this.#forget();
      }
    }
    if (this.#closed) throw new Fault('runtime-unavailable', 'Turnpike is ending');
    this.#engine = await Engine.open(this.#options, this.#owner);
    this.#provenAt = this.#clock.monotonic();
    return this.#engine;
  }
}
