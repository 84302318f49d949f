// The counters of HTTP traffic.
// Invariant: label values are route ids, a fixed list of methods and status classes, reason and fault codes: a client can
// make numbers grow, never the number of series.
import type { FaultCode } from '../base/fault.ts';
import type { Cell, Family, HistogramCell, HistogramFamily, Metrics } from '../base/metrics.ts';
import type { Reason } from '../model/reason.ts';
import type { CutOff } from './h2-server.ts';

const methods = ['other', 'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'CONNECT'] as const;
const classes = ['other', '1xx', '2xx', '3xx', '4xx', '5xx'] as const;
const durationBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** The client did not get what it asked for, through no doing of its own: what a switch must not cause. */
const failures: ReadonlySet<Reason> = new Set([
  'upstream-failed',
  'upstream-timeout',
  'no-live-backend',
  'app-down',
  'over-capacity',
  'overloaded',
  'hold-timeout',
  'hold-full',
  'internal',
]);

export function isFailure(reason: Reason): boolean {
  return reason !== 'served' && failures.has(reason);
}

/** The label of requests that matched no route: unknown hosts, malformed heads. */
export const otherRoute = 'other';

export class HttpMetrics {
  readonly inFlight: Cell;
  readonly droppedLogLines: Cell;
  /** Set-Cookie lines by which apps meant to set or clear a cookie of the gate. */
  readonly foreignCookies: Cell;
  readonly #metrics: Metrics;
  readonly #requests: Family;
  readonly #durations: HistogramFamily;
  readonly #received: Family;
  readonly #sent: Family;
  readonly #retries: Family;
  readonly #failures: Family;
  readonly #reasons: Family;
  readonly #reasonCells = new Map<Reason, Cell>();
  readonly #faults: Family;
  readonly #idleClosed: Cell;
  readonly #cutOff: Family;

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
    this.#requests = metrics.counter('http_requests_total', 'HTTP requests answered or given up', [
      'route',
      'method',
      'status',
    ]);
    this.#durations = metrics.histogram(
      'http_request_duration_seconds',
      'From the head of a request to the last byte of its answer',
      ['route'],
      durationBounds,
    );
    this.#received = metrics.counter('http_received_bytes_total', 'Content received from clients', ['route']);
    this.#sent = metrics.counter('http_sent_bytes_total', 'Content sent to clients', ['route']);
    this.#retries = metrics.counter('http_retries_total', 'Requests tried on a second backend', ['route']);
    this.#failures = metrics.counter('http_failures_total', 'Requests that failed through no doing of the client', [
      'route',
    ]);
    this.#reasons = metrics.counter('http_reasons_total', 'Why requests went as they did', ['reason']);
    this.#faults = metrics.counter('http_faults_total', 'Requests that were refused or cut short, by fault code', [
      'fault',
    ]);
    this.#idleClosed = metrics
      .counter(
        'http_keep_alive_closed_total',
        'Client connections closed because nothing was asked on them for too long',
      )
      .cell();
    this.droppedLogLines = metrics
      .counter('access_log_dropped_total', 'Lines lost because the log was not read')
      .cell();
    this.foreignCookies = metrics
      .counter('gate_foreign_cookies_total', "Set-Cookie lines of apps for the gate's own cookies, taken out")
      .cell();
    this.#cutOff = metrics.counter('http2_cut_off_total', 'HTTP/2 connections ended for what their client did', [
      'reason',
    ]);
    this.inFlight = metrics.gauge('http_requests_in_flight', 'HTTP requests being worked on').cell();
  }

  route(id: string): RouteMetrics {
    return new RouteMetrics(
      (method, status) => this.#requests.cell(id, method, status),
      this.#durations.cell(id),
      this.#received.cell(id),
      this.#sent.cell(id),
      this.#retries.cell(id),
      this.#failures.cell(id),
    );
  }

  reason(reason: Reason): void {
    let cell = this.#reasonCells.get(reason);
    if (cell === undefined) {
      cell = this.#reasons.cell(reason);
      this.#reasonCells.set(reason, cell);
    }
    cell.value++;
  }

  fault(code: FaultCode): void {
    this.#faults.cell(code).value++;
  }

  idleClosed(): void {
    this.#idleClosed.value++;
  }

  cutOff(why: CutOff): void {
    this.#cutOff.cell(why).value++;
  }

  /** The route left the configuration: its series go with it. */
  dropRoute(id: string): void {
    this.#metrics.drop('route', id);
  }
}

export class RouteMetrics {
  readonly retries: Cell;
  readonly failures: Cell;
  readonly #cellOf: (method: string, status: string) => Cell;
  readonly #duration: HistogramCell;
  readonly #received: Cell;
  readonly #sent: Cell;
  /** method × status class; a series exists from its first request on. */
  readonly #cells: (Cell | undefined)[] = new Array(methods.length * classes.length);

  constructor(
    cellOf: (method: string, status: string) => Cell,
    duration: HistogramCell,
    received: Cell,
    sent: Cell,
    retries: Cell,
    failures: Cell,
  ) {
    this.#cellOf = cellOf;
    this.#duration = duration;
    this.#received = received;
    this.#sent = sent;
    this.retries = retries;
    this.failures = failures;
  }

  count(method: string, status: number, durationMs: number, received: number, sent: number): void {
    const statusClass = status >= 100 && status < 600 ? Math.floor(status / 100) : 0;
    const m = methodIndex(method);
    const slot = m * classes.length + statusClass;
    let cell = this.#cells[slot];
    if (cell === undefined) this.#cells[slot] = cell = this.#cellOf(methods[m]!, classes[statusClass]!);
    cell.value++;
    this.#duration.observe(durationMs / 1000);
    this.#received.value += received;
    this.#sent.value += sent;
  }
}

function methodIndex(method: string): number {
  if (method === 'GET') return 1;
  return Math.max(0, (methods as readonly string[]).indexOf(method));
}
