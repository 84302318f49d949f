// Loaded into a worker before its program: builds leaks in, to see whether the soak finds them.
// Invariant: exactly one claim and one descriptor are lost, once, after a while.
import { openSync } from 'node:fs';
import { LiveGeneration } from '../../src/traffic/live-service.ts';

/** The how-many-eth claim is the one. */
const at = 200;

if (process.argv[2] === 'worker') {
  const { release } = LiveGeneration.prototype;
  let count = 0;
  LiveGeneration.prototype.release = function (holder): void {
    count++;
    if (count === at) {
      openSync('/dev/null', 'r');
      return;
    }
    Reflect.apply(release, this, [holder]);
  };
}
