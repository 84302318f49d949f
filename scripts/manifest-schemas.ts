// Writes schemas/*.json, which editors use to complete and check app manifests: `npm run schemas`.
// Invariant: nothing in them is written by hand; a test compares them with what this would write.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { manifestSchemas } from '../src/manifest/json-schema.ts';

export const schemaDirectory = join(import.meta.dirname, '../schemas');

export function renderSchema(name: string): string {
  return `${JSON.stringify(manifestSchemas[name], null, 2)}\n`;
}

if (import.meta.main) {
  mkdirSync(schemaDirectory, { recursive: true });
  for (const name of Object.keys(manifestSchemas)) writeFileSync(join(schemaDirectory, name), renderSchema(name));
}
