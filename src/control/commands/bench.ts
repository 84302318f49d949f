// `turnpike bench URL`: load against a target, and what it answered.
// Invariant: what is printed was counted; with --strict a single failed request ends with exit code 1.
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import type { Command } from 'commander';
import { parseDuration, parseSize } from '../../base/units.ts';
import type { LoadProgress } from '../../load/load.ts';
import type { LoadPlan, LoadProtocol } from '../../load/plan.ts';
import type { LoadReport } from '../../load/tally.ts';
import { Fields } from '../../message/fields.ts';
import { CommandError } from '../client.ts';
import { type CommandContext, withExamples, withJson } from '../command.ts';
import { formatTable, plural, type Terminal } from '../terminal.ts';

interface BenchOptions {
  readonly connections: string;
  readonly duration: string;
  readonly rate?: string;
  readonly h2?: boolean;
  readonly streams: string;
  readonly method?: string;
  readonly header: readonly string[];
  readonly body?: string;
  readonly size?: string;
  readonly timeout: string;
  readonly connect?: string;
  readonly ca?: string;
  readonly insecure?: boolean;
  readonly strict?: boolean;
  readonly json?: boolean;
}

const defaultPorts: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443, 'ws:': 80, 'wss:': 443 };
/** Two numbers that tell datagrams apart. */
const smallestDatagram = 8;
const largestDatagram = 65_507;

export function addBench(program: Command, context: CommandContext): void {
  const command = program
    .command('bench')
    .summary('put load on a target and see latency and errors')
    .description(
      'Puts load on a target: http, https, ws, wss (a WebSocket that echoes) or udp (a port that echoes). Without --rate\n' +
        'every connection sends its next request when the last one is answered (closed loop). With --rate requests begin\n' +
        'at their time, whatever the target does, and latencies count from that time (open loop).',
    )
    .argument('<url>', 'http://…, https://…, ws://…, wss://… or udp://HOST:PORT')
    .option('--connections <n>', 'connections (udp: sockets)', '50')
    .option('--duration <duration>', 'how long new requests are begun', '10s')
    .option('--rate <n>', 'requests begun per second, over all connections')
    .option('--h2', 'HTTP/2 (on http:// with prior knowledge)')
    .option('--streams <n>', 'requests at a time on each HTTP/2 connection', '10')
    .option('--method <method>', 'GET, or POST when there is a body')
    .option('--header <name: value>', 'a header field; may be given several times', collect, [])
    .option('--body <text>', 'the body of each request; @FILE reads it from a file')
    .option('--size <size>', 'bytes of each body, message or datagram, such as 64KiB')
    .option('--timeout <duration>', 'a request without a complete answer after this long has failed', '10s')
    .option('--connect <host:port>', 'connect here instead of to the host of the URL')
    .option('--ca <file>', 'PEM file with the issuers to trust')
    .option('--insecure', 'take any certificate')
    .option('--strict', 'exit with 1 when a request failed, was answered other than 2xx or 3xx, or was never sent')
    .action(async (url: string, options: BenchOptions) => {
      const plan = planOf(url, options);
      const { terminal } = context;
      const report = await run(plan, terminal);
      if (options.json === true) terminal.json({ url, ...report });
      else for (const line of formatReport(url, plan, report, terminal)) terminal.line(line);
      const nothing = report.answered === 0;
      context.exit(nothing || (options.strict === true && report.failed > 0) ? 1 : 0);
    });
  withExamples(
    withJson(command),
    'bench http://127.0.0.1:8080/ --connections 64 --duration 30s',
    'bench https://app.example.com/ --connect 127.0.0.1:8443 --ca root.pem --h2 --rate 2000 --strict',
    'bench wss://app.example.com/echo --size 1KiB --json',
    'bench udp://127.0.0.1:5300 --size 100B',
  );
}

const collect = (value: string, before: readonly string[]): readonly string[] => [...before, value];

