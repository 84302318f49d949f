// The gate's tables in `state.db`: users, sessions, tokens.
// Invariant: passwords are argon2id hashes, ids and tokens SHA-256 hashes: who reads the file opens nothing with it. (TOTP
// secrets cannot be hashed: the file is its owner's alone.)
import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import { Fault } from '../base/fault.ts';
import type { SessionRow, TokenRow, UserRow } from '../gate/credentials.ts';
import type { StoredPassword } from './gate-passwords.ts';

export const gateSchema = `
  CREATE TABLE gate_users (name TEXT PRIMARY KEY, stored TEXT NOT NULL) STRICT;
  CREATE TABLE gate_sessions (name TEXT PRIMARY KEY, stored TEXT NOT NULL) STRICT;
  CREATE TABLE gate_tokens (name TEXT PRIMARY KEY, stored TEXT NOT NULL) STRICT;
`;

export interface StoredUser extends UserRow {
  /** Null: the issuer alone logs them in. */
  readonly password: StoredPassword | null;
  /** Whom the issuer knows them as; missing or null: nobody. */
  readonly sso?: { readonly issuer: string; readonly subject: string } | null;
  /** Base32; null: the password alone logs in. `lastStep`: no code of this or an earlier one is taken again. */
  readonly totp: { readonly secret: string; readonly lastStep: number } | null;
  readonly createdAt: number;
}

export interface StoredSession extends SessionRow {
  /** Sessions of other names that came from the same login. They end together. */
  readonly login: string;
}

export interface StoredToken extends TokenRow {
  readonly createdAt: number;
  /** 0: never. */
  readonly lastUsedAt: number;
}

interface Rows {
  readonly users: StoredUser;
  readonly sessions: StoredSession;
  readonly tokens: StoredToken;
}

/** What one change writes and deletes, by key: a user's name, else a hash. */
export type GateChange = {
  readonly [T in keyof Rows]?: { readonly put?: readonly Rows[T][]; readonly gone?: readonly string[] };
};

export class GateStore {
  readonly #database: DatabaseSync;

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  users(): readonly StoredUser[] {
    return this.#all<StoredUser>('gate_users');
  }

  sessions(): readonly StoredSession[] {
    return this.#all<StoredSession>('gate_sessions');
  }

  tokens(): readonly StoredToken[] {
    return this.#all<StoredToken>('gate_tokens');
  }

  /** On disk when it returns. Throws `state-unusable` and has written nothing. */
  write({ users, sessions, tokens }: GateChange): void {
    try {
      this.#database.exec('BEGIN IMMEDIATE');
      this.#change('gate_users', users?.put ?? [], users?.gone ?? [], ({ name }) => name);
      this.#change('gate_sessions', sessions?.put ?? [], sessions?.gone ?? [], ({ hash }) => hash);
      this.#change('gate_tokens', tokens?.put ?? [], tokens?.gone ?? [], ({ hash }) => hash);
      this.#database.exec('COMMIT');
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw new Fault('state-unusable', `state.db was not written: ${(error as Error).message}`, { cause: error });
    }
  }

  #change<R>(table: string, put: readonly R[], gone: readonly string[], keyOf: (row: R) => string): void {
    const run = (sql: string, ...values: SQLInputValue[]): unknown => this.#database.prepare(sql).run(...values);
    for (const name of gone) run(`DELETE FROM ${table} WHERE name = ?`, name);
    for (const row of put) run(`INSERT OR REPLACE INTO ${table} VALUES (?, ?)`, keyOf(row), JSON.stringify(row));
  }

  #all<R>(table: string): readonly R[] {
    const rows = this.#database.prepare(`SELECT stored FROM ${table}`).all();
    return rows.map((row) => JSON.parse(String(row['stored'])) as R);
  }
}
