// Writes the tables of docs/manifests.md from the forms of both formats: `node scripts/manifest-reference.ts`.
// Invariant: only what lies between markers is touched; a test compares it with what this would write.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Form, Key, Keys } from '../src/config/form.ts';
import { tomlManifest } from '../src/manifest/toml-keys.ts';
import { yamlApp } from '../src/manifest/yaml-keys.ts';

export const manifestsFile = join(import.meta.dirname, '../docs/manifests.md');

interface Format {
  readonly mark: string;
  readonly form: Form<unknown>;
  readonly root: string;
  heading(path: string, many: boolean): string;
  /** What becomes of a key; null: the format has one fate only. */
  readonly fates: Readonly<Record<string, string>> | null;
}

/** Everything else is acted on. */
const yamlFates = {
  name: 'shown',
  version: 'shown',
  description: 'shown',
  'dependencies[].version': 'shown',
  'resources.disk_limit': 'shown, not enforced',
  'hooks.pre_start': 'shown, not run',
  interfaces: 'shown',
  upstream: 'shown',
  'container.image_signature': 'refused',
} as const;

const formats: readonly Format[] = [
  {
    mark: 'toml',
    form: tomlManifest,
    root: 'Top level',
    heading: (path, many) => (many ? `[[${path}]]` : `[${path}]`),
    fates: null,
  },
  {
    mark: 'yaml',
    form: yamlApp,
    root: '`app`',
    heading: (path) => path,
    fates: yamlFates,
  },
];

/** The document with fresh tables. */
export function withManifestReference(document: string): string {
  return formats.reduce((text, format) => {
    const begin = `<!-- ${format.mark}: written by scripts/manifest-reference.ts -->\n`;
    const end = `<!-- end of ${format.mark} -->\n`;
    const from = text.indexOf(begin);
    const to = text.indexOf(end);
    if (from < 0 || to < from) throw new Error(`docs/manifests.md lacks its markers for ${format.mark}`);
    return `${text.slice(0, from + begin.length)}\n${render(format)}\n${text.slice(to)}`;
  }, document);
}

function render(format: Format): string {
  const sections: string[] = [];
  const used = new Set<string>();
  addSection(sections, format, format.root, '', format.form.keys ?? {}, used);
  for (const path of Object.keys(format.fates ?? {})) {
    if (!used.has(path)) throw new Error(`${path} has a fate and is no key`);
  }
  return sections.join('\n');
}

function addSection(
  sections: string[],
  format: Format,
  title: string,
  path: string,
  keys: Keys,
  used: Set<string>,
): void {
  const column = format.fates === null ? '' : ' Fate |';
  sections.push(`#### ${title}\n`);
  sections.push(
    `| Key | Accepted | Default | Meaning |${column}\n| --- | --- | --- | --- |${column === '' ? '' : ' --- |'}`,
  );
  for (const [name, key] of Object.entries(keys)) {
    const below = path === '' ? name : `${path}.${name}`;
    const fate = format.fates === null ? '' : ` ${fateOf(format.fates, below, used)} |`;
    if (key.kind === 'key') sections.push(`${renderRow(name, key)}${fate}`);
    else if (format.fates !== null) sections.push(`| \`${name}\` | — | — | ${cell(key.why)} |${fate}`);
  }
  sections.push('');
  for (const [name, key] of Object.entries(keys)) {
    if (key.kind === 'key') addBelow(sections, format, path === '' ? name : `${path}.${name}`, key.form, used);
  }
}

function addBelow(sections: string[], format: Format, path: string, form: Form<unknown>, used: Set<string>): void {
  if (form.keys !== null) {
    addSection(sections, format, `\`${format.heading(path, false)}\``, path, form.keys, used);
    return;
  }
  const member = form.members;
  if (member === null) return;
  const many = form.json['type'] === 'array';
  const below = many ? (format.mark === 'yaml' ? `${path}[]` : path) : `${path}.NAME`;
  if (member.keys === null) addBelow(sections, format, below, member, used);
  else addSection(sections, format, `\`${format.heading(below, many)}\``, below, member.keys, used);
}

function fateOf(fates: Readonly<Record<string, string>>, path: string, used: Set<string>): string {
  const owner = Object.keys(fates).find((each) => path === each || path.startsWith(`${each}.`));
  if (owner === undefined) return 'acted on';
  used.add(owner);
  return fates[owner]!;
}

function renderRow(name: string, { form, fallback, required, doc }: Key<unknown>): string {
  const accepted = form.accepts.startsWith('a table with the keys') ? 'a table, see below' : form.accepts;
  const standard = required ? 'required' : fallback === null ? '—' : `\`${fallback}\``;
  return `| \`${name}\` | ${cell(accepted)} | ${cell(standard)} | ${cell(doc)} |`;
}

/** Characters that would end a cell or become markup. */
function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('{{', '\\{\\{');
}

if (import.meta.main) writeFileSync(manifestsFile, withManifestReference(readFileSync(manifestsFile, 'utf8')));
