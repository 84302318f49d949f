// docs/manifests.md against the code: its tables, its examples, and the messages that it explains.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { manifestsFile, withManifestReference } from '../../scripts/manifest-reference.ts';
import { formatProblem } from '../../src/config/problem.ts';
import { readManifest } from '../../src/manifest/load.ts';
import { facts, type Row } from '../support/manifest-rows.ts';
import * as tomlRows from '../support/toml-manifest-rows.ts';
import * as yamlRows from '../support/yaml-manifest-rows.ts';

const text = readFileSync(manifestsFile, 'utf8');

test('the tables of keys are those of the forms', () => {
  expect(text).toBe(withManifestReference(text));
});

test('the examples are valid', () => {
  const blocks = [...text.matchAll(/```(toml|yaml)\n([\s\S]*?)```/g)].map(
    ([, kind, block]) => [kind!, block!] as const,
  );
  expect(blocks.map(([kind]) => kind)).toEqual(['toml', 'yaml']);
  for (const [kind, block] of blocks) {
    const images = { ...facts.images, allowedRegistries: ['registry.example.com'] };
    const loaded = readManifest(Buffer.from(block), kind === 'toml' ? 'blog.toml' : 'notes.yml', { ...facts, images });
    expect(loaded.ok ? loaded.warnings : loaded.problems).toEqual([]);
  }
});

test('every message that is explained is one that is given', () => {
  const rows: readonly (readonly [string, Row])[] = [
    ...Object.values(tomlRows).flatMap((each) => each.map((row) => ['a.toml', row] as const)),
    ...Object.values(yamlRows).flatMap((each) => each.map((row) => ['a.yml', row] as const)),
  ];
  const given = rows.flatMap(([file, row]) => {
    const loaded = readManifest(Buffer.from(row.text), file, row.facts);
    return loaded.ok ? [] : loaded.problems.map(formatProblem);
  });
  given.push(...told('['.repeat(50)));
  const errors = text.slice(text.indexOf('\n## Errors\n'));
  const explained = [...errors.matchAll(/^\| `([^`]+)` \|/gm)].map(([, message]) => message!);
  expect(explained.length).toBeGreaterThan(30);
  expect(explained.filter((message) => !given.some((each) => each.includes(message)))).toEqual([]);
});

function told(yaml: string): readonly string[] {
  const loaded = readManifest(Buffer.from(yaml), 'a.yml', facts);
  return loaded.ok ? [] : loaded.problems.map(formatProblem);
}

test('the schemas that editors are told of exist', () => {
  for (const [, name] of text.matchAll(/\.\/(app-manifest\.\w+\.schema\.json)/g)) {
    expect(() => readFileSync(join(import.meta.dirname, '../../schemas', name!))).not.toThrow();
  }
});
