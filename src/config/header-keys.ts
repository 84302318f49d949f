// What may be said about header fields: which names, which values, and the rules made of them.
// Invariant: fields that frame a message or belong to one connection are nobody's but the proxy's.
import { either, type Form, list, mapped, named, optional, quote, Refusal, table, text, type Value } from './form.ts';
import { fieldValue, isToken } from './values.ts';

/** Fields that frame a message or belong to one connection: they are the proxy's own. */
const ownFields = new Set(
  'connection content-length http2-settings keep-alive proxy-connection te trailer transfer-encoding upgrade'.split(
    ' ',
  ),
);

export function judgeField(name: string): Refusal | null {
  if (!isToken(name)) return new Refusal(`${quote(name)} is not a header name`, 'letters, digits and hyphens');
  const lower = name.toLowerCase();
  if (lower === 'host') return new Refusal('Host is not set by header rules', 'host_header');
  return ownFields.has(lower) ? new Refusal(`${name} is written by the proxy itself`, 'any other header') : null;
}

export const fieldName: Form<string> = text('the name of a header', (value) => judgeField(value) ?? value);

const addedValue: Form<readonly string[]> = either('text, or a list of texts', {
  string: mapped(fieldValue, (value): readonly string[] => [value]),
  array: list('a list of texts', fieldValue, { least: 1 }),
});

export const headerRules = table('header rules', {
  set: optional(
    named('a table of header names and values', fieldValue, judgeField),
    'Headers that replace whatever was sent.',
    '{ "X-Robots-Tag" = "none" }',
  ),
  add: optional(
    named('a table of header names and values', addedValue, judgeField),
    'Headers that are added as further lines.',
    '{ "X-Note" = ["one", "two"] }',
  ),
  remove: optional(
    list('a list of header names', fieldName, { identity: (name) => name.toLowerCase() }),
    'Headers that are taken away.',
    '["Server"]',
  ),
});

export type HeaderRulesWritten = Value<typeof headerRules>;
