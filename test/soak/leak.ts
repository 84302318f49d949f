// Loaded into a worker before its program: builds a leak in, to see whether the soak finds it.
// Invariant: exactly one thing is lost, once, after a while.
import { openSync } from 'node:fs';
import { LiveGeneration } from '../../src/traffic/live-service.ts';

/** The how-many-eth claim is the one. */
const at = 200;

const leak = process.env['TURNPIKE_TEST_LEAK'];
if (process.argv[2] === 'worker' && leak !== undefined) {
  const { release } = LiveGeneration.prototype;
  let count = 0;
  LiveGeneration.prototype.release = function (holder): void {
    count++;
    if (count === at && leak === 'descriptor') openSync('/dev/null', 'r');
    if (count === at && leak === 'claim') return;
    Reflect.apply(release, this, [holder]);
  };
}
