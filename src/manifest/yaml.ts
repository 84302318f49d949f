// The text of a YAML app manifest → an App, or everything that is wrong with it in one pass.
// Invariant: pure; whatever the text holds, the result is an app or a list of problems, never an exception.
import { basename, dirname } from 'node:path';
import { Findings, type Problem } from '../config/problem.ts';
import { nearest } from '../config/suggest.ts';
import type { Document, Node, TableNode } from '../config/syntax.ts';
import type { Json } from './app.ts';
import type { Loaded } from './loaded.ts';
import type { OperatorFacts } from './operator-facts.ts';
import { originsOfYaml } from './origins.ts';
import { appOfYaml } from './yaml-app.ts';
import { checkYamlApp } from './yaml-checks.ts';
import { parseYaml } from './yaml-document.ts';
import { appKeyNames, blockOf, yamlApp } from './yaml-keys.ts';

/**
 * @param file  as the operator named it; problems repeat it
 * @param facts  null: there is no configuration to check against
 */
export function readYamlManifest(text: string, file: string, facts: OperatorFacts | null): Loaded {
  const parsed = parseYaml(text, file);
  if (parsed.ok) return readDocument(parsed.document, facts);
  const problems = parsed.faults.map((fault): Problem => ({ file, key: '', accepted: '', ...fault }));
  return { ok: false, problems, warnings: [] };
}

function readDocument(document: Document, facts: OperatorFacts | null): Loaded {
  const findings = new Findings(document);
  const { typed, extensions } = split(document.root, findings);
  const app = typed === null ? undefined : yamlApp.read(typed, ['app'], findings);
  if (app !== undefined) {
    checkYamlApp(app, facts, findings);
    warnFolder(app.id, document.file, findings);
    if (findings.sound) {
      const origins = originsOfYaml(app, document);
      return { ok: true, app: appOfYaml(app, extensions), origins, warnings: findings.warnings };
    }
  }
  return { ok: false, problems: findings.problems, warnings: findings.warnings };
}

interface Split {
  /** `app` with the keys that the schema knows; null when there is none. */
  readonly typed: TableNode | null;
  readonly extensions: { readonly [key: string]: Json };
}

/** A single `app:` block. What it holds beside the schema is kept as it is; a likely slip is told. */
function split(root: TableNode, findings: Findings): Split {
  for (const name of root.entries.keys()) {
    if (name === 'app') continue;
    const hint = appKeyNames.includes(name) ? `; ${name} belongs under app` : '';
    findings.error([name], `unknown key ${JSON.stringify(name)} beside app${hint}`, 'a single block: app', 'key');
  }
  const app = root.entries.get('app');
  if (app?.kind !== 'table') {
    if (app === undefined) findings.error(['app'], 'is missing', 'a single block: app', 'key');
    else findings.error(['app'], 'is not a mapping', `the keys ${appKeyNames.join(', ')}`);
    return { typed: null, extensions: {} };
  }
  const known = new Map<string, Node>();
  const rest: [string, Json][] = [];
  for (const [name, node] of app.entries) {
    if (appKeyNames.includes(name)) {
      known.set(name, node);
      continue;
    }
    rest.push([name, jsonOf(node)]);
    const near = blockOf.get(name) ?? nearest(name, appKeyNames);
    if (near === null || findings.document.has(['app', near])) continue;
    findings.warn(['app', name], 'is kept as an extension and does nothing', `${near}, if that was meant`, 'key');
  }
  return { typed: { kind: 'table', entries: known }, extensions: objectOf(rest) };
}

function jsonOf(node: Node): Json {
  switch (node.kind) {
    case 'table':
      return objectOf([...node.entries].map(([name, member]) => [name, jsonOf(member)]));
    case 'array':
      return node.items.map(jsonOf);
    case 'integer':
      // Beyond what JSON readers agree on, the digits as text.
      return Number.isSafeInteger(Number(node.value)) ? Number(node.value) : node.raw;
    case 'float':
      return Number.isFinite(node.value) ? node.value : node.raw;
    case 'datetime':
      return node.raw;
    default:
      return node.value;
  }
}

/** Sorted; `__proto__` becomes a key like any other. */
function objectOf(entries: readonly (readonly [string, Json])[]): { readonly [key: string]: Json } {
  return Object.fromEntries([...entries].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
}

function warnFolder(id: string, file: string, findings: Findings): void {
  if (!/^manifest\.ya?ml$/.test(basename(file)) || id === '' || findings.failed(['app', 'id'])) return;
  const folder = basename(dirname(file));
  if (folder === id || folder === '.' || folder === '') return;
  findings.warn(['app', 'id'], `the folder is called ${folder}, the app ${id}`, 'one name for both');
}
