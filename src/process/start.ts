// From a configuration file to a running supervisor, or to a clear list of what is in the way.
// Invariant: everything that the operator has to mend is on stderr, one problem a line; a bug is thrown.
import { Fault } from '../base/fault.ts';
import { formatProblem, loadConfig, type Problem } from '../config/load.ts';
import { CertificateProblems } from './certificates.ts';
import { Supervisor, type SupervisorOptions } from './supervisor.ts';

/** Null: refused, and said why. */
export async function startSupervisor(options: SupervisorOptions): Promise<Supervisor | null> {
  const loaded = await loadConfig(options.configFile);
  for (const warning of loaded.warnings) console.error(`warning: ${formatProblem(warning)}`);
  if (!loaded.ok) return refuse(loaded.problems);
  try {
    return await Supervisor.start(options, loaded.declaration, loaded.warnings);
  } catch (error) {
    if (error instanceof CertificateProblems) return refuse(error.problems);
    if (!(error instanceof Fault)) throw error;
    console.error(`error: ${error.message}`);
    return null;
  }
}

function refuse(problems: readonly Problem[]): null {
  for (const problem of problems) console.error(`error: ${formatProblem(problem)}`);
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  console.error(`${count}; nothing was started`);
  return null;
}
