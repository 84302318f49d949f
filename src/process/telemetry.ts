// Export by OpenTelemetry: from `[telemetry]` to what runs for it, made anew when a reload changes it.
// Invariant: off unless asked for; traffic never waits for it, and the end of the process at most two seconds.
import { readFile } from 'node:fs/promises';
import type { AppsBook } from '../apps/book.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { version } from '../base/version.ts';
import type { DeclaredTelemetry } from '../config/declared-apps.ts';
import { parseHeaderFile } from '../config/header-file.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { encodedMetrics } from '../telemetry/metric-points.ts';
import { logsBody, metricsBody, resourceOf } from '../telemetry/otlp.ts';
import { Outbox } from '../telemetry/outbox.ts';
import { Receiver } from '../telemetry/receiver.ts';
import type { ProcessMetrics } from './protocol.ts';
import { LogExport } from './telemetry-logs.ts';

export interface TelemetryOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly book: AppsBook;
  readonly runtime: Runtime;
  readonly registry: Metrics;
  readonly startedAt: number;
  /** What /metrics shows now. */
  readonly metrics: () => Promise<ProcessMetrics>;
}

/** Read and not in use yet. */
export interface TelemetryMove {
  adopt(): void;
}

const metricsEveryMs = 15_000;
const logQueueBytes = 16 * 1024 * 1024;
const metricQueueBytes = 4 * 1024 * 1024;
const lastSendMs = 1500;

export class Telemetry {
  readonly #options: TelemetryOptions;
  #running: Running | null = null;
  #known = '';

  constructor(options: TelemetryOptions) {
    this.#options = options;
  }

  /** Reads what is needed; the file of headers was judged with the configuration. */
  async move(declared: DeclaredTelemetry | null): Promise<TelemetryMove> {
    const file = declared?.headersFile ?? null;
    const headers = file === null ? {} : parseHeaderFile(await readFile(file, 'utf8'));
    return {
      adopt: () => {
        const known = JSON.stringify([declared, headers]);
        if (known === this.#known) return;
        this.#known = known;
        void this.#running?.close();
        const wanted = declared !== null && (declared.logs || declared.metrics);
        this.#running = wanted ? new Running(declared, headers, this.#options) : null;
      },
    };
  }

  async close(): Promise<void> {
    const running = this.#running;
    this.#running = null;
    this.#known = '';
    await running?.close();
  }
}

class Running {
  readonly #options: TelemetryOptions;
  readonly #receiver: Receiver;
  readonly #boxes: Outbox[] = [];
  #logs: LogExport | null = null;
  #timer: Timer | null = null;

  constructor(declared: DeclaredTelemetry, headers: Readonly<Record<string, string>>, options: TelemetryOptions) {
    this.#options = options;
    this.#receiver = new Receiver(declared.endpoint, headers);
    if (declared.logs) {
      const box = this.#box('logs', logQueueBytes);
      const { clock, log, book, runtime } = options;
      const offer = (item: Parameters<Outbox['offer']>[0]): void => box.offer(item);
      this.#logs = new LogExport({ clock, log, book, runtime, offer, pressed: () => box.pressed });
    }
    if (declared.metrics) {
      const box = this.#box('metrics', metricQueueBytes);
      this.#timer = options.clock.every(metricsEveryMs, () => void this.#offerMetrics(box));
      void this.#offerMetrics(box);
    }
  }

  async close(): Promise<void> {
    this.#logs?.close();
    this.#timer?.cancel();
    await Promise.all(this.#boxes.map((box) => box.close(lastSendMs)));
    await this.#receiver.close();
  }

  async #offerMetrics(box: Outbox): Promise<void> {
    const { metrics, startedAt, clock, log } = this.#options;
    const resource = resourceOf({ 'service.name': 'turnpike', 'service.version': version });
    try {
      for (const each of encodedMetrics(await metrics(), resource, startedAt, clock.now())) box.offer(each);
    } catch (error) {
      // While workers come and go there is nothing to add up; the next time is soon.
      log.debug('telemetry-metrics-missed', { err: error });
    }
  }

  #box(signal: 'logs' | 'metrics', queueBytes: number): Outbox {
    const { clock, log, registry } = this.#options;
    const family = registry.counter('telemetry_records_total', 'Records for export, by signal and outcome', [
      'signal',
      'outcome',
    ]);
    const counts = {
      exported: family.cell(signal, 'exported'),
      dropped: family.cell(signal, 'dropped'),
      failed: family.cell(signal, 'failed'),
    };
    const body = signal === 'logs' ? logsBody : metricsBody;
    const box = new Outbox({
      signal,
      clock,
      log,
      deliver: this.#receiver.deliver,
      body,
      counts,
      queueBytes,
      random: Math.random,
    });
    this.#boxes.push(box);
    return box;
  }
}
