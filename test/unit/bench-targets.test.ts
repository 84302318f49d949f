import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { fill } from '../../bench/page.ts';
import type { Question, Result } from '../../bench/question.ts';
import { Figures, rows } from '../../bench/targets.ts';

const root = join(import.meta.dirname, '../..');

async function questionOf(name: string): Promise<Question> {
  const file = join(root, `bench/questions/${name}.ts`);
  expect(existsSync(file), file).toBe(true);
  return ((await import(file)) as { question: Question }).question;
}

/** What it would look like if everybody had done equally well. */
function alike({ name, asks, figures, contestants }: Question): Result {
  const round = Object.fromEntries(figures.map(({ key }) => [key, 1]));
  return {
    question: name,
    asks,
    figures,
    contestants: contestants.map((each) => ({ name: each.name, rounds: [round] })),
  };
}

describe('the targets', () => {
  test.each(rows)('"$work" is about figures and contestants of a question', async ({ question, key, limits }) => {
    const figures = new Figures(alike(await questionOf(question)));
    expect(figures.of(key)).toBe(1);
    for (const limit of limits) expect(limit.seen(figures), limit.target).not.toBeNaN();
  });

  test('what is as good as the others keeps every promise that is a comparison to be no worse', async () => {
    const compared = rows.flatMap(({ limits }) => limits).filter(({ target }) => target.includes('for a CPU second'));
    expect(compared.length).toBeGreaterThan(4);
    for (const { most, target } of compared) expect(most, target).toBeGreaterThanOrEqual(1);
  });
});

describe('the page', () => {
  test('gets what is between two marks, and keeps the rest', () => {
    expect(fill('a\n<!-- x -->\nold\n<!-- /x -->\nb', 'x', 'new')).toBe('a\n<!-- x -->\nnew\n<!-- /x -->\nb');
  });

  test('is not filled when a mark is missing', () => {
    expect(() => fill('a\n<!-- /x -->\n<!-- x -->', 'x', 'new')).toThrow('no part "x"');
    expect(() => fill('a', 'x', 'new')).toThrow('no part "x"');
  });

  test('has the marks', () => {
    const text = readFileSync(join(root, 'docs/performance.md'), 'utf8');
    for (const part of ['targets', 'questions']) expect(() => fill(text, part, '')).not.toThrow();
  });
});
