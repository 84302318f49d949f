// Where in a manifest each host and listener was asked for, for whoever meets them later.
// Invariant: a claim that is not found has no entry; nothing depends on it but messages.
import { basename } from 'node:path';
import { formatPath, type Node, type Path, parseDocument } from '../config/syntax.ts';
import type { App } from '../manifest/app.ts';
import { canonicalHost } from '../model/host.ts';

export type Origins = Readonly<Record<string, string>>;

/** @param file  as the operator named it */
export function originsOf(text: string, file: string, app: App): Origins {
  return app.kind === 'toml' ? tomlOrigins(text, file) : yamlOrigins(text, file, app);
}

function tomlOrigins(text: string, file: string): Origins {
  const parsed = parseDocument(text, file);
  if (!parsed.ok) return {};
  const { document } = parsed;
  const origins: Record<string, string> = {};
  const put = (claim: string, path: Path): void => {
    origins[claim] = `${basename(file)}:${document.locate(path).key.line} ${formatPath(path)}`;
  };
  for (const [service, table] of entriesOf(entryOf(document.root, 'services'))) {
    put(`service ${service}`, ['services', service]);
    itemsOf(entryOf(table, 'http')).forEach((item, i) => {
      const host = textOf(entryOf(item, 'host'));
      const canonical = host === null ? null : canonicalHost(host);
      if (canonical !== null) put(`host ${canonical}`, ['services', service, 'http', i, 'host']);
    });
    for (const transport of ['tcp', 'udp'] as const) {
      itemsOf(entryOf(table, transport)).forEach((item, i) => {
        const entrypoint = textOf(entryOf(item, 'entrypoint'));
        if (entrypoint !== null) put(`entrypoint ${entrypoint} ${transport}`, ['services', service, transport, i]);
      });
    }
  }
  return origins;
}

function yamlOrigins(text: string, file: string, { ports }: App): Origins {
  const lines = text.split('\n');
  const origins: Record<string, string> = {};
  for (const { host } of ports) {
    const at = lines.findIndex((line) => new RegExp(`\\bhost:\\s*${host}\\b`).test(line));
    if (at >= 0) origins[`port ${host}`] = `${basename(file)}:${at + 1} app.ports`;
  }
  return origins;
}

function entryOf(node: Node | undefined, name: string): Node | undefined {
  return node?.kind === 'table' ? node.entries.get(name) : undefined;
}

const entriesOf = (node: Node | undefined): readonly [string, Node][] =>
  node?.kind === 'table' ? [...node.entries] : [];
const itemsOf = (node: Node | undefined): readonly Node[] => (node?.kind === 'array' ? node.items : []);
const textOf = (node: Node | undefined): string | null => (node?.kind === 'string' ? node.value : null);
