// The text of a TOML app manifest → an App, or everything that is wrong with it in one pass.
// Invariant: pure; whatever the text holds, the result is an app or a list of problems, never an exception.
import { basename } from 'node:path';
import { Findings } from '../config/problem.ts';
import { type Document, parseDocument } from '../config/syntax.ts';
import { tooDeep } from './depth.ts';
import { type Loaded, refused } from './loaded.ts';
import type { OperatorFacts } from './operator-facts.ts';
import { originsOfToml } from './origins.ts';
import { appOfToml } from './toml-app.ts';
import { refuseTomlText } from './toml-bounds.ts';
import { checkManifest } from './toml-checks.ts';
import { takeKnownMistakes } from './toml-hints.ts';
import { tomlManifest } from './toml-keys.ts';

/**
 * @param file  as the operator named it; problems repeat it
 * @param facts  null: there is no configuration to check against
 */
export function readTomlManifest(text: string, file: string, facts: OperatorFacts | null): Loaded {
  const bound = refuseTomlText(text);
  if (bound !== null) return refused(file, bound.line, bound.column, bound.message, '');
  const parsed = parseDocument(text, file);
  if (!parsed.ok) {
    const { line, column, message } = parsed.fault;
    return refused(file, line, column, `not TOML: ${message}`, '');
  }
  return readDocument(parsed.document, facts);
}

function readDocument(document: Document, facts: OperatorFacts | null): Loaded {
  const findings = new Findings(document);
  const deep = tooDeep(document.root);
  if (deep !== null) {
    const { line, column } = document.locate(deep).key;
    return refused(document.file, line, column, 'is nested too deeply', 'tables as the keys of a manifest have them');
  }
  const { root, taken } = takeKnownMistakes(document.root, findings);
  const manifest = tomlManifest.read(root, [], findings);
  if (manifest !== undefined) {
    if ((manifest.services?.size ?? 0) === 0 && !taken && !findings.failed(['services'])) {
      const part = document.has(['services']) ? 'is empty' : 'is missing';
      findings.error(['services'], part, 'at least one table [services.NAME]', 'key');
    }
    checkManifest(manifest, facts, findings);
    warnFileName(manifest.name, document.file, findings);
    if (findings.sound) {
      const origins = originsOfToml(manifest, document);
      return { ok: true, app: appOfToml(manifest), origins, warnings: findings.warnings };
    }
  }
  return { ok: false, problems: findings.problems, warnings: findings.warnings };
}

function warnFileName(name: string, file: string, findings: Findings): void {
  const found = basename(file);
  if (name === '' || findings.failed(['name']) || found === `${name}.toml`) return;
  findings.warn(['name'], `the file is called ${found}, the app ${name}`, `${name}.toml`);
}
