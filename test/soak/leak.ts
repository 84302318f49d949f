// Loaded into a worker before its program: builds leaks in, to see whether the soak finds them.
// Invariant: exactly one claim and one descriptor are lost, once, after a while; memory is lost with each request.
import { openSync } from 'node:fs';
import { LiveGeneration } from '../../src/traffic/live-service.ts';

/** The how-many-eth claim is the one. */
const at = 200;
/** What is kept of each request: written to, so that it is resident. */
const kept: number[][] = [];

if (process.argv[2] === 'worker') {
  const { release } = LiveGeneration.prototype;
  let count = 0;
  LiveGeneration.prototype.release = function (holder): void {
    count++;
    kept.push(Array.from({ length: 32_768 }, () => count + 0.5));
    if (count === at) {
      openSync('/dev/null', 'r');
      return;
    }
    Reflect.apply(release, this, [holder]);
  };
}
