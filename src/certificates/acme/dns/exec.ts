// TXT records by a program of the operator's: `COMMAND… present|cleanup FQDN VALUE`, as other ACME clients call theirs.
// Invariant: one run for each record, one after the other; a run that takes too long is killed with all that it started.
import { spawn } from 'node:child_process';
import type { Clock } from '../../../base/clock.ts';
import { printable } from '../problem.ts';
import type { TxtKeeper, TxtRecord } from './txt-keeper.ts';

export interface ExecOptions {
  /** Program and first arguments; no shell reads them. */
  readonly command: readonly string[];
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/** Of what it prints, the end is kept: that is where the reason stands. */
const keptOutput = 1000;
/** For what it printed last to arrive. */
const lastWordsMs = 500;

export class ExecKeeper implements TxtKeeper {
  readonly label: string;
  readonly #options: ExecOptions;

  constructor(options: ExecOptions) {
    this.#options = options;
    this.label = options.command[0] ?? '';
  }

  async add(records: readonly TxtRecord[], signal: AbortSignal): Promise<void> {
    for (const record of records) await this.#run('present', record, signal);
  }

  /** All of them, also after one that failed. */
  async remove(records: readonly TxtRecord[], signal: AbortSignal): Promise<void> {
    const failures: unknown[] = [];
    for (const record of records) {
      await this.#run('cleanup', record, signal).catch((error: unknown) => failures.push(error));
    }
    if (failures.length > 0) throw failures[0];
  }

  #run(action: 'present' | 'cleanup', { name, value }: TxtRecord, signal: AbortSignal): Promise<void> {
    const { command, timeoutMs, clock } = this.#options;
    const [program = '', ...args] = command;
    return new Promise((resolve, reject) => {
      // A group of its own, so that what it starts can be ended with it.
      const child = spawn(program, [...args, action, `${name}.`, value], {
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
      });
      let output = '';
      let killed: string | null = null;
      const kill = (why: string): void => {
        killed = why;
        if (child.pid !== undefined) killGroup(child.pid);
      };
      const keep = (chunk: Buffer): void => {
        output = (output + chunk.toString()).slice(-keptOutput);
      };
      const timer = clock.after(timeoutMs, () => kill(`did not end within ${Math.round(timeoutMs / 1000)} s`));
      const onAbort = (): void => kill('was stopped');
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
      child.stdout.on('data', keep);
      child.stderr.on('data', keep);
      const settle = (error: Error | null): void => {
        timer.cancel();
        signal.removeEventListener('abort', onAbort);
        if (error === null) resolve();
        else reject(error);
      };
      child.on('error', (error) => settle(new Error(`cannot be run: ${error.message}`)));
      child.on('exit', (code, killedBy) => {
        const conclude = (): void => {
          lastWords.cancel();
          child.stdout.destroy();
          child.stderr.destroy();
          if (code === 0 && killed === null) settle(null);
          else settle(new Error(`${action} ${killed ?? `ended with ${code ?? killedBy}`}${said(output)}`));
        };
        // Something that it left behind may hold its output open for ever.
        const lastWords = clock.after(lastWordsMs, conclude);
        child.on('close', conclude);
      });
    });
  }
}

function said(output: string): string {
  const text = printable(output);
  return text === '' ? '' : `: ${text}`;
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended meanwhile.
  }
}
