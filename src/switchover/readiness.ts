// Waiting until new backends are ready: probes each once a second until it passed often enough or the time is over.
// Invariant: the promise settles exactly once, at the latest at the deadline, and no probe starts after it.
import type { Clock, Timer } from '../base/clock.ts';
import type { Backend, Service } from '../model/snapshot.ts';
import type { Probe } from './active-health.ts';
import { probe } from './probe.ts';

export interface ReadinessRules {
  readonly timeoutMs: number;
  readonly everyMs: number;
  /** Longest single attempt. */
  readonly attemptMs: number;
  /** Passes in a row. */
  readonly consecutive: number;
  /** The first pause, if it is to be shorter than `everyMs`; each one is twice the one before. */
  readonly firstMs?: number;
}

export const defaultReadiness: ReadinessRules = { timeoutMs: 30_000, everyMs: 1000, attemptMs: 2000, consecutive: 1 };

export type Readiness = { readonly ready: true } | { readonly ready: false; readonly detail: string };

/** `onAttempt` hears what every attempt said. */
export function waitUntilReady(
  service: Service,
  backend: Backend,
  rules: ReadinessRules,
  clock: Clock,
  signal: AbortSignal,
  onAttempt: (detail: string) => void,
  probeBackend: Probe = probe,
): Promise<Readiness> {
  const { health } = service;
  const probed: Service =
    health === null
      ? service
      : { ...service, health: { ...health, timeoutMs: Math.min(health.timeoutMs, rules.attemptMs) } };
  return new Promise((resolve) => {
    let over = false;
    let passes = 0;
    let pauseMs = Math.min(rules.firstMs ?? rules.everyMs, rules.everyMs);
    let last = 'no attempt ended';
    let next: Timer | null = null;
    const finish = (result: Readiness): void => {
      if (over) return;
      over = true;
      limit.cancel();
      next?.cancel();
      resolve(result);
    };
    const limit = clock.after(rules.timeoutMs, () =>
      finish({ ready: false, detail: `not ready within ${rules.timeoutMs} ms, last: ${last}` }),
    );
    const attempt = async (): Promise<void> => {
      const begun = clock.monotonic();
      const result = await probeBackend(probed, backend, clock);
      if (over) return;
      last = result.detail;
      onAttempt(result.detail);
      passes = result.ok ? passes + 1 : 0;
      if (passes >= rules.consecutive) finish({ ready: true });
      else next = clock.after(Math.max(0, pauseMs - (clock.monotonic() - begun)), attempt);
      pauseMs = Math.min(pauseMs * 2, rules.everyMs);
    };
    signal.addEventListener('abort', () => finish({ ready: false, detail: 'given up' }), { once: true });
    attempt();
  });
}
