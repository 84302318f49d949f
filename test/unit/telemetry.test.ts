// Export: lines of containers, the JSON form of OTLP, and what happens when the receiver is slow, gone or refuses.
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { Metrics } from '../../src/base/metrics.ts';
import { parseHeaderFile } from '../../src/config/header-file.ts';
import { LogFrames } from '../../src/runtime/log-frames.ts';
import { LogLines, LogMark, nanosOfStamp } from '../../src/telemetry/log-lines.ts';
import { encodedMetrics } from '../../src/telemetry/metric-points.ts';
import { type Encoded, logRecord, logsBody, metricsBody, resourceOf } from '../../src/telemetry/otlp.ts';
import { Outbox } from '../../src/telemetry/outbox.ts';
import { type Deliver, type Delivery, Receiver } from '../../src/telemetry/receiver.ts';
import { HandClock } from '../support/hand-clock.ts';

const stamp = (nanos: number): string => `2026-01-02T03:04:05.${String(nanos).padStart(9, '0')}Z `;
const frame = (stream: 1 | 2, text: string | Buffer): Buffer => {
  const data = Buffer.from(text);
  const head = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0]);
  head.writeUInt32BE(data.length, 4);
  return Buffer.concat([head, data]);
};

/** The lines of these frames, handed over in chunks of so many bytes. */
function linesOf(frames: readonly Buffer[], secrets: readonly string[] = [], size = Number.POSITIVE_INFINITY) {
  const whole = Buffer.concat(frames);
  const reader = new LogFrames();
  const lines = new LogLines(secrets);
  const found = [];
  const step = Math.min(size, whole.length);
  for (let at = 0; at < whole.length; at += step) {
    for (const chunk of reader.read(whole.subarray(at, at + step))) found.push(...lines.read(chunk));
  }
  return [...found, ...lines.end()];
}

describe('lines of a container', () => {
  const frames = [
    frame(1, `${stamp(1)}one\n`),
    frame(2, `${stamp(2)}bad\r\n`),
    // A long line comes from the engine in pieces, each with a time of its own.
    frame(1, `${stamp(3)}first `),
    frame(2, `${stamp(4)}between\n`),
    frame(1, `${stamp(5)}second\n`),
    frame(1, `${stamp(6)}\n`),
    frame(1, `${stamp(7)}without an end`),
  ];
  const expected = [
    ['stdout', '1', 'one'],
    ['stderr', '2', 'bad'],
    ['stderr', '4', 'between'],
    ['stdout', '3', 'first second'],
    ['stdout', '6', ''],
    ['stdout', '7', 'without an end'],
  ];

  test.each([1, 2, 7, 31, 1000])('come out whole when bytes come %d at a time', (size) => {
    const found = linesOf(frames, [], size);
    expect(found.map(({ stream, nanos, text }) => [stream, nanos.slice(-1), text])).toEqual(expected);
    expect(found[0]!.nanos).toBe('1767323045000000001');
  });

  test('hold no secret, not even one across the cut, and are cut at 64 KiB', () => {
    const secret = 'open-sesame-of-forty-thieves';
    const long = `${'x'.repeat(64 * 1024 - 5)}${secret}${'y'.repeat(100)}`;
    const [short, cut] = linesOf([frame(1, `${stamp(1)}key=${secret}!\n`), frame(1, `${stamp(2)}${long}\n`)], [secret]);
    expect(short!.text).toBe('key=[redacted]!');
    expect(cut!.cut).toBe(true);
    expect(Buffer.byteLength(cut!.text)).toBeLessThanOrEqual(64 * 1024);
    expect(cut!.text.replaceAll('x', '')).toBe('[reda');
  });

  test('are valid text whatever was printed', () => {
    const [line] = linesOf([frame(1, Buffer.concat([Buffer.from(stamp(1)), Buffer.from([0xff, 0xc3, 0x41, 10])]))]);
    expect(line!.text).toBe('\ufffd\ufffdA');
  });

  test('keep the nanoseconds of any zone', () => {
    expect(nanosOfStamp('2026-01-02T05:04:05.5+02:00')).toBe('1767323045500000000');
    expect(nanosOfStamp('yesterday')).toBeNull();
  });

  test('are not told again after a break, and lines of the same instant are not lost', () => {
    const mark = new LogMark();
    expect([mark.sinceMs, new LogMark(5).sinceMs]).toEqual([0, 5]);
    const times = ['1000000001', '1000000002', '1000000002'];
    expect(times.map((each) => mark.isNew(each))).toEqual([true, true, true]);
    // Streams may be out of order: that makes a line no older.
    expect(mark.isNew('1000000001')).toBe(true);
    mark.beginAgain();
    expect(mark.sinceMs).toBe(1000);
    const again = [...times, '1000000002', '1000000003', '1000000002'];
    expect(again.map((each) => mark.isNew(each))).toEqual([false, false, false, true, true, true]);
  });
});

