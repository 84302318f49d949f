// The JSON Schemas in schemas/: up to date, and of one mind with the validator wherever a schema can have an opinion.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { parse } from 'smol-toml';
import { describe, expect, test } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { renderSchema, schemaDirectory } from '../../scripts/manifest-schemas.ts';
import { manifestSchemas } from '../../src/manifest/json-schema.ts';
import type { Row } from '../support/manifest-rows.ts';
import * as tomlRows from '../support/toml-manifest-rows.ts';
import * as yamlRows from '../support/yaml-manifest-rows.ts';

const ajv = new Ajv({ strict: true, strictTypes: false, strictRequired: false, allErrors: false });

const formats = [
  { name: 'app-manifest.toml.schema.json', rows: Object.values(tomlRows).flat(), plain: (text: string) => parse(text) },
  {
    name: 'app-manifest.yaml.schema.json',
    rows: Object.values(yamlRows).flat(),
    plain: (text: string) => parseYaml(text, { logLevel: 'error' }),
  },
] as const;

describe.each(formats)('$name', ({ name, rows, plain }) => {
  test('is what npm run schemas writes', () => {
    expect(readFileSync(join(schemaDirectory, name), 'utf8')).toBe(renderSchema(name));
  });

  const validate = ajv.compile(manifestSchemas[name]!);
  /** Null: the text is no document at all, so that no schema sees it. */
  const seesRight = (row: Row): boolean | null => {
    let value: unknown;
    try {
      value = plain(row.text);
    } catch {
      return null;
    }
    return validate(value);
  };

  test('refuses nothing that the validator takes', () => {
    const wrong = rows.filter((row) => row.problems.length === 0 && seesRight(row) !== true);
    expect(wrong.map(({ says }) => [says, ajv.errorsText(validate.errors)])).toEqual([]);
  });

  test('refuses what it can see', () => {
    const seen = rows.filter(({ inSchema }) => inSchema);
    expect(seen.filter((row) => seesRight(row) !== false).map(({ says }) => says)).toEqual([]);
    expect(seen.length).toBeGreaterThan(80);
  });

  test('sees nothing else: a row that it refuses is marked as seen', () => {
    const unmarked = rows.filter((row) => !row.inSchema && seesRight(row) === false);
    expect(unmarked.map(({ says }) => says)).toEqual([]);
  });
});
