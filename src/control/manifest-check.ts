// Manifests as `check` judges them: each by itself, then against the configuration and each other.
// Invariant: reads files only; what a running Turnpike has besides is not asked.
import { basename } from 'node:path';
import type { Conflict } from '../apps/claims.ts';
import { conflicts, entrypointClaims, fileClaims, formatConflict, portClaims, revisionClaims } from '../apps/claims.ts';
import { compileRouting } from '../config/compile.ts';
import type { Declaration } from '../config/declaration.ts';
import type { Problem } from '../config/problem.ts';
import { loadManifest } from '../manifest/load.ts';
import type { Loaded } from '../manifest/loaded.ts';
import { factsOf } from '../manifest/operator-facts.ts';
import { appGroundOf } from '../process/apps-ground.ts';

export interface CheckedManifest {
  readonly file: string;
  readonly ok: boolean;
  /** Null when it could not be read. */
  readonly app: string | null;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/** @param declaration  null: there is no sound configuration to check against */
export async function checkManifests(
  files: readonly string[],
  declaration: Declaration | null,
): Promise<readonly CheckedManifest[]> {
  const facts = declaration === null ? null : factsOf(declaration);
  const loaded: LoadedFile[] = [];
  for (const file of files) loaded.push({ file, loaded: await loadManifest(file, facts) });
  const rivals = rivalries(loaded, declaration);
  return loaded.map(({ file, loaded: each }) => {
    const problems = [...(each.ok ? [] : each.problems), ...(rivals.get(file) ?? [])];
    const app = each.ok ? each.app.name : null;
    return { file, ok: problems.length === 0, app, problems, warnings: each.warnings };
  });
}

interface LoadedFile {
  readonly file: string;
  readonly loaded: Loaded;
}

/** What a manifest wants that the configuration has, or a manifest before it. */
function rivalries(files: readonly LoadedFile[], declaration: Declaration | null): ReadonlyMap<string, Problem[]> {
  const found = new Map<string, Problem[]>();
  const routing = declaration === null ? null : compileRouting(declaration);
  const entrypoints = routing?.entrypoints ?? [];
  const taken = routing === null ? [] : [...fileClaims(routing, appGroundOf(declaration!).reserved)];
  const owners = new Map<string, string>();
  for (const { file, loaded } of files) {
    if (!loaded.ok) continue;
    const { app, origins } = loaded;
    const problems: Problem[] = [];
    const owner = owners.get(app.name);
    const add = (message: string, accepted: string): void => {
      problems.push({ file, line: 0, column: 0, key: '', message, accepted });
    };
    if (owner !== undefined) add(`the app ${app.name} is in ${owner} too`, 'one manifest for each app');
    else owners.set(app.name, file);
    const claimant = { app, origins, file: basename(file) };
    const wanted = revisionClaims(claimant, entrypoints);
    const ports = portClaims(claimant);
    const clashes: readonly Conflict[] = [
      ...conflicts(wanted, taken),
      ...conflicts(ports, [...taken, ...entrypointClaims(entrypoints)]),
    ];
    for (const message of new Set(clashes.map(formatConflict))) add(message, '');
    taken.push(...wanted, ...ports);
    found.set(file, problems);
  }
  return found;
}
