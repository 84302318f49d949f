// What only the supervisor can count: reloads, publications, workers, generations.
// Invariant: gauges are set when scraped, from what is true then; labels come from the configuration.
import { type Cell, type Family, Metrics } from '../base/metrics.ts';
import type { ReloadResult } from './operations.ts';
import type { ProcessMetrics } from './protocol.ts';
import type { Serving } from './serving.ts';

export interface GateCounts {
  readonly users: number;
  readonly sessions: number;
  readonly tokens: number;
  readonly throttled: number;
}

export class SupervisorMetrics {
  readonly registry = new Metrics();
  readonly #reloads: Family;
  readonly #lastReload: Cell;
  readonly #revision: Cell;
  readonly #workers: Family;
  readonly #restarts: Cell;
  readonly #generations: Family;
  readonly #backendsDown: Family;
  readonly #states: Family;
  readonly #gate: Family;
  readonly #throttled: Cell;

  constructor() {
    const { registry } = this;
    this.#reloads = registry.counter('config_reloads_total', 'Configuration reloads, by outcome', ['outcome']);
    for (const outcome of ['applied', 'unchanged', 'refused']) this.#reloads.cell(outcome);
    this.#lastReload = registry
      .gauge('config_last_reload_successful', '1 when the configuration file as last read is being served')
      .cell();
    this.#lastReload.value = 1;
    this.#revision = registry.gauge('snapshot_revision', 'Revision of the snapshot that is served').cell();
    this.#workers = registry.gauge('workers', 'Worker processes, by state', ['state']);
    this.#restarts = registry.counter('worker_restarts_total', 'Workers that were replaced after they died').cell();
    this.#generations = registry.gauge('service_generation', 'Number of the live generation', ['service']);
    this.#backendsDown = registry.gauge('service_backends_down', 'Backends that must not be chosen', ['service']);
    this.#states = registry.gauge('service_paused', '1 while the operator holds or has stopped the service', [
      'service',
    ]);
    this.#gate = registry.gauge('gate_entries', 'Users, sessions and tokens of the gate', ['kind']);
    this.#throttled = registry
      .gauge('gate_throttle_entries', 'Addresses and names whose failed logins are remembered')
      .cell();
  }

  /** What the gate keeps. */
  collectGate({ users, sessions, tokens, throttled }: GateCounts): void {
    this.#gate.cell('users').value = users;
    this.#gate.cell('sessions').value = sessions;
    this.#gate.cell('tokens').value = tokens;
    this.#throttled.value = throttled;
  }

  reloaded(outcome: ReloadResult['outcome']): void {
    this.#reloads.cell(outcome).value++;
    this.#lastReload.value = outcome === 'refused' ? 0 : 1;
  }

  collect(serving: Serving): ProcessMetrics {
    const { revision, parts } = serving.snapshot;
    this.#revision.value = revision;
    for (const state of ['starting', 'ready', 'leaving']) {
      this.#workers.cell(state).value = serving.workers.filter((worker) => worker.state === state).length;
    }
    this.#restarts.value = serving.restarts;
    const known = new Set(parts.routing.services.map(({ name }) => name));
    for (const name of this.#seen) if (!known.has(name)) this.registry.drop('service', name);
    this.#seen = known;
    for (const { name, generation, state } of parts.routing.services) {
      this.#generations.cell(name).value = generation.number;
      this.#backendsDown.cell(name).value = parts.health.down[name]?.length ?? 0;
      this.#states.cell(name).value = state === 'run' ? 0 : 1;
    }
    return this.registry.collect();
  }

  #seen: ReadonlySet<string> = new Set();
}
