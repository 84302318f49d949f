// Leaks: what every kind of client, aborts, resets, switches and reloads leave behind, which must be nothing.
//
// `npm run soak -- --minutes N` is the first test here for longer; then memory counts as well.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { TestCa } from '../support/certificates.ts';
import { soak } from './soak.ts';

const seconds = Number(process.env['SOAK_SECONDS'] ?? 6);
const ca = new TestCa('Turnpike soak');
const pair = ca.leaf(['app.test']);
const leak = join(import.meta.dirname, 'leak.ts');

it('everybody at once leaves nothing behind', { timeout: seconds * 1000 + 90_000 }, async () => {
  const report = await soak({ seconds, ca: ca.pem, pair });
  const { problems, ...seen } = report;
  console.log(JSON.stringify(seen));
  expect(problems).toEqual([]);
  for (const kind of ['h1', 'h1, alone', 'h1+tls', 'h2', 'websocket', 'events', 'tunnel', 'flow', 'upload', 'vandal']) {
    expect(report.visits[kind], kind).toBeGreaterThan(seconds);
  }
  expect(report.switches).toBeGreaterThan(1);
});

it('one lost claim, one lost descriptor and what is never let go of are found', { timeout: 60_000 }, async () => {
  const { problems, gainedMiB } = await soak({ seconds: 4, ca: ca.pem, pair, preload: [leak], judgeMemory: true });
  const text = [...problems, JSON.stringify(gainedMiB)].join('\n');
  expect(text).toMatch(/left over: app\.test: .*claims|left over: .* drain/);
  expect(text).toMatch(/has \d+ descriptors, and had/);
  expect(text).toMatch(/worker \d gained \d+(?:\.\d)? MiB/);
});
