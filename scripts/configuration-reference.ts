// Writes the tables of docs/configuration.md from the schema: `node scripts/configuration-reference.ts`.
// Invariant: only what lies between the two markers is touched; a test compares it with what this would write.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Form, Key, Keys } from '../src/config/form.ts';
import { schema } from '../src/config/schema.ts';

export const documentFile = join(import.meta.dirname, '../docs/configuration.md');
const begin = '<!-- keys: written by scripts/configuration-reference.ts -->\n';
const end = '<!-- end of keys -->\n';

/** The document with fresh tables. */
export function withReference(document: string): string {
  const from = document.indexOf(begin);
  const to = document.indexOf(end);
  if (from < 0 || to < from) throw new Error('docs/configuration.md lacks its markers');
  return document.slice(0, from + begin.length) + renderReference() + document.slice(to);
}

export function renderReference(): string {
  const sections: string[] = [];
  addSection(sections, 'Top level', '', schema.keys ?? {}, new Set());
  return `\n${sections.join('\n')}\n`;
}

/** One table of keys, then the tables below it. A table that was shown before is not shown again. */
function addSection(sections: string[], title: string, path: string, keys: Keys, shown: Set<Keys>): void {
  if (shown.has(keys)) return;
  shown.add(keys);
  const own = Object.entries(keys).filter((entry): entry is [string, Key<unknown>] => entry[1].kind === 'key');
  const host = path.endsWith('.routes') ? hostOf(shown) : {};
  const rows = own.filter(([name]) => !Object.hasOwn(host, name) || host[name] !== keys[name]);
  const shared = own.filter((entry) => !rows.includes(entry)).map(([name]) => `\`${name}\``);
  sections.push(`### ${title}\n`);
  sections.push('| Key | Accepted | Default | Meaning |\n| --- | --- | --- | --- |');
  for (const [name, key] of rows) sections.push(renderRow(name, key));
  sections.push('');
  if (shared.length > 0) sections.push(`And, as for the whole host: ${shared.join(', ')}.\n`);
  for (const [name, key] of own) addBelow(sections, path === '' ? name : `${path}.${name}`, key.form, shown);
}

function addBelow(sections: string[], path: string, form: Form<unknown>, shown: Set<Keys>): void {
  if (form.keys !== null) addSection(sections, `\`[${path}]\``, path, form.keys, shown);
  const member = form.members;
  if (member === null) return;
  const many = form.accepts.startsWith('[[');
  const below = many ? path : `${path}.${placeholders[path] ?? 'NAME'}`;
  if (member.keys !== null) {
    addSection(sections, many ? `\`[[${below}]]\`` : `\`[${below}]\``, below, member.keys, shown);
  } else if (form.keys !== null) addBelow(sections, below, member, shown);
}

/** What the names in a table with free names stand for. */
const placeholders: Readonly<Record<string, string>> = {
  external_routes: '"HOST"',
  apps: 'APP',
  'apps.APP': 'SERVICE',
};

/** The keys of a host, which its paths share. */
function hostOf(shown: ReadonlySet<Keys>): Keys {
  return [...shown].find((keys) => Object.hasOwn(keys, 'routes')) ?? {};
}

function renderRow(name: string, { form, fallback, required, doc }: Key<unknown>): string {
  const table = form.keys !== null && form.accepts.startsWith('a table with the keys');
  const accepted = table ? 'a table, see below' : form.accepts;
  const standard = required ? 'required' : fallback === null ? '—' : `\`${fallback}\``;
  return `| \`${name}\` | ${cell(accepted)} | ${cell(standard)} | ${cell(doc)} |`;
}

/** Characters that would end a cell or become markup. */
function cell(text: string): string {
  return text.replaceAll('|', '\\|').replace(/\*(?=\.|"|\/| |_)/g, '\\*');
}

if (import.meta.main) writeFileSync(documentFile, withReference(readFileSync(documentFile, 'utf8')));
