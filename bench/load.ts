// Load generators: wrk for HTTP/1.1, h2load for HTTP/2, openssl for handshakes, our own where requests have their time;
// their reports as numbers.
// Invariant: a run with one failed request, wrong status or socket error is a failed run, not a slow one.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { LoadReport } from '../src/load/tally.ts';
import { turnpikeMain } from './contestants.ts';

const run = promisify(execFile);

export interface Load {
  readonly requests: number;
  readonly seconds: number;
  /** Microseconds. */
  readonly p50: number;
  readonly p99: number;
}

export interface LoadOptions {
  readonly connections: number;
  readonly seconds: number;
  /** A connection for every request. */
  readonly close?: boolean;
  /** More field lines of every request. */
  readonly headers?: readonly string[];
}

export async function wrk(
  url: string,
  { connections, seconds, close = false, headers: more = [] }: LoadOptions,
): Promise<Load> {
  const headers = [...(close ? ['Connection: close'] : []), ...more].flatMap((line) => ['-H', line]);
  const { stdout } = await run('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', ...headers, url]);
  const failure = /Non-2xx or 3xx responses: \d+|Socket errors: .*/.exec(stdout);
  if (failure !== null) throw new Error(`${url}: ${failure[0]}`);
  const total = /(\d+) requests in ([\d.]+)(ms|s|m)/.exec(stdout);
  if (total === null) throw new Error(`wrk said: ${stdout}`);
  return {
    requests: Number(total[1]),
    seconds: micros(total[2]!, total[3]!) / 1_000_000,
    p50: percentile(stdout, '50%'),
    p99: percentile(stdout, '99%'),
  };
}

/** Our own generator, in a process of its own. @param more  more of its options */
export async function turnpikeReport(
  url: string,
  { connections, seconds }: LoadOptions,
  ...more: readonly string[]
): Promise<LoadReport> {
  const options = ['--connections', String(connections), '--duration', `${seconds}s`, '--insecure', '--json', ...more];
  const { stdout } = await run(process.execPath, [turnpikeMain, 'bench', url, ...options], { maxBuffer: 1 << 24 });
  return JSON.parse(stdout) as LoadReport;
}

/** The same, where not one request may fail. */
export async function turnpikeBench(
  url: string,
  options: LoadOptions,
  ...more: readonly string[]
): Promise<Load & { readonly max: number }> {
  const report = await turnpikeReport(url, options, ...more);
  if (report.failed > 0) throw new Error(`${url}: ${report.failed} of ${report.begun}: ${JSON.stringify(report)}`);
  const { percentiles, max } = report.latency;
  const { answered, perSecond } = report;
  return { requests: answered, seconds: answered / perSecond, p50: percentiles['50']!, p99: percentiles['99']!, max };
}

/** New TLS handshakes, none resumed, by four clients; a connection is closed as soon as it stands. */
export async function handshakes(port: number, seconds: number): Promise<Load> {
  const args = ['s_time', '-connect', `127.0.0.1:${port}`, '-new', '-tls1_3', '-time', String(seconds)];
  const begun = performance.now();
  const clients = Array.from({ length: 4 }, () => run('openssl', args));
  let requests = 0;
  for (const { stdout } of await Promise.all(clients)) {
    const made = /(\d+) connections in \d+ real seconds/.exec(stdout);
    if (made === null) throw new Error(`openssl said: ${stdout}`);
    requests += Number(made[1]);
  }
  return { requests, seconds: (performance.now() - begun) / 1000, p50: Number.NaN, p99: Number.NaN };
}

export async function h2load(url: string, streams: number, { connections, seconds }: LoadOptions): Promise<Load> {
  const args = [`-c${connections}`, `-m${streams}`, `-D${seconds}`, url];
  const { stdout } = await run('h2load', args);
  const counts = /requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored/.exec(
    stdout,
  );
  if (counts === null) throw new Error(`h2load said: ${stdout}`);
  const [, , done, succeeded, failed, errored] = counts.map(Number);
  if (done !== succeeded || failed !== 0 || errored !== 0) throw new Error(`${url}: ${counts[0]}`);
  const mean = /time for request:\s+\S+\s+(\S+?)(us|ms|s)\s+(\S+?)(us|ms|s)/.exec(stdout);
  return {
    requests: done!,
    seconds,
    // h2load tells min, max and mean; the mean stands in for the median, the maximum for the tail.
    p50: mean === null ? Number.NaN : micros(mean[3]!, mean[4]!),
    p99: mean === null ? Number.NaN : micros(mean[1]!, mean[2]!),
  };
}

function percentile(report: string, label: string): number {
  const found = new RegExp(`^\\s+${label}\\s+([\\d.]+)(us|ms|s|m)`, 'm').exec(report);
  return found === null ? Number.NaN : micros(found[1]!, found[2]!);
}

function micros(amount: string, unit: string): number {
  const scale: Record<string, number> = { us: 1, ms: 1000, s: 1_000_000, m: 60_000_000 };
  return Number(amount) * scale[unit]!;
}
