// Rules between keys, in the words of JSON Schema.
// Invariant: a rule never refuses what the checks take.
import type { JsonSchema } from '../config/form.ts';

/** The key is written and has one of these values. */
export function is(key: string, ...values: readonly string[]): JsonSchema {
  return { properties: { [key]: { enum: values } }, required: [key] };
}

export function not(rule: JsonSchema): JsonSchema {
  return { not: rule };
}

export function implies(condition: JsonSchema, consequence: JsonSchema): JsonSchema {
  return { anyOf: [not(condition), consequence] };
}

export function needs(...keys: readonly string[]): JsonSchema {
  return { required: keys };
}

export function lacks(...keys: readonly string[]): JsonSchema {
  return { properties: Object.fromEntries(keys.map((key) => [key, false])) };
}
