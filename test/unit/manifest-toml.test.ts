// TOML app manifests: every sentence that says what is required, refused or defaulted, as a row with all its problems.
import { describe, expect, test } from 'vitest';
import { formatProblem } from '../../src/config/problem.ts';
import { readTomlManifest } from '../../src/manifest/toml.ts';
import type { Row } from '../support/manifest-rows.ts';
import * as rows from '../support/toml-manifest-rows.ts';

function holds({ text, problems: expected, facts }: Row): void {
  const loaded = readTomlManifest(text, 'blog.toml', facts);
  const problems = loaded.ok ? [] : loaded.problems;
  expect(problems.map(({ key, line }) => [key, line])).toEqual(expected.map(([key, line]) => [key, line]));
  for (const [i, [, , words]] of expected.entries()) expect(formatProblem(problems[i]!)).toContain(words);
  expect(loaded.ok).toBe(expected.length === 0);
}

describe.each(Object.entries(rows))('%s', (_group, group) => {
  test.each(group.map((each) => [each.says, each] as const))('%s', (_says, each) => {
    holds(each);
  });
});

test('a value that may be a secret is not repeated', () => {
  for (const each of [...rows.environment]) {
    const loaded = readTomlManifest(each.text, 'blog.toml', each.facts);
    const told = loaded.ok ? '' : JSON.stringify(loaded.problems);
    expect(told).not.toMatch(/Hunter2|24680|db\/password|xxxx|3000/);
  }
});
