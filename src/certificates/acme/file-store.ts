// The store as a directory: `certificates/NAME/VERSION/` with privkey.pem, fullchain.pem and meta.json, documents beside it.
// Invariant: a version appears by one rename of a directory whose files are on disk already; readers take the highest version
// that is good, so no half-written or outdated one is ever served. `current` is a link for people and other programs.
import { randomBytes } from 'node:crypto';
import type { Dirent } from 'node:fs';
import {
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { syncDirectory, writeFileAtomically } from '../../base/atomic-file.ts';
import { issuerOf, readPair } from './pair.ts';
import {
  type AcmeStore,
  isNewer,
  isSame,
  type NewCertificate,
  type StoredCertificate,
  type StoredEntry,
  type Version,
} from './store.ts';

const files = { key: 'privkey.pem', chain: 'fullchain.pem', meta: 'meta.json' } as const;
const currentLink = 'current';
const stampDocument = 'stamp';
/** The one that is served and the one before it. */
const keptVersions = 2;
const temporaryPrefix = '.new-';
/** No write takes so long. */
const writingMs = 60_000;

export class FileStore implements AcmeStore {
  readonly directory: string;
  readonly #certificates: string;

  constructor(directory: string) {
    this.directory = directory;
    this.#certificates = join(directory, 'certificates');
  }

  /** Makes the directories, and clears away what crashes left. Throws when nothing can be written there. */
  async open(): Promise<void> {
    await mkdir(this.#certificates, { recursive: true, mode: 0o700 });
    for (const path of await this.#everything(this.directory)) {
      const name = basename(path);
      if (!name.startsWith(temporaryPrefix) && !name.endsWith('.tmp')) continue;
      // Another process that shares the directory may be writing this very moment.
      const { mtimeMs } = await lstat(path).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
      if (Date.now() - mtimeMs > writingMs) await rm(path, { recursive: true, force: true });
    }
  }

  /** What others could read, each as a sentence that says how to mend it. */
  async exposed(): Promise<readonly string[]> {
    const found: string[] = [];
    for (const path of await this.#everything(this.directory)) {
      const stats = await lstat(path);
      if (stats.isSymbolicLink() || (stats.mode & 0o077) === 0) continue;
      const mode = (stats.mode & 0o777).toString(8).padStart(4, '0');
      found.push(`${path} may be read by others (mode ${mode}): chmod go= ${path}`);
    }
    return found;
  }

  async certificates(known: (id: string) => Version | null): Promise<readonly StoredEntry[]> {
    const names = (await entriesOf(this.#certificates)).filter((each) => each.isDirectory()).map(({ name }) => name);
    return await Promise.all(names.toSorted().map((id) => this.#entry(id, known(id))));
  }

  async stamp(): Promise<string> {
    return (await this.read(stampDocument)) ?? '';
  }

  async put(id: string, term: number, content: NewCertificate): Promise<StoredCertificate> {
    const directory = join(this.#certificates, id);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const versions = await versionsIn(directory);
    const serial = Math.max(0, ...versions.filter((each) => each.term === term).map((each) => each.serial)) + 1;
    const version: Version = { term, serial };
    const temporary = join(directory, `${temporaryPrefix}${randomBytes(6).toString('hex')}`);
    const { chain, key, issuer, directory: authority } = content;
    try {
      await mkdir(temporary, { mode: 0o700 });
      await writeDurably(join(temporary, files.key), key);
      await writeDurably(join(temporary, files.chain), chain);
      await writeDurably(join(temporary, files.meta), `${JSON.stringify({ issuer, directory: authority })}\n`);
      await syncDirectory(temporary);
      await rename(temporary, join(directory, versionName(version)));
      await syncDirectory(directory);
    } catch (error) {
      await rm(temporary, { recursive: true, force: true }).catch(() => {});
      throw error;
    }
    await syncDirectory(this.#certificates);
    // From here on the new version counts; what follows is for people and other processes.
    await this.#tidy(directory);
    await this.write(stampDocument, randomBytes(8).toString('hex'));
    return { version, certificate: readPair(chain, key, id), issuer, directory: authority };
  }

  async remove(id: string): Promise<void> {
    const directory = join(this.#certificates, id);
    const doomed = join(this.#certificates, `${temporaryPrefix}${randomBytes(6).toString('hex')}`);
    // At once for every reader, however long the rest takes.
    await rename(directory, doomed).catch(absent);
    await rm(doomed, { recursive: true, force: true });
    await this.write(stampDocument, randomBytes(8).toString('hex'));
  }

  async read(name: string): Promise<string | null> {
    try {
      return await readFile(this.#document(name), 'utf8');
    } catch (error) {
      return absent(error);
    }
  }

  async write(name: string, text: string): Promise<void> {
    const path = this.#document(name);
    if (name.includes('/')) await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFileAtomically(path, text, 0o600);
  }

  async create(name: string, text: string): Promise<boolean> {
    const path = this.#document(name);
    const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
    await writeFile(temporary, text, { mode: 0o600, flag: 'wx' });
    try {
      // A link fails when there is something, also on network file systems where an exclusive open may lie.
      await link(temporary, path);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    } finally {
      await rm(temporary, { force: true });
    }
  }

  async erase(name: string): Promise<void> {
    await rm(this.#document(name), { recursive: true, force: true });
  }

  async list(prefix: string): Promise<readonly string[]> {
    const slash = prefix.lastIndexOf('/') + 1;
    const names = (await entriesOf(join(this.directory, prefix.slice(0, slash)))).map(({ name }) => name);
    return names
      .filter((name) => name.startsWith(prefix.slice(slash)) && !name.endsWith('.tmp'))
      .map((name) => prefix.slice(0, slash) + name)
      .toSorted();
  }

  #document(name: string): string {
    return join(this.directory, name);
  }

  async #entry(id: string, known: Version | null): Promise<StoredEntry> {
    const directory = join(this.#certificates, id);
    const problems: string[] = [];
    for (const version of await versionsIn(directory)) {
      const path = join(directory, versionName(version));
      if (isSame(version, known)) return { id, current: 'known', problems };
      try {
        return { id, current: { version, ...(await readVersion(path, id)) }, problems };
      } catch (error) {
        problems.push(`${path}: ${(error as Error).message}`);
      }
    }
    return { id, current: null, problems };
  }

  /** Points `current` to the newest version and removes those that nobody goes back to. */
  async #tidy(directory: string): Promise<void> {
    const [newest, ...older] = await versionsIn(directory);
    if (newest === undefined) return;
    const target = versionName(newest);
    const path = join(directory, currentLink);
    if ((await readlink(path).catch(() => null)) !== target) {
      const temporary = join(directory, `${temporaryPrefix}${randomBytes(6).toString('hex')}`);
      await symlink(target, temporary);
      await rename(temporary, path);
    }
    for (const each of older.slice(keptVersions - 1)) {
      await rm(join(directory, versionName(each)), { recursive: true, force: true });
    }
  }

  async #everything(path: string): Promise<string[]> {
    const below = (await entriesOf(path)).filter(
      (each) => !each.isSymbolicLink() || each.name.startsWith(temporaryPrefix),
    );
    const deeper = below.map((each) => {
      const child = join(path, each.name);
      return each.isDirectory() ? this.#everything(child) : Promise.resolve([child]);
    });
    return [path, ...(await Promise.all(deeper)).flat()];
  }
}

/** Throws a sentence. */
async function readVersion(path: string, id: string): Promise<Omit<StoredCertificate, 'version'>> {
  const [chain, key, meta] = await Promise.all(
    [files.chain, files.key, files.meta].map((name) => readFile(join(path, name), 'utf8').catch(absent)),
  );
  if (chain === null || chain === undefined) throw new Error(`${files.chain} is missing`);
  if (key === null || key === undefined) throw new Error(`${files.key} is missing`);
  const certificate = readPair(chain, key, id);
  const { issuer, directory } = readMeta(meta ?? '');
  return { certificate, issuer: issuer ?? issuerOf(chain), directory };
}

/** The pair is what matters: whatever is wrong with the metadata, the certificate is served. */
function readMeta(text: string): { readonly issuer: string | null; readonly directory: string | null } {
  try {
    const meta = JSON.parse(text) as { readonly issuer?: unknown; readonly directory?: unknown };
    const string = (value: unknown): string | null => (typeof value === 'string' ? value : null);
    return { issuer: string(meta.issuer), directory: string(meta.directory) };
  } catch {
    return { issuer: null, directory: null };
  }
}

/** Newest first. */
async function versionsIn(directory: string): Promise<readonly Version[]> {
  const versions: Version[] = [];
  for (const each of await entriesOf(directory)) {
    const match = /^v(\d+)\.(\d+)$/.exec(each.name);
    if (match !== null && each.isDirectory()) versions.push({ term: Number(match[1]), serial: Number(match[2]) });
  }
  return versions.sort((a, b) => (isNewer(a, b) ? -1 : 1));
}

const versionName = ({ term, serial }: Version): string => `v${term}.${serial}`;

/** Empty for what is not there, or is no directory. */
async function entriesOf(path: string): Promise<readonly Dirent[]> {
  try {
    return await readdir(path, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return [];
    return absent(error) ?? [];
  }
}

async function writeDurably(path: string, content: string): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

function absent(error: unknown): null {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
  throw error;
}
