import { defineConfig } from 'vitest/config';
import { SummaryReporter } from './scripts/summary-reporter.ts';

/** What every run of tests has in common, whatever files it takes. */
export const common = {
  testTimeout: 30_000,
  hookTimeout: 60_000,
  reporters: ['default', new SummaryReporter()],
};

/** They fill the machine, measure it, or change what there is one of (the packet filter of an engine's networks). */
const alone = [
  'test/bench/**/*.test.ts',
  'test/runtime/**/*.test.ts',
  'test/soak/**/*.test.ts',
  'test/hostile/{many-connections,overload,processor-time,slowhttptest,ten-thousand}.test.ts',
  'test/process/{apps-overlap,switchover,tcp-switchover}.test.ts',
  'test/wire/{tcp-bulk,udp-volume}.test.ts',
];

export default defineConfig({
  test: {
    ...common,
    projects: [
      {
        extends: true,
        test: { name: 'unit', include: ['test/unit/**/*.test.ts'], maxWorkers: 2, sequence: { groupOrder: 0 } },
      },
      {
        extends: true,
        test: {
          name: 'system',
          include: ['test/**/*.test.ts'],
          exclude: ['test/unit/**', ...alone],
          // Real processes and sockets, which wait more than they work: one a core.
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: { name: 'alone', include: alone, fileParallelism: false, sequence: { groupOrder: 2 } },
      },
    ],
  },
});
