// Watches files for changes, however editors write them: in place, by rename, through a symlink swap.
// Invariant: one call for a burst of changes, at least `quietMs` after the last one; contents are compared by the caller.
import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';

export class FileWatch {
  readonly #clock: Clock;
  readonly #quietMs: number;
  readonly #onChange: () => void;
  readonly #watchers: FSWatcher[] = [];
  #timer: Timer | null = null;

  constructor(files: readonly string[], clock: Clock, log: Log, onChange: () => void, quietMs = 500) {
    this.#clock = clock;
    this.#quietMs = quietMs;
    this.#onChange = onChange;
    const directories = new Map<string, Set<string>>();
    for (const file of files) {
      const names = directories.get(dirname(file)) ?? new Set();
      directories.set(dirname(file), names.add(basename(file)));
    }
    for (const [directory, names] of directories) {
      try {
        // The directory, because a rename replaces the file that a watch on the file itself would go on looking at. A
        // mounted ConfigMap changes by swapping "..data" beside the file.
        const watcher = watch(directory, { persistent: false }, (_event, name) => {
          if (name === null || names.has(name) || name === '..data') this.#changed();
        });
        watcher.on('error', (error) => log.warn('watch-failed', { directory, error: error.message }));
        this.#watchers.push(watcher);
      } catch (error) {
        log.warn('watch-failed', { directory, error: error instanceof Error ? error.message : String(error) });
      }
    }
  }

  close(): void {
    this.#timer?.cancel();
    for (const watcher of this.#watchers) watcher.close();
  }

  #changed(): void {
    this.#timer?.cancel();
    this.#timer = this.#clock.after(this.#quietMs, this.#onChange);
  }
}
