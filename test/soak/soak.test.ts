// Leaks: what every kind of client, aborts, resets, switches and reloads leave behind, which must be nothing.
//
// `npm run soak -- --minutes N` is the first test here for longer; then the memory's slope counts as well.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { TestCa } from '../support/certificates.ts';
import { slope, soak } from './soak.ts';

const seconds = Number(process.env['SOAK_SECONDS'] ?? 6);
const ca = new TestCa('Turnpike soak');
const pair = ca.leaf(['app.test']);
const preload = `--import=${join(import.meta.dirname, 'leak.ts')}`;

it('everybody at once leaves nothing behind', { timeout: seconds * 1000 + 60_000 }, async () => {
  const report = await soak({ seconds, ca: ca.pem, pair });
  const { problems, ...seen } = report;
  console.log(JSON.stringify(seen));
  expect(problems).toEqual([]);
  for (const kind of ['h1', 'h1, alone', 'h1+tls', 'h2', 'websocket', 'events', 'tunnel', 'flow', 'upload', 'vandal']) {
    expect(report.visits[kind], kind).toBeGreaterThan(seconds);
  }
  expect(report.switches).toBeGreaterThan(1);
});

it('one lost claim and one lost descriptor are found', { timeout: 60_000 }, async () => {
  const { problems } = await soak({ seconds: 2, ca: ca.pem, pair, env: { NODE_OPTIONS: preload } });
  const text = problems.join('\n');
  expect(text).toMatch(/left over: app\.test: .*claims|left over: .* drain/);
  expect(text).toMatch(/has \d+ descriptors, and had/);
});

it('knows a slope when it sees one', () => {
  expect(slope([0, 1, 2, 3], [5, 7, 9, 11])).toBe(2);
  expect(slope([0, 1, 2, 3], [4, 6, 4, 6])).toBeCloseTo(0.4);
  expect(slope([1], [9])).toBe(0);
});
