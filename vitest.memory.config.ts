// Resident memory of the real process per stalled peer: what the allocator and the collector keep for a while differs from
// run to run and with the load of the machine, so these tests have a command of their own.
import { mergeConfig } from 'vitest/config';
import base from './vitest.config.ts';

export default mergeConfig(
  { ...base, test: { ...base.test, include: [] } },
  { test: { include: ['test/**/*.memory.ts'] } },
);
