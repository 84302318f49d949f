// The check that stands behind every test with a process: what nobody caught is found in its log.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { freePort } from '../support/ports.ts';
import { Turnpike } from '../support/turnpike.ts';
import { until } from '../support/wait.ts';

const preload = `--import=${join(import.meta.dirname, '../support/bug.ts')}`;

it.each([
  ['an unhandled rejection', 'rejection', 'worker'],
  ['an uncaught exception', 'exception', 'worker'],
  ['an unhandled rejection', 'rejection', 'serve'],
])('%s (%s in %s) is a bug in the log', async (_name, kind, role) => {
  const config = `workers = 1\n[entrypoints.web]\naddress = "127.0.0.1:${await freePort()}"\nprotocol = "http"\n`;
  const env = { NODE_OPTIONS: preload, TURNPIKE_TEST_BUG: `${kind} ${role}` };
  const p = await Turnpike.start({ config, env, wait: false });
  await until('the bug to be seen', () => p.bugs.length > 0, { timeoutMs: 10_000, seen: () => p.output });
  expect(p.output).toContain('nobody catches this');
  await p.kill();
  p.bugsExpected = true;
  expect(p.bugs).toEqual([]);
  p.forget();
});
