// Hosts whose dots were not quoted: `[external_routes.legacy.example.com]` is three tables inside each other in TOML.
// Invariant: such an entry is told once, with the quoted form, and taken out, so that nobody complains of its parts.

import { Refusal } from './form.ts';
import { appGateKeyNames } from './gate-keys.ts';
import type { Findings } from './problem.ts';
import { hostKeyNames } from './route-keys.ts';
import { nearest } from './suggest.ts';
import { formatKey, formatPath, type Node, type Path, type TableNode } from './syntax.ts';
import { parseBackend } from './values.ts';

/** A table whose keys are hosts. */
interface HostTable {
  readonly path: readonly string[];
  /** Keys that a host may have: anything else is the next label of its name. */
  readonly keys: readonly string[];
}

const hostTables: readonly HostTable[] = [
  { path: ['external_routes'], keys: hostKeyNames },
  { path: ['gate', 'apps'], keys: appGateKeyNames },
];

/** The tree without the entries that were meant as dotted hosts. */
export function takeUnquotedHosts(root: TableNode, findings: Findings): TableNode {
  return hostTables.reduce(
    (tree, table) => replaceTable(tree, table.path, (node) => takeFrom(node, table, findings)),
    root,
  );
}

function replaceTable(node: TableNode, path: readonly string[], replace: (node: TableNode) => TableNode): TableNode {
  const [name, ...below] = path;
  if (name === undefined) return replace(node);
  const member = node.entries.get(name);
  if (member?.kind !== 'table') return node;
  return { kind: 'table', entries: new Map([...node.entries, [name, replaceTable(member, below, replace)]]) };
}

function takeFrom(hosts: TableNode, table: HostTable, findings: Findings): TableNode {
  const kept = new Map<string, Node>();
  for (const [name, node] of hosts.entries) {
    const rest = node.kind === 'table' ? withoutDotted(name, node, table, findings) : node;
    if (rest !== null) kept.set(name, rest);
  }
  return { kind: 'table', entries: kept };
}

/** What is left of an entry; null when it was nothing but a part of dotted hosts. */
function withoutDotted(name: string, node: TableNode, table: HostTable, findings: Findings): TableNode | null {
  const path: Path = [...table.path, name];
  if (!findings.document.locate(path).bare) return node;
  const kept = new Map<string, Node>();
  for (const [label, member] of node.entries) {
    if (isLabel(path, label, member, table, findings)) reportHosts([...path, label], member, table, findings);
    else kept.set(label, member);
  }
  return kept.size === 0 && node.entries.size > 0 ? null : { kind: 'table', entries: kept };
}

/** True when a member of a route is the next label of a host, rather than a key. */
function isLabel(path: Path, label: string, member: Node, { keys }: HostTable, findings: Findings): boolean {
  if (keys.includes(label)) return false;
  if (member.kind === 'table') return nearest(label, keys) === null;
  // `legacy.test = "127.0.0.1:3000"`: names and dot stand directly together.
  const parent = path[path.length - 1] as string;
  const before = findings.document.locate(path).key;
  const at = findings.document.locate([...path, label]).key;
  const together = at.line === before.line && at.column === before.column + parent.length + 1;
  return together && member.kind === 'string' && !(parseBackend(member.value) instanceof Refusal);
}

function reportHosts(path: Path, node: Node, table: HostTable, findings: Findings): void {
  const labels = node.kind === 'table' ? [...node.entries].filter(([name]) => !table.keys.includes(name)) : [];
  const below = labels.filter(
    ([name, member]) => member.kind === 'table' || isLabel(path, name, member, table, findings),
  );
  if (node.kind === 'table' && below.length > 0 && below.length === node.entries.size) {
    for (const [name, member] of below) reportHosts([...path, name], member, table, findings);
    return;
  }
  const host = path.slice(table.path.length).join('.');
  findings.error(
    path,
    `without quotes, TOML takes the dots of ${host} for tables inside tables`,
    node.kind === 'table' ? `[${formatPath([...table.path, host])}]` : `${formatKey(host)} = …`,
    'key',
  );
}
