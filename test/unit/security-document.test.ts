import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { limitKeys } from '../../src/config/limit-keys.ts';

const root = join(import.meta.dirname, '../..');
const text = readFileSync(join(root, 'docs/security.md'), 'utf8');

it('docs/security.md has every limit with its default, and a reason for it', () => {
  const rows = new Map(
    [...text.matchAll(/^\| `([a-z0-9_]+)` \| `([^`]+)` \| ([^|]+) \|/gm)].map(([, key, fallback, why]) => [
      key!,
      [fallback!, why!.trim() !== ''] as const,
    ]),
  );
  const expected = Object.entries(limitKeys).map(([key, { fallback }]) => [key, [fallback, true]]);
  expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(expected));
});

it('the folder of attacks that it speaks of has one story in each file', () => {
  expect(text).toContain('test/hostile/');
  const folder = join(root, 'test/hostile');
  expect(existsSync(folder)).toBe(true);
  for (const name of readdirSync(folder).filter((each) => each.endsWith('.test.ts'))) {
    const story = readFileSync(join(folder, name), 'utf8').split('\n').slice(0, 8);
    const comment = story.filter((line) => line.startsWith('//'));
    expect(comment.length, `${name} begins with the attack and where it was reported or found`).toBeGreaterThan(3);
  }
});