async function run(plan: LoadPlan, terminal: Terminal): Promise<LoadReport> {
  // Only this command needs it.
  const { runLoad } = await import('../../load/load.ts');
  const early = new AbortController();
  const interrupted = (): void => early.abort();
  process.once('SIGINT', interrupted);
  try {
    return await runLoad(plan, (progress) => terminal.progress(formatProgress(progress)), early.signal);
  } finally {
    process.removeListener('SIGINT', interrupted);
    terminal.progressDone();
  }
}

function planOf(text: string, options: BenchOptions): LoadPlan {
  const url = parseUrl(text);
  const secure = url.protocol === 'https:' || url.protocol === 'wss:';
  const protocol = protocolOf(url, options.h2 === true);
  const named = url.hostname.replace(/^\[|\]$/g, '');
  const { host, port } =
    options.connect === undefined
      ? { host: named, port: Number(url.port) || defaultPorts[url.protocol]! }
      : parseAddress(options.connect);
  const body = bodyOf(options, protocol);
  const connections = positive('--connections', options.connections, 20_000);
  return {
    protocol,
    host,
    port,
    tls: secure
      ? { serverName: isIP(named) === 0 ? named : '', verify: options.insecure !== true, ca: readCa(options.ca) }
      : null,
    authority: url.host,
    target: `${url.pathname}${url.search}`,
    method: options.method ?? (body.length > 0 && protocol !== 'websocket' ? 'POST' : 'GET'),
    fields: fieldsOf(options.header),
    body,
    connections,
    streams: positive('--streams', options.streams, 1000),
    durationMs: duration('--duration', options.duration),
    rate: options.rate === undefined ? null : positive('--rate', options.rate, 1_000_000),
    timeoutMs: duration('--timeout', options.timeout),
  };
}

function parseUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !['http:', 'https:', 'ws:', 'wss:', 'udp:'].includes(url.protocol) || url.hostname === '') {
    throw new CommandError(
      `${text}: a URL with http, https, ws, wss or udp is accepted, such as http://127.0.0.1:8080/.`,
      2,
    );
  }
  if (url.protocol === 'udp:' && url.port === '') throw new CommandError(`${text}: udp needs a port.`, 2);
  return url;
}

function protocolOf(url: URL, h2: boolean): LoadProtocol {
  const protocol = url.protocol === 'udp:' ? 'udp' : url.protocol.startsWith('ws') ? 'websocket' : 'http1';
  if (!h2) return protocol;
  if (protocol !== 'http1') throw new CommandError('--h2 goes with http:// and https:// only.', 2);
  return 'http2';
}

function parseAddress(text: string): { host: string; port: number } {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]\s/]+)):([0-9]{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port < 1 || port > 65_535) {
    throw new CommandError(`--connect ${text}: HOST:PORT is accepted, such as 127.0.0.1:8443 or [::1]:8443.`, 2);
  }
  return { host: match[1] ?? match[2]!, port };
}

function bodyOf({ body, size }: BenchOptions, protocol: LoadProtocol): Buffer {
  if (body !== undefined && size !== undefined) throw new CommandError('Either --body or --size, not both.', 2);
  const least = protocol === 'udp' ? smallestDatagram : 0;
  const made =
    body === undefined ? sizedBody(size, protocol) : body.startsWith('@') ? readBody(body.slice(1)) : Buffer.from(body);
  if (made.length < least || (protocol === 'udp' && made.length > largestDatagram)) {
    throw new CommandError(
      `A datagram has ${smallestDatagram} to ${largestDatagram} bytes here, not ${made.length}.`,
      2,
    );
  }
  return made;
}

function sizedBody(size: string | undefined, protocol: LoadProtocol): Buffer {
  if (size === undefined) return Buffer.alloc(protocol === 'udp' || protocol === 'websocket' ? 64 : 0, 0x78);
  const bytes = parseSize(size);
  if (bytes === null || bytes > 2 ** 30)
    throw new CommandError(`--size ${size}: a size up to 1GiB is accepted, such as 64KiB.`, 2);
  return Buffer.alloc(bytes, 0x78);
}

