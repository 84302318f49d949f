// Whatever the bytes: the answer is an app or a list of problems that can be printed, never an exception; and a manifest that
// was taken means the same however it is written down again.
import { Ajv } from 'ajv';
import fc from 'fast-check';
import { parse } from 'smol-toml';
import { expect, test } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { appDigest, diffApps, serviceDigest } from '../../src/manifest/diff.ts';
import { manifestSchemas } from '../../src/manifest/json-schema.ts';
import { readManifest } from '../../src/manifest/load.ts';
import { effectiveReadiness } from '../../src/manifest/readiness.ts';
import { replacementMode } from '../../src/manifest/replacement.ts';
import { canonicalJson } from '../../src/model/digest.ts';
import { facts } from '../support/manifest-rows.ts';
import * as tomlRows from '../support/toml-manifest-rows.ts';
import * as yamlRows from '../support/yaml-manifest-rows.ts';

const texts = {
  'blog.toml': Object.values(tomlRows)
    .flat()
    .map(({ text }) => text)
    .filter((text) => text.length < 2000),
  'myapp.yml': Object.values(yamlRows)
    .flat()
    .map(({ text }) => text),
} as const;
const files = ['blog.toml', 'myapp.yml'] as const;

/** Every key of the schemas, and some that they must not trip over. */
function words(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return typeof schema === 'string' ? [schema] : [];
  return Object.entries(schema).flatMap(([key, value]) =>
    key === 'properties'
      ? [...Object.keys(value as object), ...Object.values(value as object).flatMap(words)]
      : key === 'description'
        ? []
        : words(value),
  );
}
const vocabulary = [
  ...new Set([
    ...words(manifestSchemas),
    '__proto__',
    'constructor',
    'toString',
    '<<',
    '&a',
    '*a',
    '- ',
    ': ',
    '{',
    '[',
    '"',
    '\t',
    '\r',
  ]),
];

const ajv = new Ajv({ strict: false });
const seenBy = {
  'blog.toml': ajv.compile(manifestSchemas['app-manifest.toml.schema.json']!),
  'myapp.yml': ajv.compile(manifestSchemas['app-manifest.yaml.schema.json']!),
};

function holds(bytes: Uint8Array, file: (typeof files)[number]): void {
  const loaded = readManifest(bytes, file, facts);
  const lines = Buffer.from(bytes).toString('utf8').split('\n').length;
  const all = [...loaded.warnings, ...(loaded.ok ? [] : loaded.problems)];
  if (!loaded.ok) expect(loaded.problems.length).toBeGreaterThan(0);
  for (const problem of all) {
    expect(problem.file).toBe(file);
    expect(problem.line).toBeLessThanOrEqual(lines + 1);
    expect(problem.message).not.toBe('');
    // One line each, whatever was written.
    expect(`${problem.message}${problem.accepted}`).not.toMatch(/[\r\n]/);
  }
  expect(Object.keys(Object.prototype)).toEqual([]);
  if (!loaded.ok) return;
  const { app } = loaded;
  const text = Buffer.from(bytes).toString('utf8');
  expect(seenBy[file](file === 'blog.toml' ? parse(text) : parseYaml(text))).toBe(true);
  expect(canonicalJson(JSON.parse(JSON.stringify(app)))).toBe(canonicalJson(app));
  expect(diffApps(app, app)).toEqual([]);
  for (const service of app.services) {
    effectiveReadiness(service);
    expect(serviceDigest(app, service)).toMatch(/^[0-9a-f]{64}$/);
    expect(replacementMode(service, service)).toBe(replacementMode(service, null));
  }
}

const file = fc.constantFrom(...files);

test('any bytes', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), file, holds), { numRuns: 300 });
});

test('any text', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 200 }).map((each) => Buffer.from(each));
  fc.assert(fc.property(text, file, holds), { numRuns: 300 });
});

test('a manifest with a piece cut out, doubled or overwritten', () => {
  const piece = fc.oneof(fc.constant(''), fc.constantFrom(...vocabulary), fc.string({ maxLength: 8 }));
  const edited = file.chain((name) =>
    fc
      .tuple(fc.constantFrom(...texts[name]), fc.nat(400), fc.nat(40), piece)
      .map(([text, at, length, inserted]) => [name, text.slice(0, at) + inserted + text.slice(at + length)] as const),
  );
  fc.assert(
    fc.property(edited, ([name, text]) => {
      holds(Buffer.from(text), name);
    }),
    { numRuns: 1200 },
  );
});

test('lines of manifests in any order', () => {
  const lines = (name: (typeof files)[number]): readonly string[] => [
    ...new Set(texts[name].flatMap((text) => text.split('\n'))),
  ];
  const shuffled = file.chain((name) =>
    fc.array(fc.constantFrom(...lines(name)), { maxLength: 14 }).map((each) => [name, each.join('\n')] as const),
  );
  fc.assert(
    fc.property(shuffled, ([name, text]) => {
      holds(Buffer.from(text), name);
    }),
    { numRuns: 700 },
  );
});

test('tables in any order mean the same', () => {
  const tables = [
    '[env]\nA = "1"\nB = "2"',
    '[services.web]\nimage = "blog:1"\ndevices = ["transcode-gpu"]',
    '[services.db]\nimage = "postgres:17"',
    '[services.web.secrets]\nX = "x"\nY = { name = "y", as = "file" }',
    '[[services.db.volume]]\nname = "data"\npath = "/data"',
    '[[services.db.volume]]\nname = "more"\npath = "/a"',
    '[[services.web.http]]\nhost = "b.example.com"\nport = 2',
    '[[services.web.http]]\nhost = "a.example.com"\nport = 2',
    '[[services.web.tcp]]\nentrypoint = "rcon"\nport = 1',
    '[[network.shared]]\nnetwork = "z"\nservices = ["web", "db"]',
    '[[network.shared]]\nnetwork = "y"\nservices = ["db"]',
  ];
  const digests = new Set<string>();
  fc.assert(
    fc.property(fc.shuffledSubarray(tables, { minLength: tables.length }), (order) => {
      const loaded = readManifest(Buffer.from(`name = "blog"\n${order.join('\n')}`), 'blog.toml', facts);
      expect(loaded.ok ? [] : loaded.problems).toEqual([]);
      if (loaded.ok) digests.add(appDigest(loaded.app));
    }),
    { numRuns: 100 },
  );
  expect(digests.size).toBe(1);
});
