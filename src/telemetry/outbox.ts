// Records of one signal on their way to the receiver: a bounded queue, batches, and tries with growing pauses.
// Invariant: nobody waits for it but `close`, for as long as it is told; it never holds more bytes than its queue and one
// batch, and every record is counted once: exported, dropped (no room, or no time at the end) or failed (refused).
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Cell } from '../base/metrics.ts';
import type { Encoded } from './otlp.ts';
import type { Deliver, Delivery } from './receiver.ts';

export interface OutboxOptions {
  readonly signal: 'logs' | 'metrics';
  readonly clock: Clock;
  readonly log: Log;
  readonly deliver: Deliver;
  readonly body: (items: readonly Encoded[]) => string;
  readonly counts: Readonly<Record<'exported' | 'dropped' | 'failed', Cell>>;
  readonly queueBytes: number;
  /** Between 0 and 1. */
  readonly random: () => number;
}

const batchItems = 1000;
const batchBytes = 1024 * 1024;
const lingerMs = 1000;
const firstPauseMs = 1000;
const longestPauseMs = 30_000;
/** A receiver may ask for more than our own pauses, but not for silence. */
const longestAskedMs = 300_000;
const retried = new Set([429, 502, 503, 504]);

export class Outbox {
  readonly #options: OutboxOptions;
  readonly #abort = new AbortController();
  /** Oldest first, from `#head` on. */
  #queue: Encoded[] = [];
  #head = 0;
  #bytes = 0;
  #timer: Timer | null = null;
  #wake: (() => void) | null = null;
  #sending: Promise<void> | null = null;
  #closing = false;
  #failing = false;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /** More than half full: who can wait should. */
  get pressed(): boolean {
    return this.#bytes > this.#options.queueBytes / 2;
  }

  offer(item: Encoded): void {
    const { queueBytes, counts, clock } = this.#options;
    if (this.#closing || item.text.length > queueBytes) {
      counts.dropped.value++;
      return;
    }
    this.#queue.push(item);
    this.#bytes += item.text.length;
    while (this.#bytes > queueBytes) {
      this.#shift();
      counts.dropped.value++;
    }
    if (this.#sending !== null) return;
    if (this.#bytes >= batchBytes || this.#queue.length - this.#head >= batchItems) this.#send();
    else this.#timer ??= clock.after(lingerMs, () => this.#send());
  }

  /** Sends what is there, for at most so long; the rest is dropped. */
  async close(ms: number): Promise<void> {
    this.#closing = true;
    const late = this.#options.clock.after(ms, () => this.#abort.abort());
    this.#wake?.();
    this.#send();
    await this.#sending;
    late.cancel();
    this.#options.counts.dropped.value += this.#queue.length - this.#head;
    this.#queue = [];
    this.#head = 0;
  }

  #send(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null;
    });
  }

  async #sendAll(): Promise<void> {
    while (this.#head < this.#queue.length && !this.#abort.signal.aborted) await this.#sendOne(this.#takeBatch());
  }

  /** Tries until it is taken or refused; while it waits, newer records push out older ones of the queue. */
  async #sendOne(batch: readonly Encoded[]): Promise<void> {
    const { signal: name, counts, deliver, body } = this.#options;
    const text = body(batch);
    for (let pause = firstPauseMs; ; pause = Math.min(pause * 2, longestPauseMs)) {
      let answer: Delivery | null = null;
      let reason: string;
      try {
        answer = await deliver(`/v1/${name}`, text, this.#abort.signal);
        if (answer.status >= 200 && answer.status < 300) {
          this.#taken(batch.length, answer.text);
          return;
        }
        reason = `status ${answer.status}`;
      } catch (error) {
        reason = reasonOf(error);
      }
      if (!this.#failing) this.#options.log.warn('telemetry-not-sent', { signal: name, reason });
      this.#failing = true;
      if (answer !== null && !retried.has(answer.status)) {
        counts.failed.value += batch.length;
        return;
      }
      if (this.#closing || this.#abort.signal.aborted) {
        counts.dropped.value += batch.length;
        // Nobody answers: what is left would fare no better.
        this.#abort.abort();
        return;
      }
      await this.#wait(this.#pauseFor(pause, answer));
    }
  }

  #pauseFor(pause: number, answer: Delivery | null): number {
    const asked = answer?.retryAfter ?? null;
    if (asked !== null) {
      const ms = /^\d+$/.test(asked) ? Number(asked) * 1000 : Date.parse(asked) - this.#options.clock.now();
      if (ms > 0) return Math.min(ms, longestAskedMs);
    }
    return pause * (0.5 + this.#options.random() / 2);
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#options.clock.after(ms, () => this.#wake?.());
      this.#wake = () => {
        timer.cancel();
        this.#wake = null;
        resolve();
      };
    });
  }

  #taken(count: number, text: string): void {
    const { signal, counts, log } = this.#options;
    const { rejected, message } = partialSuccess(text);
    const refused = Math.min(rejected, count);
    counts.exported.value += count - refused;
    counts.failed.value += refused;
    if (rejected > 0 || message !== '') log.warn('telemetry-partly-taken', { signal, rejected, message });
    if (this.#failing) log.info('telemetry-sent-again', { signal });
    this.#failing = false;
  }

  #takeBatch(): readonly Encoded[] {
    const batch: Encoded[] = [];
    let bytes = 0;
    while (this.#head < this.#queue.length && batch.length < batchItems && bytes < batchBytes) {
      const item = this.#shift();
      bytes += item.text.length;
      batch.push(item);
    }
    return batch;
  }

  #shift(): Encoded {
    const item = this.#queue[this.#head]!;
    this.#bytes -= item.text.length;
    this.#head++;
    // Moving everything for each one would be quadratic.
    if (this.#head > 64 && this.#head * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}

function partialSuccess(text: string): { readonly rejected: number; readonly message: string } {
  try {
    const { partialSuccess: part = {} } = JSON.parse(text) as { partialSuccess?: Readonly<Record<string, unknown>> };
    const rejected = Number(part['rejectedLogRecords'] ?? part['rejectedDataPoints'] ?? 0);
    const message = part['errorMessage'];
    return {
      rejected: Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0,
      message: typeof message === 'string' ? message.slice(0, 500) : '',
    };
  } catch {
    // A receiver need not answer in JSON to have taken everything.
    return { rejected: 0, message: '' };
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? code : error.name;
}
