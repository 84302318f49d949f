// The version of this program.
// Invariant: the same as in package.json, because it is read from there.
import manifest from '../../package.json' with { type: 'json' };

export const version: string = manifest.version;
