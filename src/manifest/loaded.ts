// What reading a manifest gives.
// Invariant: an app is whole and sound, or there is none; warnings never decide.
import type { Problem } from '../config/problem.ts';
import type { App } from './app.ts';
import type { Origins } from './origins.ts';

export type Loaded =
  | {
      readonly ok: true;
      readonly app: App;
      readonly origins: Origins;
      readonly warnings: readonly Problem[];
    }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] };

/** A file that is refused as a whole. Line 0: no place in it is meant. */
export function refused(file: string, line: number, column: number, message: string, accepted: string): Loaded {
  return { ok: false, problems: [{ file, line, column, key: '', message, accepted }], warnings: [] };
}
