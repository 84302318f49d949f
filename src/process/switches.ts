// `service switch`: runs the switch machine, with probes and a publication, and counts what it cost.
// Invariant: at most one switch per service between reservation and commit; the answer comes when the truth is known.
import type { Clock } from '../base/clock.ts';
import { Fault, type FaultCode } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import { parseBackend } from '../model/backend.ts';
import type { Backend, Service } from '../model/snapshot.ts';
import { reserve, type SwitchEvent, type Switchover, step } from '../model/switchover.ts';
import { defaultReadiness, waitUntilReady } from '../switchover/readiness.ts';
import type { Drain } from './drains.ts';
import type { SwitchProgress, SwitchReport, SwitchRequest, SwitchStatus } from './operations.ts';
import type { Published } from './publication-run.ts';
import { addressesOf } from './service-state.ts';

/** What a switch needs of the supervisor. */
export interface SwitchGround {
  /** As served now; null: no such service. */
  service(name: string): Service | null;
  /** The backends that the configuration file names. */
  declared(name: string): readonly Backend[];
  publish(target: SwitchTarget, onHold: () => void): Promise<{ published: Published; drain: Drain | null }>;
  /** Claims now and ever of one generation, over all workers. */
  claims(service: string, generation: number): Promise<{ readonly active: number; readonly claimed: number }>;
  /** Retried and failed exchanges of a service ever. */
  troubles(service: string): Promise<Troubles>;
}

export interface SwitchTarget {
  readonly service: string;
  /** Null: what the file says. */
  readonly backends: readonly Backend[] | null;
  readonly drainMs: number | null;
}

export interface Troubles {
  readonly retries: number;
  readonly errors: number;
}

type OnProgress = (progress: SwitchProgress) => void;

const keptSwitches = 20;

export class Switches {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #ground: SwitchGround;
  readonly #runs: SwitchRun[] = [];

  constructor(clock: Clock, log: Log, ground: SwitchGround) {
    this.#clock = clock;
    this.#log = log;
    this.#ground = ground;
  }

  /** Resolves when the old generation is drained. Rejects when nothing was switched. */
  async run(request: SwitchRequest, progress: OnProgress): Promise<SwitchReport> {
    const service = this.#ground.service(request.service);
    if (service === null) throw new Fault('unknown-service', `no service is named ${request.service}`);
    const target: SwitchTarget = {
      service: service.name,
      backends: request.to === 'config' ? null : parseAll(request.to),
      drainMs: request.drainMs,
    };
    const rival = this.#runs.find((run) => run.service === service.name && run.reserved);
    if (rival !== undefined) {
      const { addresses, phase } = rival.state;
      throw new Fault('publish-refused', `${service.name} is being switched to ${addresses.join(', ')} (${phase})`);
    }
    const backends = target.backends ?? this.#ground.declared(service.name);
    const run = new SwitchRun(service, backends, target, this.#ground, this.#clock, progress);
    this.#runs.unshift(run);
    this.#forget();
    this.#log.info('switch-begun', { service: service.name, to: addressesOf(backends) });
    try {
      const report = await run.run(request.probe);
      this.#log.info('switch-done', { ...report });
      return report;
    } catch (error) {
      this.#log.warn('switch-aborted', { service: service.name, err: error });
      throw error;
    }
  }

  /** Running ones first, then the latest ended ones. */
  status(): readonly SwitchStatus[] {
    const all = this.#runs.map((run) => run.status());
    return [...all.filter((each) => each.endedAt === null), ...all.filter((each) => each.endedAt !== null)];
  }

  #forget(): void {
    const ended = this.#runs.filter((run) => run.endedAt !== null);
    for (const run of ended.slice(keptSwitches)) this.#runs.splice(this.#runs.indexOf(run), 1);
  }
}

class SwitchRun {
  readonly service: string;
  state: Switchover;
  endedAt: number | null = null;
  readonly #service: Service;
  readonly #backends: readonly Backend[];
  readonly #target: SwitchTarget;
  readonly #ground: SwitchGround;
  readonly #clock: Clock;
  readonly #progress: OnProgress;
  readonly #startedAt: number;
  readonly #begun: number;

  constructor(
    service: Service,
    backends: readonly Backend[],
    target: SwitchTarget,
    ground: SwitchGround,
    clock: Clock,
    progress: OnProgress,
  ) {
    this.service = service.name;
    this.#service = service;
    this.#backends = backends;
    this.#target = target;
    this.#ground = ground;
    this.#clock = clock;
    this.#progress = progress;
    this.#startedAt = clock.now();
    this.#begun = clock.monotonic();
    const id = `${service.name} ${new Date(this.#startedAt).toISOString()}`;
    this.state = reserve(id, service.name, service.generation.number, addressesOf(backends));
  }

