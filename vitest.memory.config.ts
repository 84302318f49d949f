// Resident memory of the real process per stalled peer: what the allocator and the collector keep for a while differs from
// run to run and with the load of the machine, so these tests have a command of their own.
import { defineConfig } from 'vitest/config';
import { common } from './vitest.config.ts';

export default defineConfig({ test: { ...common, include: ['test/**/*.memory.ts'], fileParallelism: false } });
