// Time as an argument. Everything that waits takes a Clock, so a test can move time by hand.
// Invariant: `monotonic` never goes back; `now` may jump with the wall clock and is for display and validity only.

/** A timer that was asked for; cancelling twice is harmless. */
export interface Timer {
  cancel(): void;
}

export interface Clock {
  /** Wall clock, milliseconds since the epoch. */
  now(): number;
  /** Monotonic milliseconds with an arbitrary origin. */
  monotonic(): number;
  /** Runs `fn` once after `ms` milliseconds. The timer does not keep the process alive. */
  after(ms: number, fn: () => void): Timer;
  /** Runs `fn` every `ms` milliseconds until cancelled. The timer does not keep the process alive. */
  every(ms: number, fn: () => void): Timer;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, fn) {
    // Node fires at once for delays past 2^31-1 ms; nobody here means "at once" by "in a month".
    const handle = setTimeout(fn, Math.min(ms, 0x7fffffff));
    handle.unref();
    return { cancel: () => clearTimeout(handle) };
  },
  every(ms, fn) {
    const handle = setInterval(fn, ms);
    handle.unref();
    return { cancel: () => clearInterval(handle) };
  },
};
