// One line per exchange, tunnel or flow, written in batches.
// Invariant: a slow reader of the log never slows or stops traffic: beyond its backlog lines are dropped and counted.
import { fstatSync, write, writeSync } from 'node:fs';
import type { Clock, Timer } from '../base/clock.ts';
import type { ConnectionPlan } from './connection-plan.ts';
import type { ExchangeRecord } from './exchange-record.ts';
import { configuredJsonText, jsonText } from './json-text.ts';

/** Writing is handed to another thread, which costs more than a hundred lines are worth. */
const batchSize = 256 * 1024;
const flushMs = 100;
/** A write of this size or less into a pipe is never mixed with another process's (PIPE_BUF): workers share the log. */
const pipeBuf = 4096;

export class AccessLog {
  /** Lines lost because the log could not be written fast enough. */
  dropped = 0;
  #enabled = true;
  #format: 'json' | 'pretty' = 'json';
  readonly #clock: Clock;
  readonly #fd: number;
  readonly #isPipe: boolean;
  readonly #maxBacklog: number;
  #text = '';
  /** Batches handed over for writing, oldest first; the first one is in work. */
  #backlog: Buffer[] = [];
  #backlogSize = 0;
  #timer: Timer | null = null;
  #closed = false;

  /** @param maxBacklog  bytes that may wait to be written */
  constructor(clock: Clock, fd: number, maxBacklog = 8 * 1024 * 1024) {
    this.#maxBacklog = maxBacklog;
    this.#clock = clock;
    this.#fd = fd;
    this.#isPipe = fstatSync(fd).isFIFO();
  }

  /** Follows `[log] access` and `format`. */
  configure(enabled: boolean, format: 'json' | 'pretty'): void {
    this.#enabled = enabled;
    this.#format = format;
  }

  /** How the next line has to look; null: there is nobody, or no room, for one. */
  get wanted(): 'json' | 'pretty' | null {
    if (!this.#enabled || this.#closed) return null;
    if (this.#backlogSize <= this.#maxBacklog) return this.#format;
    this.dropped++;
    return null;
  }

  record(record: ExchangeRecord, connection: ConnectionPlan, endedAt: number): void {
    const format = this.wanted;
    if (format === null) return;
    this.write(format === 'json' ? jsonLine(record, connection, endedAt) : prettyLine(record, connection, endedAt));
  }

  /** A whole line, as `wanted` asked for it. */
  write(line: string): void {
    if (this.#isPipe && this.#text.length + line.length > pipeBuf) this.flush();
    this.#text += line;
    if (this.#text.length >= batchSize) this.flush();
    else if (this.#timer === null) this.#timer = this.#clock.after(flushMs, () => this.flush());
  }

  flush(): void {
    this.#timer?.cancel();
    this.#timer = null;
    if (this.#text === '') return;
    const batch = Buffer.from(this.#text, 'utf8');
    this.#text = '';
    this.#backlog.push(batch);
    this.#backlogSize += batch.length;
    if (this.#backlog.length === 1) this.#writeFirst();
  }

  /** Writes what is left, waiting for it: the process is about to end. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#timer?.cancel();
    // The first batch is in the hands of the thread pool already.
    const rest = Buffer.concat([...this.#backlog.slice(1), Buffer.from(this.#text, 'utf8')]);
    this.#text = '';
    this.#backlog = [];
    try {
      for (let at = 0; at < rest.length; ) at += writeSync(this.#fd, rest, at);
    } catch {
      // Nobody reads any more, and there is no other place to say so.
    }
  }

  #writeFirst(): void {
    const batch = this.#backlog[0];
    if (batch === undefined) return;
    write(this.#fd, batch, (error, written) => {
      if (this.#backlog[0] !== batch) return;
      if (error !== null && error.code === 'EAGAIN') {
        this.#clock.after(10, () => this.#writeFirst());
        return;
      }
      if (error === null && written < batch.length) {
        this.#backlog[0] = batch.subarray(written);
        this.#backlogSize -= written;
      } else {
        if (error !== null) this.dropped++;
        this.#backlog.shift();
        this.#backlogSize -= batch.length;
      }
      this.#writeFirst();
    });
  }
}

function jsonLine(record: ExchangeRecord, connection: ConnectionPlan, endedAt: number): string {
  const { backendAskedAt, backendReadyAt, responseHeadAt } = record;
  let line = `{"time":"${isoTime(record.startedAt)}","client":${jsonText(record.client)},"method":${jsonText(
    record.method,
  )},"host":${jsonText(record.host)},"path":${jsonText(pathOf(record.target))},"version":${record.version},"status":${
    record.status
  },"reason":"${record.reason}","duration_ms":${ms(endedAt - record.started)},"bytes_in":${record.bytesIn},"bytes_out":${
    record.bytesOut
  },"request_id":${jsonText(record.requestId)}`;
  if (record.route !== '') line += `,"route":${configuredJsonText(record.route)}`;
  if (record.service !== '')
    line += `,"service":${configuredJsonText(record.service)},"generation":${record.generation}`;
  if (record.backend !== '') line += `,"backend":${configuredJsonText(record.backend)}`;
  if (record.heldMs > 0) line += `,"held_ms":${ms(record.heldMs)}`;
  if (backendReadyAt > 0) line += `,"connect_ms":${ms(backendReadyAt - backendAskedAt)}`;
  if (responseHeadAt > 0) line += `,"head_ms":${ms(responseHeadAt - backendReadyAt)}`;
  if (record.retries > 0) line += `,"retries":${record.retries}`;
  if (record.aborted) line += ',"aborted":true';
  return line + connection.logTail;
}

function prettyLine(record: ExchangeRecord, connection: ConnectionPlan, endedAt: number): string {
  const time = isoTime(record.startedAt).slice(11, 23);
  const to = record.backend === '' ? '' : ` → ${record.service} #${record.generation} ${record.backend}`;
  const why = record.reason === 'served' ? '' : ` (${record.reason}${record.aborted ? ', cut short' : ''})`;
  const host = record.host === '' ? '-' : record.host;
  const request = `${record.method} ${connection.proto}://${host}${pathOf(record.target)}`;
  const printable = JSON.stringify(request).slice(1, -1);
  return `${time} ${record.status} ${printable} ${ms(endedAt - record.started)}ms ${record.client}${to}${why}\n`;
}

function pathOf(target: string): string {
  const query = target.indexOf('?');
  return query < 0 ? target : target.slice(0, query);
}

/** Milliseconds with at most three decimals. */
export function ms(value: number): number {
  return Math.round(value * 1000) / 1000;
}

let secondStart = Number.NaN;
let secondText = '';

/** ISO 8601 in UTC; the part that changes once a second is kept. */
export function isoTime(at: number): string {
  const whole = Math.floor(at);
  const second = whole - (whole % 1000);
  if (second !== secondStart) {
    secondStart = second;
    secondText = new Date(second).toISOString().slice(0, 20);
  }
  const rest = whole - second;
  return `${secondText}${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}Z`;
}