describe('the JSON form', () => {
  test('groups records by resource', () => {
    const of = (name: string, text: string): Encoded => ({
      resource: resourceOf({ 'service.name': name, 'turnpike.revision': 3 }),
      text: logRecord({ nanos: '17', observedMs: 2, stream: 'stderr', text, cut: false }),
    });
    const body = JSON.parse(logsBody([of('a.web', 'x'), of('b.web', 'y'), of('a.web', 'z')]));
    expect(body.resourceLogs).toHaveLength(2);
    const [first] = body.resourceLogs;
    expect(first.resource.attributes).toEqual([
      { key: 'service.name', value: { stringValue: 'a.web' } },
      { key: 'turnpike.revision', value: { intValue: '3' } },
    ]);
    expect(first.scopeLogs[0].logRecords.map((each: { body: object }) => each.body)).toEqual([
      { stringValue: 'x' },
      { stringValue: 'z' },
    ]);
    expect(first.scopeLogs[0].logRecords[0]).toMatchObject({
      timeUnixNano: '17',
      observedTimeUnixNano: '2000000',
      severityNumber: 17,
    });
  });

  test('has counters as sums, gauges, and histograms with a count for each bucket', () => {
    const registry = new Metrics();
    registry.counter('requests_total', 'Requests', ['route']).cell('a').value = 5;
    registry.gauge('open', 'Open').cell().value = 2;
    const times = registry.histogram('seconds', 'Time', ['route'], [0.1, 1]).cell('a');
    for (const each of [0.05, 0.5, 0.7, 4]) times.observe(each);
    const body = JSON.parse(metricsBody(encodedMetrics(registry.collect(), '{}', 1000, 2000)));
    const [sum, gauge, histogram] = body.resourceMetrics[0].scopeMetrics[0].metrics;
    expect(sum).toMatchObject({
      name: 'turnpike_requests_total',
      sum: { aggregationTemporality: 2, isMonotonic: true },
    });
    expect(sum.sum.dataPoints).toEqual([
      {
        attributes: [{ key: 'route', value: { stringValue: 'a' } }],
        startTimeUnixNano: '1000000000',
        timeUnixNano: '2000000000',
        asDouble: 5,
      },
    ]);
    expect(gauge.gauge.dataPoints).toEqual([{ attributes: [], timeUnixNano: '2000000000', asDouble: 2 }]);
    expect(histogram.histogram.dataPoints[0]).toMatchObject({
      count: '4',
      sum: 5.25,
      bucketCounts: ['1', '2', '1'],
      explicitBounds: [0.1, 1],
    });
  });
});

