// What the supervisor knows about backends, as the health part of the snapshot: active checks and published ejections.
// Invariant: an ejection never takes a service's last live backend; only an active check may say that nothing lives.
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { HealthPart, RoutingPart } from '../model/snapshot.ts';
import { ActiveHealth } from '../switchover/active-health.ts';

export class Health {
  readonly #clock: Clock;
  readonly #onChange: () => void;
  readonly #active: ActiveHealth;
  /** Service and address → wall clock time until which a worker has ejected it. */
  readonly #ejected = new Map<string, { readonly until: number; readonly timer: Timer }>();

  /** `onChange`: `part` may give something else now. */
  constructor(clock: Clock, log: Log, onChange: () => void) {
    this.#clock = clock;
    this.#onChange = onChange;
    this.#active = new ActiveHealth(clock, log, onChange);
  }

  /** Checks what this routing declares from now on. `proven`: addresses that just passed a probe, by service. */
  follow(routing: RoutingPart, proven?: ReadonlyMap<string, readonly string[]>): void {
    this.#active.follow(routing.services, proven);
  }

  /** A worker found the backend failing. */
  eject(service: string, address: string, until: number): void {
    const key = ejectionKey(service, address);
    const known = this.#ejected.get(key);
    if (known !== undefined && known.until >= until) return;
    known?.timer.cancel();
    const timer = this.#clock.after(Math.max(0, until - this.#clock.now()), () => {
      this.#ejected.delete(key);
      this.#onChange();
    });
    this.#ejected.set(key, { until, timer });
    this.#onChange();
  }

  /** The service goes to other backends: ejections are void, and what just passed a probe (`proven`) is up. */
  pardon(service: string, proven: readonly string[]): void {
    this.#active.pardon(service, proven);
    for (const [key, { timer }] of this.#ejected) {
      if (!key.startsWith(`${service} `)) continue;
      timer.cancel();
      this.#ejected.delete(key);
    }
  }

  isEjected(service: string, address: string): boolean {
    return this.#ejected.has(ejectionKey(service, address));
  }

  part(routing: RoutingPart): HealthPart {
    const failing = this.#active.down();
    const down: Record<string, readonly string[]> = {};
    for (const { name, generation } of routing.services) {
      const addresses = generation.backends.map((backend) => backend.address);
      const checked = addresses.filter((address) => failing.get(name)?.includes(address));
      const all = addresses.filter((address) => checked.includes(address) || this.isEjected(name, address));
      const listed = all.length < addresses.length ? all : checked;
      if (listed.length > 0) down[name] = listed;
    }
    return { down };
  }

  close(): void {
    this.#active.close();
    for (const { timer } of this.#ejected.values()) timer.cancel();
    this.#ejected.clear();
  }
}

const ejectionKey = (service: string, address: string): string => `${service} ${address}`;
