// A vitest reporter whose only output is the last line of the run: `N passed, N failed`, and `N skipped` before it.
// Invariant: nothing is green that did not run: a file that does not load, an unhandled error and, with CI=true, a
// skipped test all count as failed and make the process end non-zero.
import { writeSync } from 'node:fs';
import process from 'node:process';
import type { Reporter, TestModule } from 'vitest/node';

export class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    let passed = 0;
    let failed = unhandledErrors.length;
    let skipped = 0;
    for (const module of modules) {
      // Errors beside the tests: the file did not load, or a hook of the file or of a group failed.
      failed += module.errors().length;
      for (const suite of module.children.allSuites()) failed += suite.errors().length;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === 'passed') passed++;
        else if (state === 'skipped') skipped++;
        else failed++;
      }
    }
    if (passed + failed === 0) failed = 1;
    const skippedCounts = process.env['CI'] === 'true' && skipped > 0;
    if (skippedCounts) failed += skipped;
    // At exit, so that it stands below everything the other reporters print.
    process.once('exit', () => {
      if (skipped > 0) writeSync(1, `${skipped} skipped${skippedCounts ? ' (counted as failed: CI=true)' : ''}\n`);
      writeSync(1, `${passed} passed, ${failed} failed\n`);
      if (failed > 0 && !process.exitCode) process.exitCode = 1;
    });
  }
}
