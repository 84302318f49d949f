// Secrets of YAML apps: one file each in a directory, put there by the operator or made on first use.
// Invariant: 0600, by bare name only, never through a link; a value that was made once is never made again.
import { randomBytes } from 'node:crypto';
import { constants, mkdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomically } from '../base/atomic-file.ts';
import { Fault } from '../base/fault.ts';
import type { GeneratedSecret } from '../manifest/app.ts';
import { checkSecretValue } from './secret-store.ts';

const makers: Readonly<Record<string, () => string>> = {
  hex16: () => randomBytes(16).toString('hex'),
  hex32: () => randomBytes(32).toString('hex'),
  base64: () => randomBytes(32).toString('base64'),
};

export class SecretDirectory {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Without the line feed that editors put at the end; null: there is no such file. */
  async read(name: string): Promise<string | null> {
    const path = this.#path(name);
    let text: string;
    try {
      const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
      try {
        const { mode } = await file.stat();
        // Who can read it is not ours to guess: it was meant for the owner alone.
        if ((mode & 0o077) !== 0) throw new Fault('secret-refused', `${path} may be read by others: chmod 600 it`);
        text = await file.readFile('utf8');
      } finally {
        await file.close();
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw error instanceof Fault ? error : new Fault('secret-refused', `${path}: ${(error as Error).message}`);
    }
    const value = text.replace(/\r?\n$/, '');
    checkSecretValue(value);
    return value;
  }

  /** Makes what is missing. One that is there, or one that was emptied, is handled as seen: kept, or made anew. */
  async make({ name, kind }: GeneratedSecret): Promise<void> {
    const maker = makers[kind];
    if (maker === undefined) throw new Fault('secret-refused', `${name}: no secret of the kind ${kind} can be made`);
    if ((await this.#size(name)) > 0) return;
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    await writeFileAtomically(this.#path(name), `${maker()}\n`, 0o600);
  }

  async #size(name: string): Promise<number> {
    try {
      const file = await open(this.#path(name), constants.O_RDONLY | constants.O_NOFOLLOW);
      try {
        return (await file.stat()).size;
      } finally {
        await file.close();
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0;
      throw error;
    }
  }

  #path(name: string): string {
    if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]*$/.test(name)) {
      throw new Fault('secret-refused', `${JSON.stringify(name)} is no name of a secret's file`);
    }
    return join(this.#directory, name);
  }
}
