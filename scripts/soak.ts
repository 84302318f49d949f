// npm run soak [-- --minutes N]: every kind of client at once for so long, and then the question what is left of it.
// Invariant: the same test as in `npm test`, for longer: no second idea of what a leak is.
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '2' }, help: { type: 'boolean' } } });
const minutes = Number(values.minutes);
if (values.help === true || !(minutes > 0 && minutes <= 24 * 60)) {
  process.stdout.write(`npm run soak -- [--minutes 2]
Mixes all kinds of clients, aborts, resets, switches and reloads. Fails when anything is left claimed or open, when a
process has more descriptors than before, when it holds more after the second half than after the first, or when anything
was uncaught.
Example: npm run soak -- --minutes 60
`);
  process.exit(values.help === true ? 0 : 2);
}
const { status } = spawnSync('vitest', ['run', 'test/soak/soak.test.ts', '-t', 'everybody at once'], {
  stdio: 'inherit',
  env: { ...process.env, SOAK_SECONDS: String(minutes * 60) },
});
process.exit(status ?? 1);
