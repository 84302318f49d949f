// Problems of a configuration file as a command prints them.
// Invariant: one line for each, nothing left out; warnings come first and never count.
import type { Problem } from '../config/problem.ts';
import { plural, type Terminal } from './terminal.ts';

export async function printProblems(
  file: string,
  problems: readonly Problem[],
  warnings: readonly Problem[],
  terminal: Terminal,
): Promise<void> {
  if (problems.length + warnings.length === 0) return;
  // The parser that comes with it takes longer to load than all the rest of a command.
  const { formatProblem } = await import('../config/problem.ts');
  for (const warning of warnings) terminal.error(`warning: ${formatProblem(warning)}`);
  for (const problem of problems) terminal.error(formatProblem(problem));
  if (problems.length > 0) terminal.error(`${plural(problems.length, 'problem')} in ${file}`);
}
