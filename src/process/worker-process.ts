// Forking a worker, apart from all that the supervisor does with it: the first one is forked before anything else is
// loaded, so that both processes start at the same time.
// Invariant: a process that was forked ahead is used or ended; it holds nothing and serves nothing until it is told.
import { type ChildProcess, fork } from 'node:child_process';
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';

/** Node's own flags (a debugger's, a profiler's) are the supervisor's, not the workers'. */
export function forkWorker(program: string): ChildProcess {
  const kept = getCompileCacheDir();
  // With it in its environment a worker need not compile even its first file. The directory is named without its version.
  const env = kept === undefined ? process.env : { ...process.env, NODE_COMPILE_CACHE: dirname(kept) };
  return fork(program, ['worker'], { serialization: 'advanced', execArgv: [], env });
}

/** A worker forked before it is known whether and how it will be used. */
export class SpareWorker {
  #child: ChildProcess | null;

  constructor(program: string) {
    this.#child = forkWorker(program);
    this.#child.on('error', () => {
      this.#child = null;
    });
  }

  /** Null when it was taken already, or died meanwhile. */
  take(): ChildProcess | null {
    const child = this.#child;
    this.#child = null;
    return child === null || child.exitCode !== null || child.signalCode !== null ? null : child;
  }

  /** Harmless when it was taken. */
  end(): void {
    this.take()?.kill('SIGKILL');
  }
}
