// Whatever the text: the answer is a declaration or a list of problems that can be printed, never an exception.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Form } from '../../src/config/form.ts';
import { readConfig } from '../../src/config/load.ts';
import { schema } from '../../src/config/schema.ts';

const example = readFileSync(join(import.meta.dirname, '../../config.example.toml'), 'utf8');

async function holds(text: string): Promise<void> {
  const result = await readConfig(text, '/nowhere/config.toml');
  const lines = text.split('\n').length;
  const all = [...result.warnings, ...(result.ok ? [] : result.problems)];
  if (!result.ok) expect(result.problems.length).toBeGreaterThan(0);
  for (const problem of all) {
    expect(problem.file).toBe('/nowhere/config.toml');
    expect(problem.line).toBeGreaterThanOrEqual(1);
    expect(problem.line).toBeLessThanOrEqual(lines);
    expect(problem.column).toBeGreaterThanOrEqual(1);
    expect(problem.message).not.toBe('');
    // One line each, whatever was written.
    expect(`${problem.message}${problem.accepted}`).not.toMatch(/[\r\n]/);
  }
  expect(Object.keys(Object.prototype)).toEqual([]);
}

/** Every name the schema knows, and some that it must not trip over. */
function wordsOf(form: Form<unknown>): string[] {
  const keys = Object.entries(form.keys ?? {});
  const below = keys.flatMap(([name, key]) => [name, ...(key.kind === 'key' ? wordsOf(key.form) : [])]);
  return form.members === null ? below : [...below, ...wordsOf(form.members)];
}
const words = [
  ...new Set(wordsOf(schema)),
  'web',
  'localhost',
  '__proto__',
  'constructor',
  'toString',
  'a.test',
  '*',
  '',
];

const key = fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...words) }, fc.string({ maxLength: 12 }));
const scalar = fc.oneof(
  fc.constantFrom('true', 'false', '0', '1', '-1', '8080', '8080.0', '1e3', 'inf', 'nan', '9007199254740993'),
  fc.constantFrom('1979-05-27', '07:32:00', '1979-05-27T07:32:00Z', '0xff', "'literal'"),
  fc
    .constantFrom(
      '127.0.0.1:3000',
      ':80',
      '[::1]:80',
      'https://a.test',
      '30s',
      '10MB',
      'unlimited',
      'auto',
      '*',
      '/p',
      '/',
    )
    .map((each) => JSON.stringify(each)),
  fc.constantFrom(...words).map((each) => JSON.stringify(each)),
  fc.string({ maxLength: 20 }).map((each) => JSON.stringify(each)),
);
const { value } = fc.letrec<{ value: string; list: string; table: string }>((tie) => ({
  value: fc.oneof({ depthSize: 'small', withCrossShrink: true }, scalar, tie('list'), tie('table')),
  list: fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join(', ')}]`),
  table: fc
    .uniqueArray(fc.tuple(key, tie('value')), { maxLength: 4, selector: ([name]) => name })
    .map((members) => `{ ${members.map(([name, each]) => `${JSON.stringify(name)} = ${each}`).join(', ')} }`),
}));
const dotted = fc
  .array(fc.tuple(key, fc.boolean()), { minLength: 1, maxLength: 4 })
  .map((parts) =>
    parts.map(([name, bare]) => (bare && /^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name))).join('.'),
  );
const line = fc.oneof(
  fc.tuple(dotted, value).map(([name, each]) => `${name} = ${each}`),
  dotted.map((name) => `[${name}]`),
  dotted.map((name) => `[[${name}]]`),
);

test('any text', async () => {
  await fc.assert(fc.asyncProperty(fc.string({ unit: 'grapheme', maxLength: 200 }), holds), { numRuns: 300 });
});

test('TOML of the names that the schema knows', async () => {
  const documents = fc.array(line, { maxLength: 12 }).map((lines) => lines.join('\n'));
  await fc.assert(fc.asyncProperty(documents, holds), { numRuns: 1000 });
});

test('one table of the schema with any value at each key', async () => {
  const headings = [
    '',
    '[entrypoints.web]',
    '[tls]',
    '[[tls.certificate]]',
    '[external_routes."a.test"]',
    '[limits]',
    '[log]',
  ];
  const paths = '[external_routes."a.test"]\nto = "127.0.0.1:1"\n[[external_routes."a.test".routes]]';
  const members = fc.uniqueArray(fc.tuple(fc.constantFrom(...words), value), {
    maxLength: 8,
    selector: ([name]) => name,
  });
  const documents = fc
    .tuple(fc.constantFrom(...headings, paths), members)
    .map(([heading, each]) =>
      [heading, ...each.map(([name, written]) => `${JSON.stringify(name)} = ${written}`)].join('\n'),
    );
  await fc.assert(fc.asyncProperty(documents, holds), { numRuns: 1000 });
});

test('the example with a piece cut out, doubled or overwritten', async () => {
  const edits = fc
    .tuple(fc.nat(example.length), fc.nat(60), fc.oneof(fc.constant(''), fc.string({ maxLength: 8 }), value))
    .map(([at, length, text]) => example.slice(0, at) + text + example.slice(at + length));
  await fc.assert(fc.asyncProperty(edits, holds), { numRuns: 150 });
});
