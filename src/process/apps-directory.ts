// The directory of manifests: applies what changes in it, and deploys it when the operator wants that.
// Invariant: a manifest with problems, or one that vanished, changes nothing and is told in `apps status`; an app that is
// watched has no second source.
import { type FSWatcher, watch } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Timer } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import { PathWatch } from '../certificates/path-watch.ts';
import type { DeclaredApps } from '../config/declared-apps.ts';
import { formatProblem } from '../config/problem.ts';
import { manifestsIn } from '../manifest/directory.ts';
import type { ApplyResult } from './apps-operations.ts';

export interface DirectoryEffects {
  apply(path: string): Promise<ApplyResult>;
  deploy(app: string): Promise<void>;
}

/** Manifests that are written one after the other are read together. */
const quietMs = 500;

export class ManifestDirectory {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #effects: DirectoryEffects;
  /** Tells of files that are known; new ones are told of by the directories that they appear in. */
  readonly #watch: PathWatch;
  readonly #places = new Map<string, FSWatcher>();
  #quiet: Timer | null = null;
  #apps: DeclaredApps | null = null;
  /** File → the app it holds; null while it has problems. */
  readonly #files = new Map<string, string | null>();
  /** App → what is wrong with its file. */
  readonly #troubles = new Map<string, string>();
  #reading: Promise<void> = Promise.resolve();

  constructor(clock: Clock, log: Log, effects: DirectoryEffects) {
    this.#clock = clock;
    this.#log = log;
    this.#effects = effects;
    this.#watch = new PathWatch({ clock, log, quietMs, onChange: () => this.#readSoon() });
  }

  async follow(apps: DeclaredApps): Promise<void> {
    this.#apps = apps;
    if (apps.directory === null || !apps.watch) {
      this.#files.clear();
      this.#troubles.clear();
      await this.#watch.set([]);
      this.#watchPlaces([]);
      return;
    }
    await this.#readSoon();
  }

  troubleOf(app: string): string | null {
    return this.#troubles.get(app) ?? null;
  }

  /** Throws when this app comes from the directory: what is applied by hand would be undone by the next change there. */
  refuse(app: string, path: string): void {
    const file = [...this.#files].find(([each, name]) => name === app && each !== path)?.[0];
    const own = [...this.#files].some(([each, name]) => name === app && each === path);
    if (file === undefined && !own) return;
    const where = file ?? path;
    throw new Fault('deploy-refused', `${app} is applied from ${where} by itself: change that file`);
  }

  close(): void {
    this.#quiet?.cancel();
    this.#watch.close();
    this.#watchPlaces([]);
  }

  #readSoon(): Promise<void> {
    this.#reading = this.#reading
      .then(() => this.#read())
      .catch((error: unknown) => {
        this.#log.error('apps-directory-unreadable', { directory: this.#apps?.directory, err: error });
      });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const apps = this.#apps;
    if (apps?.directory == null || !apps.watch) return;
    const files = await manifestsIn(apps.directory);
    await this.#watch.set([apps.directory, ...files]);
    this.#watchPlaces(await placesIn(apps.directory));
    for (const [file, app] of this.#files) {
      if (files.includes(file)) continue;
      this.#files.delete(file);
      if (app === null) continue;
      this.#troubles.set(app, `${file} is gone; the app stays as it is`);
      this.#log.warn('manifest-gone', { app, file });
    }
    for (const file of files) await this.#apply(file, apps);
  }

  #watchPlaces(directories: readonly string[]): void {
    for (const [directory, watcher] of this.#places) {
      if (directories.includes(directory)) continue;
      watcher.close();
      this.#places.delete(directory);
    }
    for (const directory of directories) {
      if (this.#places.has(directory)) continue;
      const watcher = watch(directory, { persistent: false }, () => {
        this.#quiet?.cancel();
        this.#quiet = this.#clock.after(quietMs, () => void this.#readSoon());
      });
      watcher.on('error', () => {
        watcher.close();
        this.#places.delete(directory);
      });
      this.#places.set(directory, watcher);
    }
  }

  async #apply(file: string, apps: DeclaredApps): Promise<void> {
    const before = this.#files.get(file) ?? null;
    try {
      const { applied, problems } = await this.#effects.apply(file);
      if (applied === null) {
        this.#refused(file, before, problems.map(formatProblem).join('\n'));
        return;
      }
      this.#files.set(file, applied.app);
      this.#troubles.delete(applied.app);
      if (applied.outcome !== 'stored' || apps.deploy !== 'auto') return;
      // The next manifest is not kept waiting.
      this.#effects.deploy(applied.app).catch((error: unknown) => {
        this.#log.error('app-not-deployed', { app: applied.app, err: error });
      });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#refused(file, before, error.message);
    }
  }

  #refused(file: string, app: string | null, trouble: string): void {
    this.#log.error('manifest-refused', { file, problems: trouble });
    this.#files.set(file, app);
    if (app !== null) this.#troubles.set(app, trouble);
  }
}

/** Where manifests can appear: the directory, and those below it. */
async function placesIn(directory: string): Promise<readonly string[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  const below = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'));
  return [directory, ...below.map(({ name }) => join(directory, name))];
}
