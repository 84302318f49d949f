// Example, reference and set-ups against the schema: what is documented is what is accepted.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { documentFile, withReference } from '../../scripts/configuration-reference.ts';
import type { Form, Key, Keys } from '../../src/config/form.ts';
import { limitKeys } from '../../src/config/limit-keys.ts';
import { formatProblem, loadConfig, readConfig } from '../../src/config/load.ts';
import { Findings } from '../../src/config/problem.ts';
import { schema } from '../../src/config/schema.ts';
import { parseDocument } from '../../src/config/syntax.ts';
import { exampleNames, exampleText, placeExample } from '../support/examples.ts';
import { limits as testLimits } from '../support/routing.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-examples-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const exampleFile = join(import.meta.dirname, '../../config.example.toml');
const example = readFileSync(exampleFile, 'utf8');
/** With the keys that are shown, but not in use: `#key = …`, `#[[table]]`. Prose has a space after the "#". */
const wholeExample = example.replace(/^#(?=[a-z[])/gm, '');

/** Every table of the schema, with the path that leads there. */
function tablesOf(form: Form<unknown>, path = ''): (readonly [string, Keys])[] {
  const below = form.members === null ? [] : tablesOf(form.members, `${path}.*`);
  const keys = form.keys ?? {};
  const own = form.keys === null ? [] : [[path, keys] as const];
  const members = Object.entries(keys).flatMap(([name, key]) =>
    key.kind === 'key' ? tablesOf(key.form, `${path}.${name}`) : [],
  );
  return [...own, ...members, ...below];
}

function readValue(toml: string, key: Key<unknown>): unknown {
  const parsed = parseDocument(`value = ${toml}`, 'test');
  if (!parsed.ok) throw new Error(`${toml}: ${parsed.fault.message}`);
  const findings = new Findings(parsed.document);
  const value = key.form.read(parsed.document.root.entries.get('value')!, ['value'], findings);
  expect(findings.problems.map(formatProblem)).toEqual([]);
  return value;
}

describe('config.example.toml', () => {
  test('is valid as it is, without a warning', async () => {
    const result = await loadConfig(exampleFile);
    expect(result.ok ? [] : result.problems.map(formatProblem)).toEqual([]);
    expect(result.warnings.map(formatProblem)).toEqual([]);
  });

  test('shows the defaults of the limits', () => {
    const shown = wholeExample.slice(wholeExample.indexOf('\n[limits]\n'));
    for (const [name, { fallback }] of Object.entries(limitKeys)) {
      expect(shown).toContain(`\n${name} = ${fallback}\n`);
    }
  });

  test('listens on unprivileged ports and leads to the demo backends', async () => {
    const result = await loadConfig(exampleFile);
    if (!result.ok) throw new Error('invalid');
    const { entrypoints, services } = result.declaration;
    expect(entrypoints.map(({ host, port, protocol }) => [host, port, protocol])).toEqual([
      ['', 8080, 'http'],
      ['', 8443, 'https'],
    ]);
    const addresses = services.flatMap((service) => service.backends.map((backend) => backend.address));
    expect([...new Set(addresses)].sort()).toEqual(['127.0.0.1:3001', '127.0.0.1:3002']);
    expect(services.map((service) => service.name)).toContain('127.0.0.1');
  });
});

describe('the schema', () => {
  const keys = tablesOf(schema).flatMap(([path, table]) =>
    Object.entries(table).flatMap(([name, key]) => (key.kind === 'key' ? [[`${path}.${name}`, key] as const] : [])),
  );

  test.each(keys)('%s: the written default means what stands for it, and the example is accepted', (_, key) => {
    if (key.fallback !== null) expect(key.absent).toEqual(readValue(key.fallback, key));
    else expect(key.absent).toBeNull();
    expect(readValue(key.example, key)).not.toBeNull();
    expect(key.doc).toMatch(/^.{4,}(?:[.:]|…)$/);
  });

  test('every limit of the snapshot has one key', () => {
    expect(
      Object.values(limitKeys)
        .map((limit) => limit.member)
        .toSorted(),
    ).toEqual(Object.keys(testLimits).toSorted());
  });
});

test('docs/configuration.md has the tables of the schema', () => {
  const document = readFileSync(documentFile, 'utf8');
  expect(document, 'run: node scripts/configuration-reference.ts').toBe(withReference(document));
});

describe('docs/examples', () => {
  test('there are the set-ups that people posted', () => {
    expect(exampleNames).toEqual([
      'agent-gateway',
      'camera-recorder',
      'cdn-origin',
      'cloud-and-office',
      'front-end-and-api',
      'game-server',
      'git-host',
      'home-server',
      'http-and-https',
      'many-tenants',
      'matrix',
      'tenants-by-subdomain',
      'two-proxies',
      'voice-server',
      'wildcard-certificates',
      'workflow-editor',
    ]);
  });

  test.each(exampleNames)('%s is valid, without a warning, and says first what it is for', async (name) => {
    const { file } = placeExample(name, mkdtempSync(join(directory, `${name}-`)));
    const result = await loadConfig(file);
    expect(result.ok ? [] : result.problems.map(formatProblem)).toEqual([]);
    expect(result.warnings.map(formatProblem)).toEqual([]);
    expect(exampleText(name)).toMatch(/^# [A-Z].{20,}/);
  });

  test('the configurations shown in docs/configuration.md are valid', async () => {
    const blocks = [...readFileSync(documentFile, 'utf8').matchAll(/```toml\n([\s\S]*?)```/g)].map(
      (match) => match[1]!,
    );
    expect(blocks).toHaveLength(5);
    const file = join(directory, 'site');
    writeFileSync(file, '', { mode: 0o600 });
    for (const block of blocks) {
      const result = await readConfig(block.replaceAll(/"certs\/site[^"]*"/g, JSON.stringify(file)), exampleFile);
      expect(result.ok ? [] : result.problems.map(formatProblem)).toEqual([]);
    }
  });
});
