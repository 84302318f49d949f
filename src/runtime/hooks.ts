// Steps after an installation, in the app's own container: a command, or a file of the app's data.
// Invariant: nothing runs on the host, and nothing outside the app's data directory is read; the first failure ends it.
import { posix } from 'node:path';
import { Fault } from '../base/fault.ts';
import type { HookStep } from '../manifest/app.ts';
import { ConfinedDirectory } from './confined-directory.ts';
import type { Containers } from './containers.ts';
import { tarOf } from './tar.ts';

const execMs = 120_000;
const copyLimit = 64 * 1024 * 1024;

/** @param directory  the app's data */
export async function runHooks(
  steps: readonly HookStep[],
  id: string,
  containers: Containers,
  directory: string,
): Promise<void> {
  const root = new ConfinedDirectory(directory);
  for (const step of steps) {
    if (step.kind === 'copy') {
      const content = await read(root, step.from);
      await containers.put(
        id,
        posix.dirname(step.to),
        tarOf([{ name: posix.basename(step.to), content, mode: 0o644 }]),
      );
      continue;
    }
    const { exitCode, output } = await containers.exec(id, step.command, { timeoutMs: execMs });
    if (exitCode === 0) continue;
    const said = output.trim().split('\n').slice(-5).join('\n');
    throw new Fault('deploy-failed', `hook ${step.command.join(' ')} ended with ${exitCode}${said && `: ${said}`}`);
  }
}

async function read(root: ConfinedDirectory, from: string): Promise<Buffer> {
  try {
    return await root.read(posix.join(root.root, from), copyLimit);
  } catch (error) {
    if (error instanceof Fault) throw error;
    throw new Fault('deploy-failed', `hook copy_from_host ${from}: ${(error as Error).message}`, { cause: error });
  }
}