describe('an outbox', () => {
  const item = (n: number, size = 10): Encoded => ({ resource: '{}', text: String(n).padEnd(size, '.') });
  const taken: Delivery = { status: 200, retryAfter: null, text: '{}' };

  function boxOf(answers: (Delivery | Error)[], queueBytes = 1_000_000) {
    const clock = new HandClock();
    const sent: string[] = [];
    const registry = new Metrics();
    const family = registry.counter('x', 'x', ['outcome']);
    const counts = { exported: family.cell('e'), dropped: family.cell('d'), failed: family.cell('f') };
    const deliver: Deliver = async (_path, body) => {
      sent.push(body);
      const answer = answers.shift() ?? taken;
      if (answer instanceof Error) throw answer;
      return answer;
    };
    const body = (items: readonly Encoded[]): string => items.map(({ text }) => text.replaceAll('.', '')).join();
    const box = new Outbox({
      signal: 'logs',
      clock,
      log: silentLog,
      deliver,
      body,
      counts,
      queueBytes,
      random: () => 1,
    });
    const told = () => [counts.exported.value, counts.dropped.value, counts.failed.value];
    return { box, clock, sent, told };
  }
  const settle = async (): Promise<void> => {
    for (let i = 0; i < 20; i++) await Promise.resolve();
  };

  test('sends what came within a second together', async () => {
    const { box, clock, sent, told } = boxOf([]);
    box.offer(item(1));
    box.offer(item(2));
    clock.advance(999);
    expect(sent).toEqual([]);
    clock.advance(1);
    await settle();
    expect(sent).toEqual(['1,2']);
    expect(told()).toEqual([2, 0, 0]);
  });

  test.each([
    ['no connection', new Error('gone'), 1000],
    ['429', { ...taken, status: 429 }, 1000],
    ['503 that says when', { ...taken, status: 503, retryAfter: '7' }, 7000],
  ] as const)('tries again after %s', async (_name, answer, pause) => {
    const { box, clock, sent, told } = boxOf([answer]);
    box.offer(item(1));
    clock.advance(1000);
    await settle();
    clock.advance(pause - 1);
    await settle();
    expect(sent).toEqual(['1']);
    clock.advance(1);
    await settle();
    expect(sent).toEqual(['1', '1']);
    expect(told()).toEqual([1, 0, 0]);
  });

  test('does not send again what was refused, and counts what was taken in part', async () => {
    const part = { ...taken, text: '{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"no"}}' };
    const { box, clock, sent, told } = boxOf([{ ...taken, status: 400 }, part]);
    box.offer(item(1));
    clock.advance(1000);
    await settle();
    box.offer(item(2));
    box.offer(item(3));
    clock.advance(1000);
    await settle();
    expect(sent).toEqual(['1', '2,3']);
    expect(told()).toEqual([1, 0, 2]);
  });

  test('drops the oldest when there is no room, and says early that it is pressed', () => {
    const { box, told } = boxOf([], 100);
    for (let i = 0; i < 5; i++) box.offer(item(i));
    expect(box.pressed).toBe(false);
    box.offer(item(5));
    expect(box.pressed).toBe(true);
    for (let i = 6; i < 25; i++) box.offer(item(i));
    expect(told()).toEqual([0, 15, 0]);
  });

  test('sends the rest when it closes, and gives up at the first failure', async () => {
    const good = boxOf([]);
    good.box.offer(item(1));
    await good.box.close(1000);
    expect(good.told()).toEqual([1, 0, 0]);
    const bad = boxOf([new Error('gone'), new Error('gone')]);
    bad.box.offer(item(1));
    bad.clock.advance(1000);
    await settle();
    bad.box.offer(item(2));
    await bad.box.close(1000);
    expect(bad.told()).toEqual([0, 2, 0]);
    bad.box.offer(item(3));
    expect(bad.told()).toEqual([0, 3, 0]);
  });
});

describe('a receiver', () => {
  let server: Server;
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  test('gets compressed JSON below its own path, with the headers of the operator, past every proxy', async () => {
    const got: { request: IncomingMessage; body: string }[] = [];
    server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        got.push({ request, body: gunzipSync(Buffer.concat(chunks)).toString() });
        response.writeHead(429, { 'retry-after': '3' }).end('later');
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    process.env['HTTP_PROXY'] = 'http://127.0.0.1:9';
    const receiver = new Receiver(
      `http://127.0.0.1:${port}/otlp/`,
      parseHeaderFile('# ours\nAuthorization: Bearer x\n'),
    );
    try {
      const answer = await receiver.deliver('/v1/logs', '{"a":1}', new AbortController().signal);
      expect(answer).toEqual({ status: 429, retryAfter: '3', text: 'later' });
    } finally {
      delete process.env['HTTP_PROXY'];
      await receiver.close();
    }
    expect(got[0]!.body).toBe('{"a":1}');
    const { url, headers } = got[0]!.request;
    expect(url).toBe('/otlp/v1/logs');
    expect(headers).toMatchObject({ authorization: 'Bearer x', 'content-type': 'application/json' });
  });

  test.each([
    ['Authorization Bearer x', 'line 1 is not "Name: value"'],
    ['A: 1\nHost: x', 'line 2 sets host'],
    ['A: 1\na: 2', 'line 2 repeats a'],
  ])('takes no file of headers that says %j', (text, why) => {
    server = createServer();
    expect(() => parseHeaderFile(text)).toThrow(why);
  });
});
