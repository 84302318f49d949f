// Problems of a configuration file as a command prints them.
// Invariant: one line to find the place, one to say what is accepted; nothing is left out.
import { formatProblem, type Problem } from '../config/problem.ts';
import { plural, type Terminal } from './terminal.ts';

/** Warnings and problems on stderr, then how many. */
export function printProblems(
  file: string,
  problems: readonly Problem[],
  warnings: readonly Problem[],
  terminal: Terminal,
): void {
  for (const warning of warnings) terminal.error(`warning: ${formatProblem(warning)}`);
  for (const problem of problems) terminal.error(formatProblem(problem));
  if (problems.length > 0) terminal.error(`${plural(problems.length, 'problem')} in ${file}; nothing was changed.`);
}
