// A bound on nesting, so that whatever reads a tree may call itself.
// Invariant: needs no stack of its own.
import type { Node, Path, TableNode } from '../config/syntax.ts';

/** The formats need seven. */
export const deepest = 24;

/** The path of a member that lies too deep, or null. */
export function tooDeep(root: TableNode): Path | null {
  const waiting: { readonly node: Node; readonly path: Path }[] = [{ node: root, path: [] }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { node, path } = next;
    if (node.kind !== 'table' && node.kind !== 'array') continue;
    if (path.length >= deepest) return path;
    const members = node.kind === 'table' ? node.entries : node.items.entries();
    for (const [step, member] of members) waiting.push({ node: member, path: [...path, step] });
  }
  return null;
}
