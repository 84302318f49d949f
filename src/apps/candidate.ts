// Is a generation that was just started ready to take traffic? By its own words, by its port, or by its output.
// Invariant: settles within the readiness' timeout; an instance that ends is not waited for; only output of this start counts.
import type { Clock } from '../base/clock.ts';
import type { AppService } from '../manifest/app.ts';
import { effectiveReadiness, type Probe } from '../manifest/readiness.ts';
import { parseBackend } from '../model/backend.ts';
import type { Service } from '../model/snapshot.ts';
import type { InstanceRef, PortProbe, Runtime } from '../runtime/runtime.ts';
import { defaultReadiness, type Readiness, waitUntilReady } from '../switchover/readiness.ts';

export interface Candidate {
  readonly service: AppService;
  readonly instance: InstanceRef;
  /** Resolves with the reason when it ends. */
  readonly ended: Promise<string> | null;
}

/** The first looks come quickly: most programs are ready within a fraction of a second. */
const firstMs = 50;
const outputEveryMs = 200;
const endedMs = 2000;

export async function candidateReady(
  candidate: Candidate,
  runtime: Runtime,
  clock: Clock,
  signal: AbortSignal,
  onAttempt: (detail: string) => void,
): Promise<Readiness> {
  const probe = effectiveReadiness(candidate.service);
  if (probe === null) return { ready: true };
  const over = new AbortController();
  const ready =
    probe.type === 'log'
      ? waitForOutput(probe, candidate.instance, runtime, clock, over.signal)
      : probe.internal && runtime.probeInside !== undefined
        ? askInside(probe, candidate.instance, runtime.probeInside.bind(runtime), over.signal)
        : waitForPort(probe, candidate, clock, over.signal, onAttempt);
  const ended = candidate.ended?.then((detail): Readiness => ({ ready: false, detail }));
  const aborted = new Promise<Readiness>((resolve) => {
    const giveUp = (): void => resolve({ ready: false, detail: 'given up' });
    if (signal.aborted) giveUp();
    else signal.addEventListener('abort', giveUp, { once: true });
  });
  try {
    return await Promise.race([ready, aborted, ...(ended === undefined ? [] : [ended])]);
  } finally {
    over.abort();
  }
}

/** A port that nobody publishes is asked where it can be reached. */
async function askInside(
  probe: PortProbe,
  instance: InstanceRef,
  ask: NonNullable<Runtime['probeInside']>,
  signal: AbortSignal,
): Promise<Readiness> {
  const { ok, detail } = await ask(instance, probe, signal);
  return ok ? { ready: true } : { ready: false, detail };
}

async function waitForPort(
  probe: Exclude<Probe, { type: 'log' }>,
  { service, instance, ended }: Candidate,
  clock: Clock,
  signal: AbortSignal,
  onAttempt: (detail: string) => void,
): Promise<Readiness> {
  const address = instance.backends.find(({ port }) => port === probe.port)?.address;
  const backend = address === undefined ? null : parseBackend(address);
  if (backend === null) {
    // Mostly because it has ended before anybody could look; that says more.
    const soon = new Promise<null>((resolve) => clock.after(endedMs, () => resolve(null)));
    const reason = ended === null ? null : await Promise.race([ended, soon]);
    return { ready: false, detail: reason ?? `nobody knows where port ${probe.port} is reached` };
  }
  const { timeoutMs, consecutive } = probe;
  const rules = { ...defaultReadiness, timeoutMs, consecutive, firstMs };
  return waitUntilReady(probed(probe, service), backend, rules, clock, signal, onAttempt);
}

/** The service as a probe sees it. */
function probed(probe: Exclude<Probe, { type: 'log' }>, { name, http }: AppService): Service {
  // An application may answer only for its own name.
  const own = http.find((each) => each.visibility === 'public' && each.port === probe.port);
  const host = own?.visibility === 'public' ? own.host : '';
  return {
    name: host === '' ? name : host,
    origin: '',
    generation: { number: 1, backends: [], origin: '' },
    state: 'run',
    balance: 'least_requests',
    balanceKey: '',
    stickyCookie: '',
    protocol: probe.type === 'http' ? 'http1' : 'tcp',
    upstreamTls: null,
    network: null,
    health: {
      type: probe.type,
      path: probe.type === 'http' ? probe.path : '',
      host,
      intervalMs: defaultReadiness.everyMs,
      timeoutMs: defaultReadiness.attemptMs,
      healthyAfter: 1,
      unhealthyAfter: 1,
    },
    passive: { failures: 0, ejectMs: 0 },
    backendLimits: { backendConnections: 1, backendConnectTimeoutMs: 2000, backendKeepAliveTimeoutMs: 1000 },
    drainMs: 0,
    streamDrainMs: 0,
    maxHoldMs: 0,
  };
}

async function waitForOutput(
  { contains, timeoutMs }: Extract<Probe, { type: 'log' }>,
  instance: InstanceRef,
  runtime: Runtime,
  clock: Clock,
  signal: AbortSignal,
): Promise<Readiness> {
  const deadline = clock.monotonic() + timeoutMs;
  while (!signal.aborted) {
    if ((await runtime.output(instance)).includes(contains)) return { ready: true };
    if (clock.monotonic() >= deadline) break;
    await new Promise<void>((resolve) => {
      clock.after(outputEveryMs, resolve);
    });
  }
  return { ready: false, detail: `${JSON.stringify(contains)} did not appear in its output within ${timeoutMs} ms` };
}
