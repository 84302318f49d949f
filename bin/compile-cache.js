// Where compiled code is kept between starts. Plain JavaScript: who loads it first need not load what reads TypeScript, which
// costs every process 40 ms and 15 MB.
// Invariant: only what nobody else can write is read from: whoever can put a file there decides what runs here. The default
// of Node.js, a directory below /tmp, can be made by any user of the machine before we come.
import { lstatSync, mkdirSync } from 'node:fs';
import { enableCompileCache, getCompileCacheDir } from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * Uses `NODE_COMPILE_CACHE` when the operator set it, else systemd's `CACHE_DIRECTORY`, else the user's cache directory
 * (XDG Base Directory Specification). Does without when there is no place of our own.
 */
export function keepCompiledCode(env = process.env) {
  if (getCompileCacheDir() !== undefined) return;
  const directory = placeFor(env);
  if (directory !== null && isOurs(directory)) enableCompileCache(directory);
}

function placeFor(env) {
  const byService = env.CACHE_DIRECTORY?.split(':', 1)[0];
  if (byService) return join(byService, 'compiled');
  const ofUser = env.XDG_CACHE_HOME || join(homedir(), '.cache');
  return ofUser.startsWith('/') ? join(ofUser, 'turnpike', 'compiled') : null;
}

/** Made, or found, as a directory of this user that no other one may write to. */
export function isOurs(directory) {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const { uid, mode } = lstatSync(directory);
    return uid === process.getuid?.() && (mode & 0o170022) === 0o040000;
  } catch {
    return false;
  }
}
