// What takes minutes by its nature: bodies of gigabytes, streams and uploads that outlast every usual timeout.
// `npm run test:slow`; the files run side by side, since most of their time is waiting.
import { defineConfig } from 'vitest/config';
import { common } from './vitest.config.ts';

export default defineConfig({
  test: { ...common, include: ['test/**/*.slow.ts'], testTimeout: 1_200_000, maxWorkers: 2 },
});
