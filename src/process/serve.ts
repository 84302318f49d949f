// `turnpike serve` in the foreground, from configuration file to exit code.
// Invariant: what cannot be served is said on stderr and gives 1 before anything was opened to the world; SIGTERM and
// SIGINT drain and give 0; a second one ends at once and gives 1.
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { AppsObserver } from '../apps/ports.ts';
import type { CreateControlHandler } from './operations.ts';
import type { StepObserver } from './publication-run.ts';
import { onSignals } from './signals.ts';
import type { Supervisor } from './supervisor.ts';
import { SpareWorker } from './worker-process.ts';

export interface ServeOptions {
  readonly configFile: string;
  readonly createControlHandler: CreateControlHandler;
  /** The program that is forked as a worker; Turnpike's entry file by default. */
  readonly program?: string;
  /** Told before every step of a publication, for tests that end processes there. */
  readonly observer?: StepObserver;
  /** The same for every step of a deploy of an app. */
  readonly appsObserver?: AppsObserver;
}

/** Compiled for packaging, the entry has the extension that this file has. */
const entryFile = fileURLToPath(new URL(`../main${extname(import.meta.url)}`, import.meta.url));

export async function serve(options: ServeOptions): Promise<number> {
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
  const spare = new SpareWorker(options.program ?? entryFile);
  try {
    // Loaded while the first worker starts.
    const { startSupervisor } = await import('./start.ts');
    supervisor = await startSupervisor({
      configFile: options.configFile,
      createControlHandler: options.createControlHandler,
      program: options.program ?? entryFile,
      spare,
      observer: options.observer ?? null,
      appsObserver: options.appsObserver ?? null,
    });
    if (supervisor === null) return 1;
    await leaving;
    return await supervisor.drain();
  } finally {
    spare.end();
    quiet();
  }
}
