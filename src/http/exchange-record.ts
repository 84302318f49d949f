// What one exchange was, for its log line and its counters.
// Invariant: plain facts, written by the exchange as they become known and read once, at its end.
import type { Clock } from '../base/clock.ts';
import type { FaultCode } from '../base/fault.ts';
import type { RequestHead } from '../message/head.ts';
import type { Reason } from '../model/reason.ts';

export class ExchangeRecord {
  readonly method: string;
  /** As sent, query included; the log leaves the query out. */
  readonly target: string;
  readonly version: number;
  /** Wall clock and monotonic milliseconds of the arrival. */
  readonly startedAt: number;
  readonly started: number;
  /** Canonical host; '' when there was none to be had. */
  host = '';
  client: string;
  /** Final status sent; 499 when the client left before one; 0 only while undecided. */
  status = 0;
  reason: Reason = 'served';
  /** What went wrong first, exactly; null: nothing did. */
  fault: FaultCode | null = null;
  /** The answer was cut short. */
  aborted = false;
  route = '';
  service = '';
  generation = 0;
  backend = '';
  requestId = '';
  retries = 0;
  /** Content bytes from and to the client. */
  bytesIn = 0;
  bytesOut = 0;
  heldMs = 0;
  /** Monotonic milliseconds; 0: never happened. */
  backendAskedAt = 0;
  backendReadyAt = 0;
  responseHeadAt = 0;

  constructor(head: Pick<RequestHead, 'method' | 'target' | 'version'>, client: string, clock: Clock) {
    this.method = head.method;
    this.target = head.target;
    this.version = head.version;
    this.client = client;
    this.startedAt = clock.now();
    this.started = clock.monotonic();
  }
}
