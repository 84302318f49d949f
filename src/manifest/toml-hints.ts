// Known mistakes of whole shape: the earlier schema with [[service]], and service names whose dots were not quoted.
// Invariant: each is told once, with the form to write instead, and taken out, so that nobody complains of its parts.
import type { Findings } from '../config/problem.ts';
import { formatKey, type Node, type Path, type TableNode } from '../config/syntax.ts';
import { judgePlainName } from './names.ts';
import { serviceKeyNames } from './toml-keys.ts';

export interface Repaired {
  readonly root: TableNode;
  /** Something was taken out that was meant as a service. */
  readonly taken: boolean;
}

/** The tree without what cannot be read as this schema. */
export function takeKnownMistakes(root: TableNode, findings: Findings): Repaired {
  const entries = new Map(root.entries);
  let taken = takeEarlierSchema(entries, findings);
  const services = entries.get('services');
  if (services?.kind === 'table') {
    const kept = new Map<string, Node>();
    for (const [name, node] of services.entries) {
      const rest = node.kind === 'table' ? withoutDotted(name, node, findings) : node;
      if (rest === null) taken = true;
      else kept.set(name, rest);
    }
    entries.set('services', { kind: 'table', entries: kept });
  }
  return { root: { kind: 'table', entries }, taken };
}

// ---- the earlier schema ----------------------------------------------------------------------------------------

function takeEarlierSchema(entries: Map<string, Node>, findings: Findings): boolean {
  let taken = false;
  for (const key of ['service', 'services']) {
    const node = entries.get(key);
    if (node === undefined || (key === 'services' && node.kind !== 'array')) continue;
    if (key === 'service' && node.kind !== 'array' && node.kind !== 'table') continue;
    entries.delete(key);
    taken = true;
    const written = node.kind === 'array' ? `[[${key}]]` : `[${key}]`;
    const items: readonly Node[] = node.kind === 'array' && node.items.length > 0 ? node.items : [node];
    for (const [i, item] of items.entries()) {
      const path: Path = item === node ? [key] : [key, i];
      const why = `${written} is an earlier schema; services are keyed by their names`;
      findings.error(path, why, keyedForm(item), 'key');
    }
  }
  return taken;
}

/** `[services.web]`, by the name that the table of the earlier schema gives. */
function keyedForm(item: Node): string {
  const name = item.kind === 'table' ? item.entries.get('name') : undefined;
  return name?.kind === 'string' && judgePlainName(name.value) === null
    ? `[services.${formatKey(name.value)}]`
    : 'one table for each service: [services.NAME]';
}

// ---- dots without quotes ---------------------------------------------------------------------------------------

/** What is left of a service; null when it was nothing but a part of dotted names. */
function withoutDotted(name: string, node: TableNode, findings: Findings): TableNode | null {
  const path: Path = ['services', name];
  if (!findings.document.locate(path).bare) return node;
  const kept = new Map<string, Node>();
  for (const [label, member] of node.entries) {
    if (isService(label, member)) report([...path, label], member, findings);
    else kept.set(label, member);
  }
  return kept.size === 0 && node.entries.size > 0 ? null : { kind: 'table', entries: kept };
}

/** True when a table in a service is itself a service, rather than a key that is not known. */
function isService(label: string, node: Node): node is TableNode {
  if (serviceKeyNames.includes(label) || node.kind !== 'table') return false;
  return [...node.entries].some(([key, member]) => serviceKeyNames.includes(key) || isService(key, member));
}

function report(path: Path, node: TableNode, findings: Findings): void {
  const below = [...node.entries].filter(([name, member]) => isService(name, member));
  for (const [name, member] of below) report([...path, name], member as TableNode, findings);
  if (below.length === node.entries.size) return;
  const name = path.slice(1).join('.');
  findings.error(
    path,
    `without quotes, TOML takes the dots of ${name} for tables inside tables`,
    `[services.${formatKey(name)}]`,
    'key',
  );
}
