// Runs the command line inside the test, with its own streams.
// Invariant: no terminal is simulated unless asked for, so the output is what a pipe gets.
import { join } from 'node:path';
import { runCommandLine } from '../../src/control/command-line.ts';

export interface CommandRun {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export async function run(
  argv: readonly string[],
  cwd: string,
  { isTTY = false, env = {} }: { isTTY?: boolean; env?: Record<string, string> } = {},
): Promise<CommandRun> {
  const out: string[] = [];
  const err: string[] = [];
  const code = await runCommandLine(
    argv,
    {
      out: { isTTY, write: (text) => out.push(text) },
      err: { isTTY, write: (text) => err.push(text) },
      env,
    },
    { cwd, systemConfigFile: join(cwd, 'etc/config.toml') },
  );
  return { code, out: out.join(''), err: err.join('') };
}
