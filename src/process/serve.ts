// `turnpike serve` in the foreground, from configuration file to exit code.
// Invariant: what cannot be served is said on stderr and gives 1 before anything was opened to the world; SIGTERM and
// SIGINT drain and give 0; a second one ends at once and gives 1.
import { Fault } from '../base/fault.ts';
import { formatProblem, loadConfig, type Problem } from '../config/load.ts';
import { CertificateProblems } from './certificates.ts';
import { onSignals } from './signals.ts';
import { Supervisor, type SupervisorOptions } from './supervisor.ts';

export async function serve(options: SupervisorOptions): Promise<number> {
  const loaded = await loadConfig(options.configFile);
  for (const warning of loaded.warnings) console.error(`warning: ${formatProblem(warning)}`);
  if (!loaded.ok) return refuse(loaded.problems);
  let supervisor: Supervisor;
  try {
    supervisor = await Supervisor.start(options, loaded.declaration, loaded.warnings);
  } catch (error) {
    if (error instanceof CertificateProblems) return refuse(error.problems);
    if (!(error instanceof Fault)) throw error;
    console.error(`error: ${error.message}`);
    return 1;
  }
  return await new Promise((resolve) => {
    const quiet = onSignals({
      reload: () => void supervisor.reload(),
      drain: () => {
        supervisor.drain().then((code) => {
          quiet();
          resolve(code);
        });
      },
      endNow: () => {
        supervisor.endNow();
        // Whatever is still open must not keep the process.
        process.exit(1);
      },
    });
  });
}

function refuse(problems: readonly Problem[]): number {
  for (const problem of problems) console.error(`error: ${formatProblem(problem)}`);
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  console.error(`${count}; nothing was started`);
  return 1;
}
