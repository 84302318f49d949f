import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { AccessLog } from '../../src/http/access-log.ts';
import { ConnectionPlan } from '../../src/http/connection-plan.ts';
import { ExchangeRecord } from '../../src/http/exchange-record.ts';
import { HandClock } from '../support/hand-clock.ts';
import { until } from '../support/wait.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'turnpike-log-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

const connection = new ConnectionPlan({
  entrypoint: 'web',
  peerAddress: '::1',
  peerPort: 1,
  localAddress: '::1',
  localPort: 2,
  trustedPeer: false,
  tls: null,
});

function record(clock: HandClock, target: string): ExchangeRecord {
  const made = new ExchangeRecord({ method: 'GET', target, version: 11 }, '::1', clock);
  made.host = 'a.test';
  made.status = 200;
  made.requestId = 'x-1';
  return made;
}

test('lines are gathered, and written together after a moment or when they are many', async () => {
  const file = join(directory, 'log');
  const clock = new HandClock();
  clock.advance(1_000_000_000_123);
  const log = new AccessLog(clock, openSync(file, 'a'));
  log.record(record(clock, '/a"b?secret=1'), connection, clock.monotonic() + 1.23456);
  expect(readFileSync(file, 'utf8')).toBe('');
  clock.advance(200);
  await until('the line', () => readFileSync(file, 'utf8').endsWith('\n'));
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({
    time: '2001-09-09T01:46:40.123Z',
    client: '::1',
    method: 'GET',
    host: 'a.test',
    path: '/a"b',
    version: 11,
    status: 200,
    reason: 'served',
    duration_ms: 1.235,
    bytes_in: 0,
    bytes_out: 0,
    request_id: 'x-1',
    entrypoint: 'web',
    peer: '::1',
  });
  log.configure(true, 'pretty');
  log.record(record(clock, '/\u001b[31m'), connection, clock.monotonic());
  log.configure(false, 'json');
  log.record(record(clock, '/not-logged'), connection, clock.monotonic());
  log.close();
  const last = readFileSync(file, 'utf8').split('\n')[1]!;
  expect(last).toContain('200 GET http://a.test/\\u001b[31m');
  expect(readFileSync(file, 'utf8')).not.toContain('not-logged');
});

test('a log that nobody reads loses lines, whole ones and counted, and stops nothing', async () => {
  const fifo = join(directory, 'fifo');
  execFileSync('mkfifo', [fifo]);
  const fd = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK);
  const clock = new HandClock();
  const log = new AccessLog(clock, fd, 256 * 1024);
  const target = `/${'x'.repeat(2000)}`;
  let count = 0;
  while (log.dropped === 0 && count < 20_000) {
    log.record(record(clock, target), connection, 0);
    count++;
  }
  expect(log.dropped).toBe(1);
  const chunk = Buffer.alloc(65_536);
  let text = '';
  await until(
    'all lines that were kept',
    () => {
      clock.advance(200);
      try {
        text += chunk.toString('latin1', 0, readSync(fd, chunk, 0, chunk.length, null));
      } catch {
        // Nothing there right now.
      }
      return text.split('\n').length - 1 >= count - 1;
    },
    { timeoutMs: 20_000, everyMs: 0 },
  );
  for (const line of text.trimEnd().split('\n')) expect(JSON.parse(line).path).toBe(target);
  log.close();
  closeSync(fd);
});
