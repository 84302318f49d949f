// Follows what the containers of apps write and hands it to the export, each generation from its start.
// Invariant: a service that opted out is never read; a secret's value never leaves; who prints faster than is sent is read
// slower, so that nothing piles up here.
import type { AppsBook } from '../apps/book.ts';
import type { Instance } from '../apps/state.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { type AppService, exportsLogs } from '../manifest/app.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { LogLines, LogMark } from '../telemetry/log-lines.ts';
import { type Encoded, logRecord, resourceOf } from '../telemetry/otlp.ts';

export interface LogExportOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly book: AppsBook;
  readonly runtime: Runtime;
  readonly offer: (item: Encoded) => void;
  readonly pressed: () => boolean;
}

const lookMs = 1000;
const longestRestMs = 10_000;
/** How long the last words of a generation that is gone may take. */
const lastWordsMs = 5000;
const pressedRestMs = 20;

interface Followed {
  readonly stop: AbortController;
  leaving: boolean;
}

interface Wanted {
  readonly incarnation: string;
  readonly app: string;
  readonly service: AppService;
  readonly instance: Instance;
}

export class LogExport {
  readonly #options: LogExportOptions;
  readonly #followed = new Map<string, Followed>();
  readonly #looks;
  readonly #begunAt: number;
  #closed = false;

  constructor(options: LogExportOptions) {
    this.#options = options;
    this.#begunAt = options.clock.now();
    this.#looks = options.clock.every(lookMs, () => this.#look());
    this.#look();
  }

  close(): void {
    this.#closed = true;
    this.#looks.cancel();
    for (const { stop } of this.#followed.values()) stop.abort();
  }

  #look(): void {
    const wanted = new Map(this.#wanted().map((each) => [each.instance.id, each]));
    for (const [id, followed] of this.#followed) {
      if (wanted.has(id) || followed.leaving) continue;
      followed.leaving = true;
      this.#options.clock.after(lastWordsMs, () => followed.stop.abort());
    }
    for (const [id, each] of wanted) {
      if (this.#followed.has(id)) continue;
      const followed = { stop: new AbortController(), leaving: false };
      this.#followed.set(id, followed);
      void this.#follow(each, followed).finally(() => this.#followed.delete(id));
    }
  }

  #wanted(): readonly Wanted[] {
    const { book } = this.#options;
    const active = book.active().flatMap(({ instance, ...rest }) => (instance === null ? [] : [{ ...rest, instance }]));
    const retiring = book.retiring().map(({ spec, ...rest }) => ({ ...rest, service: spec }));
    return [...active, ...retiring].filter(({ incarnation, service, instance }) => {
      const app = book.revision(incarnation, instance.revision)?.app;
      return instance.managed && app !== undefined && exportsLogs(app, service);
    });
  }

  async #follow(wanted: Wanted, followed: Followed): Promise<void> {
    // What was there before us was told by who was here before us.
    const mark = new LogMark(wanted.instance.startedAt < this.#begunAt ? this.#begunAt : 0);
    let rest = lookMs;
    while (!this.#closed && !followed.stop.signal.aborted) {
      try {
        if (await this.#read(wanted, mark, followed.stop.signal)) rest = lookMs;
      } catch (error) {
        if (!followed.stop.signal.aborted) this.#options.log.debug('telemetry-logs-broken', { err: error });
      }
      if (followed.leaving) return;
      await this.#rest(rest);
      rest = Math.min(rest * 2, longestRestMs);
    }
  }

  /** Until the engine's stream ends. True: something was new. */
  async #read(
    { incarnation, app: name, service, instance }: Wanted,
    mark: LogMark,
    stop: AbortSignal,
  ): Promise<boolean> {
    const { book, runtime, offer, pressed, clock } = this.#options;
    const app = book.revision(incarnation, instance.revision)?.app;
    if (app === undefined) return false;
    const launch = { instance: instance.id, incarnation, app, service, revision: instance.revision, given: [] };
    const tail = (await runtime.tail?.(launch, mark.sinceMs, stop)) ?? null;
    if (tail === null) return false;
    mark.beginAgain();
    const resource = resourceOf({
      'service.name': `${name}.${service.name}`,
      'container.id': tail.container,
      'container.image.id': tail.image,
      'turnpike.app': name,
      'turnpike.service': service.name,
      'turnpike.generation': instance.id,
      'turnpike.revision': instance.revision,
    });
    const lines = new LogLines(tail.secrets);
    let any = false;
    const tell = (found: ReturnType<LogLines['end']>): void => {
      for (const line of found) {
        if (!mark.isNew(line.nanos)) continue;
        any = true;
        offer({ resource, text: logRecord({ ...line, observedMs: clock.now() }) });
      }
    };
    for await (const chunk of tail.chunks) {
      tell(lines.read(chunk));
      while (pressed() && !stop.aborted) await this.#rest(pressedRestMs);
      if (stop.aborted) break;
    }
    tell(lines.end());
    return any;
  }

  #rest(ms: number): Promise<void> {
    return new Promise((resolve) => this.#options.clock.after(ms, resolve));
  }
}
