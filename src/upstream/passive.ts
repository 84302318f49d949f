// What a backend's own answers say about its life: consecutive failures put it out for a while, successes bring it back.
// Invariant: it comes back gradually: one exchange at a time first, twice as many after each success, until it is whole.
// A failure on the way back puts it out again, for longer.
import type { PassiveHealth } from '../model/snapshot.ts';

/** A returning backend is whole again when it may take this many exchanges at a time. */
const wholeAt = 64;
/** Repeated ejections last up to this many times `ejectMs`. */
const longest = 8;

export class PassiveState {
  #rules: PassiveHealth;
  #failures = 0;
  #ejectedUntil = 0;
  /** Exchanges it may have at a time; infinite when whole. */
  #window = Number.POSITIVE_INFINITY;
  /** Ejections since it was last whole. */
  #ejections = 0;

  constructor(rules: PassiveHealth) {
    this.#rules = rules;
  }

  update(rules: PassiveHealth): void {
    this.#rules = rules;
  }

  get whole(): boolean {
    return this.#window === Number.POSITIVE_INFINITY;
  }

  ejected(now: number): boolean {
    return this.#ejectedUntil > now;
  }

  /** One more exchange beside those `inflight` is within the window. */
  admits(inflight: number): boolean {
    return inflight < this.#window;
  }

  /** An exchange got an answer. */
  succeeded(): void {
    this.#failures = 0;
    if (this.#window === Number.POSITIVE_INFINITY) return;
    this.#window *= 2;
    if (this.#window < wholeAt) return;
    this.#window = Number.POSITIVE_INFINITY;
    this.#ejections = 0;
  }

  /** The connection failed. Returns for how many milliseconds this puts the backend out; 0: it does not. */
  failed(now: number): number {
    const { failures, ejectMs } = this.#rules;
    // What fails while it is out began before that, and says nothing new.
    if (failures === 0 || this.ejected(now)) return 0;
    this.#failures++;
    if (this.whole && this.#failures < failures) return 0;
    const ms = ejectMs * Math.min(2 ** this.#ejections, longest);
    this.#ejections++;
    this.#failures = 0;
    this.#window = 1;
    this.#ejectedUntil = now + ms;
    return ms;
  }

  /** It was out for another reason (an active check) and may be chosen again. */
  returns(): void {
    this.#failures = 0;
    this.#window = 1;
  }
}
