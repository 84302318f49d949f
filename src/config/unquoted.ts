// Hosts whose dots were not quoted: `[external_routes.legacy.example.com]` is three tables inside each other in TOML.
// Invariant: such an entry is told once, with the quoted form, and taken out, so that nobody complains of its parts.

import { Refusal } from './form.ts';
import type { Findings } from './problem.ts';
import { hostKeyNames } from './route-keys.ts';
import { nearest } from './suggest.ts';
import { formatKey, type Node, type Path, type TableNode } from './syntax.ts';
import { parseBackend } from './values.ts';

/** The tree without the entries that were meant as dotted hosts. */
export function takeUnquotedHosts(root: TableNode, findings: Findings): TableNode {
  const routes = root.entries.get('external_routes');
  if (routes?.kind !== 'table') return root;
  const kept = new Map<string, Node>();
  for (const [name, node] of routes.entries) {
    const rest = node.kind === 'table' ? withoutDotted(name, node, findings) : node;
    if (rest !== null) kept.set(name, rest);
  }
  return {
    kind: 'table',
    entries: new Map([...root.entries, ['external_routes', { kind: 'table', entries: kept }]]),
  };
}

/** What is left of an entry; null when it was nothing but a part of dotted hosts. */
function withoutDotted(name: string, node: TableNode, findings: Findings): TableNode | null {
  const path: Path = ['external_routes', name];
  if (!findings.document.locate(path).bare) return node;
  const kept = new Map<string, Node>();
  for (const [label, member] of node.entries) {
    if (isLabel(path, label, member, findings)) reportHosts([...path, label], member, findings);
    else kept.set(label, member);
  }
  return kept.size === 0 && node.entries.size > 0 ? null : { kind: 'table', entries: kept };
}

/** True when a member of a route is the next label of a host, rather than a key. */
function isLabel(path: Path, label: string, member: Node, findings: Findings): boolean {
  if (hostKeyNames.includes(label)) return false;
  if (member.kind === 'table') return nearest(label, hostKeyNames) === null;
  // `legacy.test = "127.0.0.1:3000"`: names and dot stand directly together.
  const parent = path[path.length - 1] as string;
  const before = findings.document.locate(path).key;
  const at = findings.document.locate([...path, label]).key;
  const together = at.line === before.line && at.column === before.column + parent.length + 1;
  return together && member.kind === 'string' && !(parseBackend(member.value) instanceof Refusal);
}

function reportHosts(path: Path, node: Node, findings: Findings): void {
  const labels = node.kind === 'table' ? [...node.entries].filter(([name]) => !hostKeyNames.includes(name)) : [];
  const below = labels.filter(([name, member]) => member.kind === 'table' || isLabel(path, name, member, findings));
  if (node.kind === 'table' && below.length > 0 && below.length === node.entries.size) {
    for (const [name, member] of below) reportHosts([...path, name], member, findings);
    return;
  }
  const host = path.slice(1).join('.');
  const table = node.kind === 'table';
  findings.error(
    path,
    `without quotes, TOML takes the dots of ${host} for tables inside tables`,
    table ? `[external_routes.${formatKey(host)}]` : `${formatKey(host)} = …`,
    'key',
  );
}
