// config.toml → a declaration, or everything that is wrong with it in one pass.
// Invariant: whatever the file holds, the result is a declaration or a list of problems, never an exception.
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { checkWildcards } from './acme-checks.ts';
import { checkConfig } from './checks.ts';
import type { Declaration } from './declaration.ts';
import { readFiles, staticNames } from './files.ts';
import { Findings, formatProblem, type Problem } from './problem.ts';
import { resolveConfig } from './resolve.ts';
import { schema } from './schema.ts';
import { parseDocument } from './syntax.ts';
import { takeUnquotedHosts } from './unquoted.ts';

export { formatProblem, type Problem };

export type Loaded =
  | { readonly ok: true; readonly declaration: Declaration; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] };

/** @param path  as the operator named it; problems repeat it */
export async function loadConfig(path: string): Promise<Loaded> {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path));
  } catch (error) {
    return refused(path, 0, 0, reasonOf(error), 'the path of a configuration file, UTF-8');
  }
  return readConfig(text, path);
}

/** The text of a file at `path`; other files that it names are read relative to it. */
export async function readConfig(text: string, path: string): Promise<Loaded> {
  const parsed = parseDocument(text, path);
  if (!parsed.ok) {
    const { line, column, message } = parsed.fault;
    return refused(path, line, column, `not TOML: ${message}`, '');
  }
  const { document } = parsed;
  const file = resolve(path);
  const findings = new Findings(document);
  const config = schema.read(takeUnquotedHosts(document.root, findings), [], findings);
  if (config !== undefined) {
    checkConfig(config, file, findings);
    const contents = await readFiles(config, dirname(file), findings);
    checkWildcards(config, await staticNames(config, dirname(file)), findings);
    if (findings.sound) {
      const declaration = resolveConfig(config, document, file, contents, process.stderr.isTTY === true);
      return { ok: true, declaration, warnings: findings.warnings };
    }
  }
  return { ok: false, problems: findings.problems, warnings: findings.warnings };
}

function refused(file: string, line: number, column: number, message: string, accepted: string): Loaded {
  return { ok: false, problems: [{ file, line, column, key: '', message, accepted }], warnings: [] };
}

function reasonOf(error: unknown): string {
  const { code, message } = error as { readonly code?: string; readonly message: string };
  if (code === 'ENOENT') return 'there is no such file';
  if (code === 'EACCES') return 'may not be read';
  if (code === 'EISDIR') return 'is a directory';
  if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return 'is not UTF-8';
  return message;
}
