// The directory of manifests: which files in it are meant.
// Invariant: names only; nothing is opened, and the order is that of the names.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** `NAME.toml`, and `NAME/manifest.yml`. */
export async function manifestsIn(directory: string): Promise<readonly string[]> {
  const files: string[] = [];
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    if (entry.name.startsWith('.')) continue;
    const path = join(directory, entry.name);
    if (entry.isDirectory()) {
      const inside = await readdir(path);
      files.push(
        ...['manifest.yml', 'manifest.yaml'].filter((name) => inside.includes(name)).map((n) => join(path, n)),
      );
    } else if (entry.name.endsWith('.toml')) files.push(path);
  }
  return files.sort();
}
