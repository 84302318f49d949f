// Waiting on the injected clock that a signal can end.
// Invariant: neither timer nor listener is left behind, however it ends.
import type { Clock } from '../../base/clock.ts';
import { AcmeFailure } from './failure.ts';

/** Rejects with an AcmeFailure of kind `aborted`. */
export function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      timer.cancel();
      reject(new AcmeFailure('aborted', 'stopped', { cause: signal.reason }));
    };
    const timer = clock.after(ms, () => {
      signal.removeEventListener('abort', stop);
      resolve();
    });
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}
