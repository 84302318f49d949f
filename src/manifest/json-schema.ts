// The manifests as JSON Schema (draft 7), for editors.
// Invariant: made from the forms that validate, so a schema never refuses what the validator takes.
import type { JsonSchema } from '../config/form.ts';
import { tomlManifest } from './toml-keys.ts';
import { yamlApp } from './yaml-keys.ts';

const draft = 'http://json-schema.org/draft-07/schema#';

/** By the name of the file in `schemas/`. */
export const manifestSchemas: Readonly<Record<string, JsonSchema>> = {
  'app-manifest.toml.schema.json': {
    $schema: draft,
    title: 'Turnpike app manifest (TOML)',
    ...tomlManifest.json,
  },
  'app-manifest.yaml.schema.json': {
    $schema: draft,
    title: 'Turnpike app manifest (YAML)',
    type: 'object',
    properties: { app: yamlApp.json },
    required: ['app'],
    additionalProperties: false,
  },
};
