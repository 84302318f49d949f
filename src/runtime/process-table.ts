// Processes of this machine by a label in their environment, as the kernel shows them in /proc.
// Invariant: a process is told from a later one with the same number by its start time; a zombie is dead.
import { readdir, readFile } from 'node:fs/promises';

export interface LabelledProcess {
  readonly pid: number;
  readonly parent: number;
  /** Clock ticks since boot. */
  readonly startedAt: string;
  readonly environment: string;
}

/** Every live process whose environment has `NAME=value` (or `NAME=` and anything, when `value` is null). */
export async function processesWith(name: string, value: string | null): Promise<readonly LabelledProcess[]> {
  const wanted = value === null ? `\0${name}=` : `\0${name}=${value}\0`;
  const found = await Promise.all(
    (await readdir('/proc'))
      .filter((entry) => /^\d+$/.test(entry))
      .map(async (entry): Promise<LabelledProcess | null> => {
        // Others' environments are not ours to read, and processes end while we look.
        const environment = `\0${await readFile(`/proc/${entry}/environ`, 'latin1').catch(() => '')}\0`;
        if (!environment.includes(wanted)) return null;
        const stat = await statOf(Number(entry));
        return stat === null ? null : { pid: Number(entry), ...stat, environment };
      }),
  );
  return found.filter((each) => each !== null);
}

export async function isAlive({ pid, startedAt }: Pick<LabelledProcess, 'pid' | 'startedAt'>): Promise<boolean> {
  return (await statOf(pid))?.startedAt === startedAt;
}

/** The value of a variable in a block of `\0NAME=value\0`. */
export function variableOf(environment: string, name: string): string | null {
  const at = environment.indexOf(`\0${name}=`);
  if (at < 0) return null;
  const from = at + name.length + 2;
  return environment.slice(from, environment.indexOf('\0', from));
}

/** proc_pid_stat(5): the name in parentheses may hold anything, so fields are counted from the last parenthesis. */
async function statOf(pid: number): Promise<{ readonly parent: number; readonly startedAt: string } | null> {
  const text = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, parent] = fields;
  const startedAt = fields[19];
  if (state === undefined || startedAt === undefined || state === 'Z' || state === 'X') return null;
  return { parent: Number(parent), startedAt };
}
