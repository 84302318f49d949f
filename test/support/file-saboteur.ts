// Makes the n-th writing file operation of this process the last one, as a kill or a full disk would.
// Invariant: operations before the n-th are carried out whole; of a write that is the n-th, a part reaches the disk.
import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

const writing = ['mkdir', 'rename', 'rm', 'symlink', 'link', 'writeFile'] as const;
const originals = { ...fs };

export class FileSaboteur {
  /** Operations so far. */
  count = 0;
  readonly #at: number;
  readonly #how: 'kill' | 'full';

  /** `kill`: nothing from there on happens or returns. `full`: that operation and all that write after it fail. */
  private constructor(how: 'kill' | 'full', at: number) {
    this.#how = how;
    this.#at = at;
  }

  /** @param share  of the write that is hit */
  static install(how: 'kill' | 'full', at: number, share = 0.5): FileSaboteur {
    const part = (data: unknown): string => String(data).slice(0, String(data).length * share);
    const saboteur = new FileSaboteur(how, at);
    const target = fs as unknown as Record<string, unknown>;
    for (const name of writing) {
      target[name] = (...args: unknown[]) =>
        // A full disk can still remove.
        name === 'rm' && how === 'full'
          ? call(name, args)
          : saboteur.#turn(
              () => call(name, args),
              () => (name === 'writeFile' ? call(name, [args[0], part(args[1]), ...args.slice(2)]) : null),
            );
    }
    target['open'] = async (path: string, flags = 'r', ...rest: unknown[]) => {
      const open = () => call('open', [path, flags, ...rest]) as Promise<fs.FileHandle>;
      if (flags === 'r') return open();
      const handle = await saboteur.#turn(open, () => null);
      const write = handle.writeFile.bind(handle);
      const sync = handle.sync.bind(handle);
      handle.writeFile = (data) =>
        saboteur.#turn(
          () => write(data),
          () => write(part(data)),
        );
      handle.sync = () => saboteur.#turn(sync, () => null);
      return handle;
    };
    syncBuiltinESMExports();
    return saboteur;
  }

  static restore(): void {
    Object.assign(fs, originals);
    syncBuiltinESMExports();
  }

  get hasStruck(): boolean {
    return this.count > this.#at;
  }

  async #turn<T>(whole: () => Promise<T>, part: () => unknown): Promise<T> {
    const index = this.count++;
    if (index < this.#at) return whole();
    if (index === this.#at) await part();
    if (this.#how === 'kill') return new Promise<never>(() => {});
    throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
  }
}

function call(name: string, args: readonly unknown[]): Promise<unknown> {
  return (originals as unknown as Record<string, (...all: readonly unknown[]) => Promise<unknown>>)[name]!(...args);
}
