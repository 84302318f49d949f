// What resolving one part of the file needs to know of the rest: places, paths of files, what was read from them.
// Invariant: an origin names file, line and key path of the entry, the same way everywhere.
import { basename, dirname, resolve } from 'node:path';
import type { RouteGate, Settings } from '../model/snapshot.ts';
import type { FileContents } from './files.ts';
import type { ProblemPlace } from './problem.ts';
import { type Document, formatPath, type Path } from './syntax.ts';

export interface Surroundings {
  readonly document: Document;
  /** The configuration file, absolute. */
  readonly file: string;
  readonly contents: FileContents;
  readonly settings: Settings;
  /** Entrypoints that take requests for hosts. */
  readonly httpEntrypoints: readonly string[];
  /** By canonical host. */
  readonly gates: ReadonlyMap<string, RouteGate>;
}

/** `config.toml:12 external_routes."app.test"` */
export function originOf(surroundings: Surroundings, path: Path): string {
  const { line } = surroundings.document.locate(path).key;
  return `${basename(surroundings.file)}:${line} ${formatPath(path)}`;
}

export function placeOf(surroundings: Surroundings, path: Path): ProblemPlace {
  const { line, column } = surroundings.document.locate(path).key;
  return { file: surroundings.document.file, line, column, key: formatPath(path) };
}

/** Relative paths are relative to the configuration file, wherever the program was started. */
export function fileAt(surroundings: Surroundings, file: string): string {
  return resolve(dirname(surroundings.file), file);
}

export function optionalFileAt(surroundings: Surroundings, file: string | null): string | null {
  return file === null ? null : fileAt(surroundings, file);
}

/** What a file held; '' for none. */
export function contentOf(surroundings: Surroundings, file: string | null | undefined): string {
  return file == null ? '' : (surroundings.contents.get(fileAt(surroundings, file)) ?? '');
}
