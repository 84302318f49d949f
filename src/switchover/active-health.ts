// Active health checks: probes every backend of every service that declares a check, and says which addresses are down.
// Invariant: runs in the supervisor only; a backend is probed by at most one probe at a time; a check is keyed by all that
// defines it, so an unrelated change neither restarts nor forgets it.
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { digestOf } from '../model/digest.ts';
import { type BackendHealth, observe, unknownHealth } from '../model/health.ts';
import type { Backend, Service } from '../model/snapshot.ts';
import { probe } from './probe.ts';
import type { ProbeResult } from './probe-result.ts';

export type Probe = (service: Service, backend: Backend, clock: Clock) => Promise<ProbeResult>;

export class ActiveHealth {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #onChange: () => void;
  readonly #probe: Probe;
  readonly #checks = new Map<string, Check>();

  /** `onChange`: `down` gives something else now. */
  constructor(clock: Clock, log: Log, onChange: () => void, probeBackend: Probe = probe) {
    this.#clock = clock;
    this.#log = log;
    this.#onChange = onChange;
    this.#probe = probeBackend;
  }

  /** Probes exactly these services' backends from now on. `proven`: addresses that just passed, by service name. */
  follow(services: readonly Service[], proven: ReadonlyMap<string, readonly string[]> = new Map()): void {
    const wanted = new Set<string>();
    for (const service of services) {
      if (service.health === null) continue;
      for (const backend of service.generation.backends) {
        const key = keyOf(service, backend);
        wanted.add(key);
        if (this.#checks.has(key)) continue;
        const delayMs = proven.get(service.name)?.includes(backend.address) ? service.health.intervalMs : 0;
        this.#checks.set(key, this.#start(service, backend, delayMs));
      }
    }
    for (const [key, check] of this.#checks) {
      if (wanted.has(key)) continue;
      check.stop();
      this.#checks.delete(key);
    }
  }

  /** These addresses just passed a probe of another kind: they are up until checks in a row say otherwise. */
  pardon(service: string, addresses: readonly string[]): void {
    for (const check of this.#checks.values()) {
      if (check.service === service && addresses.includes(check.address)) check.health = unknownHealth;
    }
  }

  /** Service name → addresses that are down. */
  down(): ReadonlyMap<string, readonly string[]> {
    const down = new Map<string, string[]>();
    for (const check of this.#checks.values()) {
      if (check.health.up) continue;
      const addresses = down.get(check.service) ?? [];
      addresses.push(check.address);
      down.set(check.service, addresses);
    }
    return down;
  }

  close(): void {
    for (const check of this.#checks.values()) check.stop();
    this.#checks.clear();
  }

  #start(service: Service, backend: Backend, delayMs: number): Check {
    const check = new Check(service, backend, this.#clock, this.#probe, (up, detail) => {
      const members = { service: service.name, backend: backend.address, detail };
      if (up) this.#log.info('backend-up', members);
      else this.#log.warn('backend-down', members);
      this.#onChange();
    });
    check.start(delayMs);
    return check;
  }
}

/** The addresses' order and everything that is not part of the check stay out of its identity. */
function keyOf(service: Service, backend: Backend): string {
  const { name, health, protocol, upstreamTls, network } = service;
  return digestOf([name, backend.address, health, protocol, upstreamTls, network?.sendProxyProtocol ?? null]);
}

class Check {
  readonly service: string;
  readonly address: string;
  health: BackendHealth = unknownHealth;
  readonly #service: Service;
  readonly #backend: Backend;
  readonly #clock: Clock;
  readonly #probe: Probe;
  readonly #onFlip: (up: boolean, detail: string) => void;
  #timer: Timer | null = null;
  #stopped = false;

  constructor(
    service: Service,
    backend: Backend,
    clock: Clock,
    probeBackend: Probe,
    onFlip: (up: boolean, detail: string) => void,
  ) {
    this.service = service.name;
    this.address = backend.address;
    this.#service = service;
    this.#backend = backend;
    this.#clock = clock;
    this.#probe = probeBackend;
    this.#onFlip = onFlip;
  }

  start(delayMs: number): void {
    this.#timer = this.#clock.after(delayMs, () => this.#run());
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  async #run(): Promise<void> {
    const rules = this.#service.health!;
    const begun = this.#clock.monotonic();
    const result = await this.#probe(this.#service, this.#backend, this.#clock);
    if (this.#stopped) return;
    const before = this.health;
    this.health = observe(before, result.ok, rules);
    // The interval counts from start to start, so a slow backend is not looked at less often.
    this.start(Math.max(0, rules.intervalMs - (this.#clock.monotonic() - begun)));
    if (this.health.up !== before.up) this.#onFlip(this.health.up, result.detail);
  }
}
