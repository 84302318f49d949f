// Where the control socket of the process is that the operator means.
// Invariant: works while the configuration file is broken; only `state_dir` is read from it.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parse } from 'smol-toml';

export const socketName = 'turnpike.sock';
export const systemConfigFile = '/etc/turnpike/config.toml';

/** Where to look when nothing is named. */
export interface Surroundings {
  readonly cwd: string;
  readonly systemConfigFile: string;
}

export interface SocketOptions {
  readonly socket?: string | undefined;
  readonly config?: string | undefined;
}

export interface SocketPlace {
  readonly path: string;
  /** The configuration file that led here; null when the socket was named or found directly. */
  readonly configFile: string | null;
}

/**
 * `--socket`, else the file of `--config`, else ./config.toml, else a socket in ./.turnpike, else the system's file.
 * Null when nothing was named and nothing is there.
 */
export function findSocket(options: SocketOptions, { cwd, systemConfigFile }: Surroundings): SocketPlace | null {
  if (options.socket !== undefined) return { path: resolve(cwd, options.socket), configFile: null };
  if (options.config !== undefined) return placeOf(resolve(cwd, options.config));
  const near = join(cwd, 'config.toml');
  if (existsSync(near)) return placeOf(near);
  // The demo runs on config.example.toml, whose state lies in the usual place beside it.
  const left = join(cwd, '.turnpike', socketName);
  if (existsSync(left)) return { path: left, configFile: null };
  return existsSync(systemConfigFile) ? placeOf(systemConfigFile) : null;
}

/** The configuration file that `serve`, `check` and `diff` take: named, near, or the system's; null when there is none. */
export function findConfig(named: string | undefined, { cwd, systemConfigFile }: Surroundings): string | null {
  if (named !== undefined) return resolve(cwd, named);
  const near = join(cwd, 'config.toml');
  if (existsSync(near)) return near;
  return existsSync(systemConfigFile) ? systemConfigFile : null;
}

/** Absolute path of the state directory that a configuration file names; `.turnpike` beside it when it names none. */
export function stateDirOf(configFile: string): string {
  return resolve(dirname(configFile), stateDirIn(readText(configFile)) ?? '.turnpike');
}

function placeOf(configFile: string): SocketPlace {
  return { path: join(stateDirOf(configFile), socketName), configFile };
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function stateDirIn(text: string): string | null {
  let value: unknown;
  try {
    value = parse(text)['state_dir'];
  } catch {
    // Broken further down: a top-level string on a line of its own can still be read.
    const top = text.split(/^\s*\[/m, 1)[0]!;
    const line = /^\s*state_dir\s*=\s*(?:"([^"\\]*)"|'([^']*)')/m.exec(top);
    value = line?.[1] ?? line?.[2];
  }
  return typeof value === 'string' ? value : null;
}
