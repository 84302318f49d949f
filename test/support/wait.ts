// Waiting for what happens in other processes, without sleeping longer than needed.
// Invariant: a wait that fails says what it waited for and what it saw last.
import { setTimeout as sleep } from 'node:timers/promises';

export { sleep };

/** Polls until `check` gives a value that is neither false, null nor undefined. */
export async function until<T>(
  what: string,
  check: () => T | Promise<T>,
  options: { timeoutMs?: number; everyMs?: number; seen?: () => unknown } = {},
): Promise<NonNullable<T>> {
  const { timeoutMs = 5000, everyMs = 10, seen } = options;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const value = await check();
    if (value !== false && value !== null && value !== undefined) return value as NonNullable<T>;
    if (performance.now() > deadline) {
      const last = seen === undefined ? '' : `; saw ${JSON.stringify(seen())}`;
      throw new Error(`waited ${timeoutMs} ms for ${what}${last}`);
    }
    await sleep(everyMs);
  }
}

/** The promise, or an error that says what took too long. */
export async function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
