// Loaded into every process of a soak: collects what is garbage when it is told to, so that what is left is what is held.
// Invariant: does nothing by itself.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

process.on('SIGUSR2', () => {
  // What a finalizer frees is garbage of the next round.
  collect();
  setImmediate(collect);
});
