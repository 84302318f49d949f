import { defineConfig } from 'vitest/config';
import { SummaryReporter } from './scripts/summary-reporter.ts';

/** What every run of tests has in common, whatever files it takes. */
export const common = {
  testTimeout: 30_000,
  hookTimeout: 60_000,
  reporters: ['default', new SummaryReporter()],
};

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
          exclude: ['test/unit/**'],
          // Real processes, sockets and ports: one file at a time keeps two cores honest.
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