  /** No other switch of this service may begin. */
  get reserved(): boolean {
    return this.endedAt === null && this.state.phase !== 'committed' && this.state.phase !== 'draining';
  }

  async run(probes: boolean): Promise<SwitchReport> {
    try {
      this.#event({ kind: 'begin', probe: probes });
      if (this.state.phase === 'probing') await this.#probe();
      const before = await this.#ground.troubles(this.service);
      const { published, drain } = await this.#publish();
      this.#event({ kind: 'draining' });
      if (drain !== null) await this.#watch(drain);
      const report = await this.#report(published, drain, before);
      this.#event({ kind: 'drained' });
      return report;
    } finally {
      this.endedAt = this.#clock.now();
    }
  }

  status(): SwitchStatus {
    const { fault } = this.state;
    return {
      service: this.service,
      from: addressesOf(this.#service.generation.backends),
      to: this.state.addresses,
      phase: this.state.phase,
      startedAt: this.#startedAt,
      endedAt: this.endedAt,
      fault: fault === null ? null : { code: fault.code as FaultCode, message: fault.detail },
    };
  }

  async #probe(): Promise<void> {
    const giveUp = new AbortController();
    await Promise.all(
      this.#backends.map(async (backend) => {
        const { address } = backend;
        const ready = await waitUntilReady(
          this.#service,
          backend,
          defaultReadiness,
          this.#clock,
          giveUp.signal,
          (detail) => this.#tell(null, `${address}: ${detail}`),
        );
        if (ready.ready) this.#event({ kind: 'probe-passed', address });
        else this.#event({ kind: 'probe-failed', address, detail: ready.detail });
        if (this.state.phase === 'aborted') giveUp.abort();
      }),
    );
    this.#check();
  }

  async #publish(): Promise<{ published: Published; drain: Drain | null }> {
    try {
      const result = await this.#ground.publish(this.#target, () => this.#event({ kind: 'holding' }));
      const generation = this.#ground.service(this.service)?.generation.number ?? this.state.from;
      this.#event({ kind: 'committed', generation });
      return result;
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#event({ kind: 'refused', fault: { code: error.code, detail: error.message } });
      throw error;
    }
  }

  /** Tells about once a second how much is left. */
  async #watch(drain: Drain): Promise<void> {
    const timer = this.#clock.every(1000, async () => {
      const { active } = await this.#ground.claims(this.service, drain.generation);
      if (drain.tookMs === null) this.#tell(active, null);
    });
    await drain.done;
    timer.cancel();
  }

  async #report(published: Published, drain: Drain | null, before: Troubles): Promise<SwitchReport> {
    const generation = this.state.to!;
    const { claimed } = await this.#ground.claims(this.service, generation);
    const after = await this.#ground.troubles(this.service);
    const flips = published.flips.filter((flip) => flip.service === this.service);
    const errors = after.errors - before.errors;
    const forcedCloses = drain?.forced ?? 0;
    return {
      service: this.service,
      from: { generation: this.state.from, addresses: addressesOf(this.#service.generation.backends) },
      to: { generation, addresses: this.state.addresses },
      revision: published.revision,
      requestsOld: drain?.claimed ?? 0,
      requestsNew: claimed,
      inFlightAtFlip: flips.reduce((sum, flip) => sum + flip.active, 0),
      held: flips.reduce((sum, flip) => sum + flip.held, 0),
      holdMs: Math.round(published.holdMs),
      longestDrainedMs: Math.round(drain?.tookMs ?? 0),
      forcedCloses,
      retries: after.retries - before.retries,
      errors,
      durationMs: Math.round(this.#clock.monotonic() - this.#begun),
      clean: forcedCloses === 0 && errors === 0,
    };
  }

  #event(event: SwitchEvent): void {
    const before = this.state.phase;
    this.state = step(this.state, event).state;
    if (this.state.phase !== before) this.#tell(null, null);
  }

  #check(): void {
    const { fault } = this.state;
    if (fault !== null) throw new Fault(fault.code as FaultCode, fault.detail);
  }

  #tell(left: number | null, detail: string | null): void {
    this.#progress({
      phase: this.state.phase,
      elapsedMs: Math.round(this.#clock.monotonic() - this.#begun),
      left,
      detail,
    });
  }
}

function parseAll(addresses: readonly string[]): readonly Backend[] {
  const backends = addresses.map((address) => {
    const backend = parseBackend(address);
    if (backend === null) throw new Fault('config-invalid', `"${address}" is not host:port`);
    return backend;
  });
  if (backends.length === 0) throw new Fault('config-invalid', 'no address to switch to');
  if (new Set(addressesOf(backends)).size < backends.length) {
    throw new Fault('config-invalid', `an address is named twice: ${addresses.join(', ')}`);
  }
  return backends;
}
