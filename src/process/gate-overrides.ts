// What the operator set at run time for single apps: `app-configs/<id>.json`, key `gateEnabled`.
// Invariant: a file that cannot be understood asks for a login; keys that are not ours stay as they are; a file is the old
// or the new one, never a half.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomically } from '../base/atomic-file.ts';
import { Fault } from '../base/fault.ts';

export interface Override {
  /** Null: nothing is set. */
  readonly enabled: boolean | null;
  /** Why the file counts as "asks for a login"; null: it was understood. */
  readonly problem: string | null;
}

const unset: Override = { enabled: null, problem: null };

export class GateOverrides {
  readonly #directory: string;

  constructor(stateDir: string) {
    this.#directory = join(stateDir, 'app-configs');
  }

  /** Apps are called like hosts, too: nothing in a name may lead out of the directory. */
  fileOf(app: string): string {
    return join(this.#directory, `${encodeURIComponent(app)}.json`);
  }

  /** Every app for which there is a file. Throws when that cannot be known. */
  readAll(): ReadonlyMap<string, Override> {
    const overrides = new Map<string, Override>();
    for (const name of this.#names()) {
      const app = appOf(name);
      if (app !== null) overrides.set(app, this.read(app));
    }
    return overrides;
  }

  /** Files that are there. */
  files(): readonly string[] {
    return this.#names().map((name) => join(this.#directory, name));
  }

  #names(): readonly string[] {
    try {
      return readdirSync(this.#directory).filter((name) => name.endsWith('.json'));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw new Fault('state-unusable', `${this.#directory}: ${(error as Error).message}`, { cause: error });
    }
  }

  read(app: string): Override {
    const broken = (problem: string): Override => ({ enabled: true, problem });
    let text: string;
    try {
      text = readFileSync(this.fileOf(app), 'utf8');
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      return code === 'ENOENT' ? unset : broken(message);
    }
    const document = parse(text);
    if (document === null) return broken('not a JSON object');
    const enabled = document['gateEnabled'];
    if (enabled === undefined) return unset;
    return typeof enabled === 'boolean'
      ? { enabled, problem: null }
      : broken(`gateEnabled is ${JSON.stringify(enabled)}; true or false is accepted`);
  }

  /** Null takes the key out. */
  async set(app: string, enabled: boolean | null): Promise<void> {
    const file = this.fileOf(app);
    const document = this.#document(file);
    if (enabled === null) delete document['gateEnabled'];
    else document['gateEnabled'] = enabled;
    if (Object.keys(document).length === 0) {
      await rm(file, { force: true });
      return;
    }
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    await writeFileAtomically(file, `${JSON.stringify(document, null, 2)}\n`, 0o600);
  }

  #document(file: string): Record<string, unknown> {
    let text: string;
    try {
      text = readFileSync(file, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
      throw new Fault('gate-refused', `${file}: ${(error as Error).message}`);
    }
    const document = parse(text);
    // Others keep things in there: overwriting what we cannot read would lose them.
    if (document === null) throw new Fault('gate-refused', `${file} is not a JSON object: mend it or remove it`);
    return document;
  }
}

function appOf(name: string): string | null {
  try {
    return decodeURIComponent(name.slice(0, -'.json'.length));
  } catch {
    return null;
  }
}

function parse(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}
