// What takes minutes by its nature: bodies of gigabytes, streams and uploads that outlast every usual timeout.
// `npm run test:slow`; the files run side by side, since most of their time is waiting.
import { mergeConfig } from 'vitest/config';
import base from './vitest.config.ts';

export default mergeConfig(
  { ...base, test: { ...base.test, include: [] } },
  { test: { include: ['test/**/*.slow.ts'], testTimeout: 1_200_000, fileParallelism: true, maxWorkers: 2 } },
);
