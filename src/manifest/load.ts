// A manifest file → an App, or everything that is wrong with it.
// Invariant: nothing larger than the cap is ever read, whatever lies at the path, and nothing is thrown for what a file holds.
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { Loaded } from './loaded.ts';
import { refused } from './loaded.ts';
import type { OperatorFacts } from './operator-facts.ts';
import { readTomlManifest } from './toml.ts';
import { readYamlManifest } from './yaml.ts';

export const largestManifest = 1024 * 1024;

/**
 * @param path  as the operator named it; problems repeat it
 * @param facts  null: there is no configuration to check against
 */
export async function loadManifest(path: string, facts: OperatorFacts | null): Promise<Loaded> {
  if (formatOf(path) === null) return refusedFormat(path);
  let bytes: Uint8Array | null;
  try {
    bytes = await readBounded(path);
  } catch (error) {
    return refused(path, 0, 0, reasonOf(error), 'the path of a manifest');
  }
  return bytes === null ? refusedSize(path) : readManifest(bytes, path, facts);
}

/** The content of a manifest. Its format is that of the name of the file. */
export function readManifest(bytes: Uint8Array, file: string, facts: OperatorFacts | null): Loaded {
  const format = formatOf(file);
  if (format === null) return refusedFormat(file);
  if (bytes.length > largestManifest) return refusedSize(file);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return refused(file, 0, 0, 'is not UTF-8', 'a text file in UTF-8');
  }
  if (text.startsWith('\ufeff')) return refused(file, 1, 1, 'begins with a byte order mark', 'UTF-8 without it');
  return format === 'toml' ? readTomlManifest(text, file, facts) : readYamlManifest(text, file, facts);
}

function formatOf(file: string): 'toml' | 'yaml' | null {
  if (file.endsWith('.toml')) return 'toml';
  return /\.ya?ml$/.test(file) ? 'yaml' : null;
}

/** Null when it is too large. A pipe or a device would be waited for, or never end. */
async function readBounded(path: string): Promise<Uint8Array | null> {
  // O_NONBLOCK: opening a pipe that nobody writes to returns at once.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const found = await handle.stat();
    if (!found.isFile()) throw new Error(found.isDirectory() ? 'is a directory' : 'is not a file');
    if (found.size > largestManifest) return null;
    const buffer = Buffer.allocUnsafe(found.size + 1);
    let length = 0;
    for (let more = 1; more > 0 && length < buffer.length; length += more) {
      more = (await handle.read(buffer, length, buffer.length - length)).bytesRead;
    }
    if (length > found.size) throw new Error('grew while it was read');
    return buffer.subarray(0, length);
  } finally {
    await handle.close();
  }
}

function refusedSize(file: string): Loaded {
  return refused(file, 0, 0, 'is larger than 1 MiB', 'a manifest of at most 1 MiB');
}

function refusedFormat(file: string): Loaded {
  return refused(file, 0, 0, 'has no format that its name tells', 'a name that ends with .toml, .yml or .yaml');
}

function reasonOf(error: unknown): string {
  const { code, message } = error as { readonly code?: string; readonly message: string };
  if (code === 'ENOENT') return 'there is no such file';
  if (code === 'EACCES') return 'may not be read';
  return message;
}
