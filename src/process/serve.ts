// `turnpike serve` in the foreground, from configuration file to exit code.
// Invariant: what cannot be served is said on stderr and gives 1 before anything was opened to the world; SIGTERM and
// SIGINT drain and give 0; a second one ends at once and gives 1.
import { Fault } from '../base/fault.ts';
import { formatProblem, loadConfig, type Problem } from '../config/load.ts';
import { CertificateProblems } from './certificates.ts';
import { onSignals } from './signals.ts';
import { Supervisor, type SupervisorOptions } from './supervisor.ts';

export async function serve(options: SupervisorOptions): Promise<number> {
  process.title = 'turnpike';
  let supervisor: Supervisor | null = null;
  let leave = (): void => {};
  const leaving = new Promise<void>((resolve) => {
    leave = resolve;
  });
  // From the beginning: who asks for an end while the start is under way gets an orderly one right after it.
  const quiet = onSignals({
    reload: () => supervisor?.reloadSoon(),
    drain: () => leave(),
    endNow: () => {
      supervisor?.endNow();
      // Whatever is still open must not keep the process; workers follow when their channel breaks.
      process.exit(1);
    },
  });
  try {
    const started = await start(options);
    if (started === null) return 1;
    supervisor = started;
    await leaving;
    return await started.drain();
  } finally {
    quiet();
  }
}

/** Null: refused, and said why. */
async function start(options: SupervisorOptions): Promise<Supervisor | null> {
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
