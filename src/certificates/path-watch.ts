// Tells when files may have changed, however they are replaced: in place, by rename, or by swapping a symlink anywhere
// on their path.
// Invariant: a burst of changes gives one call, `quietMs` after the last; calls may be for nothing, changes are not missed
// for longer than one poll interval.
import { type FSWatcher, watch } from 'node:fs';
import { lstat, readlink, stat } from 'node:fs/promises';
import { dirname, join, parse, resolve, sep } from 'node:path';
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';

/** File systems without change events (NFS, some container mounts) are looked at this often. */
const pollMs = 30_000;
/** As many symlinks as Linux follows. */
const maxLinks = 40;

export interface PathWatchDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly quietMs: number;
  onChange(): void;
}

export class PathWatch {
  readonly #deps: PathWatchDeps;
  readonly #poll: Timer;
  /** By directory; the names in it that matter. */
  readonly #watchers = new Map<string, { readonly watcher: FSWatcher; names: ReadonlySet<string> }>();
  #files: readonly string[] = [];
  #seen = '';
  #quiet: Timer | null = null;
  #closed = false;

  constructor(deps: PathWatchDeps) {
    this.#deps = deps;
    this.#poll = deps.clock.every(pollMs, () => void this.#look());
  }

  /** Watches exactly these from now on. Resolves when the watch is in place. */
  async set(files: readonly string[]): Promise<void> {
    this.#files = files;
    await this.#arm();
    this.#seen = await signatureOf(files);
  }

  close(): void {
    this.#closed = true;
    this.#poll.cancel();
    this.#quiet?.cancel();
    for (const { watcher } of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  async #arm(): Promise<void> {
    const wanted = new Map<string, Set<string>>();
    for (const file of this.#files) {
      for (const [directory, name] of await hopsOf(file)) {
        const names = wanted.get(directory);
        if (names === undefined) wanted.set(directory, new Set([name]));
        else names.add(name);
      }
    }
    if (this.#closed) return;
    for (const [directory, { watcher }] of this.#watchers) {
      if (wanted.has(directory)) continue;
      watcher.close();
      this.#watchers.delete(directory);
    }
    for (const [directory, names] of wanted) {
      const known = this.#watchers.get(directory);
      if (known !== undefined) known.names = names;
      else this.#watch(directory, names);
    }
  }

  #watch(directory: string, names: ReadonlySet<string>): void {
    try {
      const watcher = watch(directory, { persistent: false });
      const entry = { watcher, names };
      watcher.on('change', (_event, name) => {
        if (typeof name !== 'string' || entry.names.has(name)) this.#changed();
      });
      watcher.on('error', () => {
        watcher.close();
        this.#watchers.delete(directory);
      });
      this.#watchers.set(directory, entry);
    } catch (error) {
      // The poll is still there.
      this.#deps.log.debug('watch-failed', { directory, error: String(error) });
    }
  }

  #changed(): void {
    this.#quiet?.cancel();
    this.#quiet = this.#deps.clock.after(this.#deps.quietMs, () => void this.#announce());
  }

  async #announce(): Promise<void> {
    // A swapped link leads through other directories than before.
    await this.#arm();
    this.#seen = await signatureOf(this.#files);
    if (!this.#closed) this.#deps.onChange();
  }

  async #look(): Promise<void> {
    if ((await signatureOf(this.#files)) !== this.#seen && !this.#closed) this.#changed();
  }
}

/** What tells one state of these files from another without reading them. */
export async function signatureOf(files: readonly string[]): Promise<string> {
  const parts = await Promise.all(
    files.map(async (file) => {
      try {
        const { dev, ino, size, mtimeMs, ctimeMs, mode } = await stat(file);
        return `${dev}:${ino}:${size}:${mtimeMs}:${ctimeMs}:${mode}`;
      } catch (error) {
        return String((error as NodeJS.ErrnoException).code);
      }
    }),
  );
  return parts.join('\n');
}

/** Every [directory, name] whose change can make `file` another file: each symlink on the way, and the end of it. */
async function hopsOf(file: string): Promise<[string, string][]> {
  const hops: [string, string][] = [];
  const { root } = parse(resolve(file));
  let at = root;
  let rest = resolve(file).slice(root.length).split(sep);
  for (let links = 0; rest.length > 0; ) {
    const [name, ...after] = rest as [string, ...string[]];
    const path = join(at, name);
    const target = await linkTarget(path);
    if (target === undefined) {
      // Missing: its appearance is the change to wait for.
      hops.push([at, name]);
      return hops;
    }
    if (target === null) {
      at = path;
      rest = after;
      continue;
    }
    hops.push([at, name]);
    if (++links > maxLinks) return hops;
    const absolute = resolve(at, target);
    at = parse(absolute).root;
    rest = [...absolute.slice(at.length).split(sep), ...after];
  }
  hops.push([dirname(at), at.slice(dirname(at).length).replace(sep, '')]);
  return hops;
}

/** Where a symlink leads; null for anything else; undefined when there is nothing. */
async function linkTarget(path: string): Promise<string | null | undefined> {
  try {
    return (await lstat(path)).isSymbolicLink() ? await readlink(path) : null;
  } catch {
    return undefined;
  }
}
