// `turnpike check`: every problem of a configuration file and of app manifests at once. Needs no running process.
// Invariant: works without a running process; warnings never make it fail.
import type { Command } from 'commander';
import type { Loaded } from '../../config/load.ts';
import { type CommandContext, requireConfig, withExamples, withJson } from '../command.ts';
import type { CheckedManifest } from '../manifest-check.ts';
import { printProblems } from '../problems.ts';
import { findConfig } from '../socket-path.ts';

interface CheckOptions {
  readonly config?: string;
  readonly manifest?: readonly string[];
  readonly json?: boolean;
}

export function addCheck(program: Command, context: CommandContext): void {
  const command = program
    .command('check')
    .summary('validate a configuration file, and app manifests')
    .description(
      'Checks a configuration file and prints every problem with its line and what is accepted instead.\n' +
        'App manifests are checked too, against the configuration and against each other: those of --manifest, or else\n' +
        'what lies in the directory of [apps].',
    )
    .option('--config <file>', 'configuration file (default: ./config.toml, /etc/turnpike/config.toml)')
    .option('--manifest <file...>', 'app manifests, .toml or .yml')
    .action(async (options: CheckOptions) => {
      const named = options.manifest ?? [];
      // Manifests may be checked where no configuration is: in the repository of an app.
      const alone = named.length > 0 && options.config === undefined && findConfig(undefined, context) === null;
      const file = alone ? null : requireConfig(options.config, context);
      const { loadConfig } = await import('../../config/load.ts');
      const loaded = file === null ? null : await loadConfig(file);
      const files = named.length > 0 ? named : await lyingIn(loaded);
      const manifests = files.length === 0 ? [] : await check(files, loaded);
      const ok = (loaded?.ok ?? true) && manifests.every((each) => each.ok);
      if (options.json === true) context.terminal.json(asJson(file, loaded, manifests, ok));
      else await print(file, loaded, manifests, context);
      context.exit(ok ? 0 : 1);
    });
  withExamples(
    withJson(command),
    'check',
    'check --config /etc/turnpike/config.toml',
    'check --manifest apps/blog.toml apps/notes/manifest.yml',
  );
}

/** Manifests of the directory that the configuration names; a directory that is not there holds none. */
async function lyingIn(loaded: Loaded | null): Promise<readonly string[]> {
  const directory = loaded?.ok === true ? loaded.declaration.apps.directory : null;
  if (directory === null) return [];
  const { manifestsIn } = await import('../../manifest/directory.ts');
  try {
    return await manifestsIn(directory);
  } catch (error) {
    const { code } = error as { readonly code?: string };
    if (code === 'ENOENT' || code === 'ENOTDIR') return [];
    throw error;
  }
}

async function check(files: readonly string[], loaded: Loaded | null): Promise<readonly CheckedManifest[]> {
  const { checkManifests } = await import('../manifest-check.ts');
  return checkManifests(files, loaded?.ok === true ? loaded.declaration : null);
}

function asJson(
  file: string | null,
  loaded: Loaded | null,
  manifests: readonly CheckedManifest[],
  ok: boolean,
): object {
  const problems = loaded === null || loaded.ok ? [] : loaded.problems;
  return { file, ok, problems, warnings: loaded?.warnings ?? [], manifests };
}

async function print(
  file: string | null,
  loaded: Loaded | null,
  manifests: readonly CheckedManifest[],
  { terminal }: CommandContext,
): Promise<void> {
  if (file !== null && loaded !== null) {
    await printProblems(file, loaded.ok ? [] : loaded.problems, loaded.warnings, terminal);
    if (loaded.ok) terminal.line(`${file} is valid.`);
  }
  for (const each of manifests) {
    await printProblems(each.file, each.problems, each.warnings, terminal);
    if (each.ok) terminal.line(`${each.file} is valid: the app ${each.app}.`);
  }
  if (manifests.length > 0 && loaded?.ok !== true) {
    const why = loaded === null ? 'there is no configuration file' : 'the configuration file has problems';
    terminal.error(`warning: entrypoints, grants and images of manifests were not checked: ${why}`);
  }
}
