// Secrets that a container reads as files: written for one instance, gone with it.
// Invariant: the directory is ours alone (0700) and the files are readable inside the container by any user (0444); they
// lie in memory where the machine has a place for that.
import { accessSync, constants } from 'node:fs';
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export class SecretFiles {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  directory(instance: string): string {
    return join(this.#root, instance);
  }

  async write(instance: string, secrets: ReadonlyMap<string, string>): Promise<void> {
    if (secrets.size === 0) return;
    const directory = this.directory(instance);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    for (const [env, value] of secrets) {
      const path = join(directory, env);
      await writeFile(path, value, { mode: 0o400 });
      // Past the umask: whoever runs inside the container must be able to read it.
      await chmod(path, 0o444);
    }
  }

  async remove(instance: string): Promise<void> {
    await rm(this.directory(instance), { recursive: true, force: true });
  }
}

/** Memory when root or the user's session has some, else the state directory. */
export function secretFilesRoot(
  stateDir: string,
  installation: string,
  env: Readonly<Record<string, string | undefined>>,
): string {
  for (const place of ['/run', env['XDG_RUNTIME_DIR']]) {
    if (place === undefined || place === '') continue;
    try {
      accessSync(place, constants.W_OK);
      return join(place, 'turnpike', installation, 'secrets');
    } catch {
      // Not ours to write in.
    }
  }
  return join(stateDir, 'mounted-secrets');
}