function readBody(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new CommandError(`--body @${file}: ${(error as Error).message}`, 2);
  }
}

function readCa(file: string | undefined): string {
  if (file === undefined) return '';
  const text = readBody(file).toString('latin1');
  if (!text.includes('-----BEGIN CERTIFICATE-----'))
    throw new CommandError(`--ca ${file}: no PEM certificate in it.`, 2);
  return text;
}

function fieldsOf(headers: readonly string[]): Fields {
  const fields = new Fields();
  for (const header of headers) {
    const match = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0\r\n]*)$/.exec(header);
    if (match === null) throw new CommandError(`--header ${header}: "Name: value" is accepted.`, 2);
    fields.add(match[1]!, match[2]!);
  }
  return fields;
}

function positive(option: string, text: string, most: number): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > most) {
    throw new CommandError(`${option} ${text}: a whole number from 1 to ${most} is accepted.`, 2);
  }
  return value;
}

function duration(option: string, text: string): number {
  const ms = parseDuration(text);
  if (ms === null || ms < 1) throw new CommandError(`${option} ${text}: a duration such as 30s or 5m is accepted.`, 2);
  return ms;
}

// ---- what is printed -----------------------------------------------------------------------------------------------

function formatProgress({ elapsedMs, answered, failed, perSecond, p50, p99 }: LoadProgress): string {
  const trouble = failed === 0 ? '' : `, ${failed} failed`;
  const latency = answered === 0 ? '' : `, p50 ${formatMicros(p50)}, p99 ${formatMicros(p99)}`;
  return `${Math.round(elapsedMs / 1000)} s  ${answered} answered, ${Math.round(perSecond)}/s${latency}${trouble}`;
}

export function formatReport(url: string, plan: LoadPlan, report: LoadReport, terminal: Terminal): string[] {
  const { latency } = report;
  const loop = plan.rate === null ? 'closed loop' : `${plan.rate}/s asked for`;
  const lanes = plan.protocol === 'http2' ? `, ${plan.streams} streams each` : '';
  const seconds = (report.durationMs / 1000).toFixed(1);
  const verdict =
    report.failed === 0 ? terminal.style('green', 'none failed') : terminal.style('red', `${report.failed} failed`);
  const rows = [
    ['requests', `${report.begun} begun, ${report.answered} answered, ${Math.round(report.perSecond)}/s, ${verdict}`],
    ['received', `${formatBytes(report.bytesIn)}, ${plural(report.connections, 'connection')} made`],
  ];
  const classes = Object.entries(report.classes).map(([name, count]) => `${name} ${count}`);
  if (classes.length > 0) rows.push(['status', classes.join(', ')]);
  const errors = Object.entries(report.errors).map(([why, count]) => `${why} ${count}`);
  if (report.unsent > 0) errors.push(`never sent ${report.unsent}: every connection was busy when their time came`);
  if (errors.length > 0) rows.push(['errors', errors.join(', ')]);
  if (latency.count > 0) {
    const marks = Object.entries(latency.percentiles).map(([percent, micros]) => `p${percent} ${formatMicros(micros)}`);
    rows.push(['latency', [...marks, `max ${formatMicros(latency.max)}`].join('  ')]);
  }
  return [
    `${url}: ${seconds} s, ${plural(plan.connections, 'connection')}${lanes}, ${loop}`,
    ...formatTable(rows.map(([name, text]) => [`  ${name!}`, text!])),
  ];
}

function formatMicros(micros: number): string {
  if (micros < 1000) return `${Math.round(micros)} µs`;
  return micros < 1_000_000
    ? `${(micros / 1000).toFixed(micros < 10_000 ? 2 : 1)} ms`
    : `${(micros / 1_000_000).toFixed(2)} s`;
}

function formatBytes(bytes: number): string {
  if (bytes < 10_000) return `${bytes} B`;
  return bytes < 10_000_000 ? `${(bytes / 1000).toFixed(0)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
