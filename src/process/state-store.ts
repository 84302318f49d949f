// What must survive a kill at any instant, in `state.db`: the revision, what each service serves, the shared keys, and the
// tables of domains of their own.
// Invariant: one writer per state directory; a write is one transaction on disk before it returns, or nothing.
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { AppsChange } from '../apps/state.ts';
import { Fault } from '../base/fault.ts';
import type { KeysPart } from '../model/snapshot.ts';
import { AppsTables, appTables } from './apps-store.ts';
import { gateSchema } from './gate-store.ts';
import type { StoredService } from './service-state.ts';

const schema = `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
  CREATE TABLE services (name TEXT PRIMARY KEY, stored TEXT NOT NULL) STRICT;
`;

/** Each takes the file one schema version further. New ones are appended; none is ever changed. */
const migrations: readonly string[] = [schema, gateSchema, appTables];
const schemaVersion = migrations.length;

/** What one publication changes. */
export interface StateChange {
  readonly revision: number;
  /** Rows to write; services that are not named keep theirs, so that their numbers are never used again. */
  readonly services: readonly StoredService[];
  readonly keys: KeysPart;
  /** What it means for apps. */
  readonly apps?: AppsChange;
}

export class StateStore {
  readonly apps: AppsTables;
  readonly #database: DatabaseSync;

  /** Opens (or makes) `state.db` and keeps it locked until `close`. Throws `state-unusable`. */
  static open(directory: string): StateStore {
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw unusable(directory, error);
    }
    let database: DatabaseSync | null = null;
    try {
      const path = join(directory, 'state.db');
      // It holds keys: for its owner only, also in a directory that was there before. The journal takes the mode over.
      closeSync(openSync(path, 'a', 0o600));
      database = new DatabaseSync(path);
      // The lock of the journal doubles as the lock against a second supervisor: the kernel drops it with the process.
      database.exec(`
        PRAGMA locking_mode = EXCLUSIVE;
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = FULL;
        BEGIN EXCLUSIVE;
        COMMIT;
      `);
      const version = Number(database.prepare('PRAGMA user_version').get()?.['user_version']);
      if (version > schemaVersion) {
        throw new Fault(
          'state-unusable',
          `${directory}/state.db has schema ${version}, this program knows ${schemaVersion}: it was written by a newer version`,
        );
      }
      if (version < schemaVersion) {
        const missing = migrations.slice(version).join('');
        database.exec(`BEGIN; ${missing} PRAGMA user_version = ${schemaVersion}; COMMIT;`);
      }
      writeFileSync(join(directory, 'turnpike.pid'), `${process.pid}\n`, { mode: 0o600 });
      return new StateStore(database);
    } catch (error) {
      database?.close();
      throw error instanceof Fault ? error : unusable(directory, error);
    }
  }

  private constructor(database: DatabaseSync) {
    this.#database = database;
    this.apps = new AppsTables(database);
  }

  get revision(): number {
    return Number(this.#meta('revision') ?? 0);
  }

  /** Null before the first write. */
  get keys(): KeysPart | null {
    const text = this.#meta('keys');
    return text === null ? null : (JSON.parse(text) as KeysPart);
  }

  services(): ReadonlyMap<string, StoredService> {
    const rows = this.#database.prepare('SELECT stored FROM services').all();
    const services = rows.map((row) => JSON.parse(String(row['stored'])) as StoredService);
    return new Map(services.map((service) => [service.name, service]));
  }

  /** The decision point of a publication: on disk when it returns. Throws `state-unusable` and has written nothing. */
  write(change: StateChange): void {
    this.transaction(() => {
      const meta = this.#database.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)');
      meta.run('revision', String(change.revision));
      meta.run('keys', JSON.stringify(change.keys));
      const service = this.#database.prepare('INSERT OR REPLACE INTO services VALUES (?, ?)');
      for (const stored of change.services) service.run(stored.name, JSON.stringify(stored));
      if (change.apps !== undefined) this.apps.put(change.apps);
    });
  }

  /** All of it is on disk when it returns. Throws `state-unusable` and has written nothing. */
  transaction(write: () => void): void {
    try {
      this.#database.exec('BEGIN IMMEDIATE');
      write();
      this.#database.exec('COMMIT');
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw new Fault('state-unusable', `state.db was not written: ${messageOf(error)}`, { cause: error });
    }
  }

  /** For a domain that has tables of its own here. */
  tables<T>(open: (database: DatabaseSync) => T): T {
    return open(this.#database);
  }

  close(): void {
    this.#database.close();
  }

  #meta(name: string): string | null {
    const row = this.#database.prepare('SELECT value FROM meta WHERE name = ?').get(name);
    return row === undefined ? null : String(row['value']);
  }
}

function unusable(directory: string, error: unknown): Fault {
  const message = messageOf(error);
  if (message.includes('locked')) {
    return new Fault('state-unusable', `${directory} is in use by another running turnpike${holderOf(directory)}`, {
      cause: error,
    });
  }
  return new Fault('state-unusable', `${directory}: ${message}`, { cause: error });
}

function holderOf(directory: string): string {
  try {
    return ` (process ${readFileSync(join(directory, 'turnpike.pid'), 'utf8').trim()})`;
  } catch {
    return '';
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
