// Files below one directory of the host, in which containers may write as well.
// Invariant: no link is ever followed below the root: each step is opened from the descriptor of the one before it, so that
// nobody can swap a directory for a link while we are on our way (openat(2), by way of /proc/self/fd).
import { randomBytes } from 'node:crypto';
import { constants, type Dirent, type Stats } from 'node:fs';
import { type FileHandle, lchown, lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, relative, sep } from 'node:path';
import { Fault } from '../base/fault.ts';

const asDirectory = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const asFile = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export class ConfinedDirectory {
  readonly root: string;

  /** @param root  absolute; the operator's word, links in it are his */
  constructor(root: string) {
    this.root = root;
  }

  contains(path: string): boolean {
    const way = relative(this.root, path);
    return way !== '..' && !way.startsWith(`..${sep}`);
  }

  /** Null: nothing is there. A link is told as itself. */
  async look(path: string): Promise<Stats | null> {
    return this.#missingIsNull(() => this.#in(dirname(path), false, (place) => lstat(`${place}/${basename(path)}`)));
  }

  async makeDirectory(path: string): Promise<void> {
    await this.#in(path, true, async () => {});
  }

  async read(path: string, limit: number): Promise<Buffer> {
    return this.#in(dirname(path), false, async (place) => {
      const file = await open(`${place}/${basename(path)}`, asFile);
      try {
        const stats = await file.stat();
        if (!stats.isFile() || stats.size > limit) {
          throw new Fault('runtime-refused', `${path} is no file of at most ${limit} bytes`);
        }
        return await file.readFile();
      } finally {
        await file.close();
      }
    });
  }

  /** The whole file or the one before; a link that was there is replaced, not followed. Missing directories are made. */
  async write(path: string, content: string, mode: number): Promise<void> {
    await this.#in(dirname(path), true, async (place) => {
      const temporary = `${place}/.${basename(path)}.${randomBytes(6).toString('hex')}`;
      try {
        const file = await open(temporary, 'wx', mode);
        try {
          await file.writeFile(content);
          await file.chmod(mode);
          await file.sync();
        } finally {
          await file.close();
        }
        await rename(temporary, `${place}/${basename(path)}`);
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
    });
  }

  /** Everything below, links themselves included. */
  async own(path: string, uid: number, gid: number): Promise<void> {
    const stats = await this.look(path);
    if (stats === null) return;
    if (!stats.isDirectory()) {
      await this.#in(dirname(path), false, (place) => lchown(`${place}/${basename(path)}`, uid, gid));
      return;
    }
    const walk = async (handle: FileHandle): Promise<void> => {
      await handle.chown(uid, gid);
      const place = `/proc/self/fd/${handle.fd}`;
      for (const entry of (await readdir(place, { withFileTypes: true })) as Dirent[]) {
        if (!entry.isDirectory()) await lchown(`${place}/${entry.name}`, uid, gid);
        else await withHandle(`${place}/${entry.name}`, walk);
      }
    };
    await this.#in(path, false, (place) => withHandle(`${place}/.`, walk));
  }

  /** Runs with a path that stands for the open directory. */
  async #in<T>(path: string, make: boolean, run: (place: string) => Promise<T>): Promise<T> {
    if (!this.contains(path)) throw new Fault('runtime-refused', `${path} is not below ${this.root}`);
    if (make) await mkdir(this.root, { recursive: true, mode: 0o755 });
    let handle = await open(this.root, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      for (const name of relative(this.root, path).split(sep).filter(Boolean)) {
        const next = `/proc/self/fd/${handle.fd}/${name}`;
        if (make) await mkdir(next, { mode: 0o755 }).catch(existingIsFine);
        const deeper = await open(next, asDirectory).catch((error: unknown) => {
          throw linked(error) ? new Fault('runtime-refused', `${path}: ${name} is a link, or no directory`) : error;
        });
        await handle.close();
        handle = deeper;
      }
      return await run(`/proc/self/fd/${handle.fd}`);
    } finally {
      await handle.close();
    }
  }

  async #missingIsNull<T>(run: () => Promise<T>): Promise<T | null> {
    try {
      return await run();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw error;
    }
  }
}

async function withHandle(path: string, run: (handle: FileHandle) => Promise<void>): Promise<void> {
  const handle = await open(path, asDirectory);
  try {
    await run(handle);
  } finally {
    await handle.close();
  }
}

const linked = (error: unknown): boolean => ['ELOOP', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');

function existingIsFine(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
}
