// YAML app manifests: every sentence that says what is required, refused or defaulted, as a row with all its problems.
import { describe, expect, test } from 'vitest';
import { formatProblem } from '../../src/config/problem.ts';
import { readYamlManifest } from '../../src/manifest/yaml.ts';
import type { Row } from '../support/manifest-rows.ts';
import * as rows from '../support/yaml-manifest-rows.ts';

function holds({ text, problems: expected, facts }: Row): void {
  const loaded = readYamlManifest(text, 'myapp.yml', facts);
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
