// The tables of apps in `state.db`.
// Invariant: called inside a transaction only; a row is whole JSON, its key columns say which one it is.
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import type { AppsChange, AppsRows } from '../apps/state.ts';

export const appTables = `
  CREATE TABLE app_incarnations (id TEXT PRIMARY KEY, stored TEXT NOT NULL) STRICT;
  CREATE TABLE app_revisions (
    incarnation TEXT NOT NULL, number INTEGER NOT NULL, stored TEXT NOT NULL, PRIMARY KEY (incarnation, number)
  ) STRICT;
  CREATE TABLE app_active (
    incarnation TEXT NOT NULL, service TEXT NOT NULL, stored TEXT NOT NULL, PRIMARY KEY (incarnation, service)
  ) STRICT;
  CREATE TABLE app_retiring (instance TEXT PRIMARY KEY, stored TEXT NOT NULL) STRICT;
  CREATE TABLE app_deploys (id TEXT PRIMARY KEY, stored TEXT NOT NULL) STRICT;
`;

export class AppsTables {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  rows(): AppsRows {
    const read = <T>(table: string): T[] =>
      this.#database
        .prepare(`SELECT stored FROM ${table}`)
        .all()
        .map((row) => JSON.parse(String(row['stored'])) as T);
    return {
      incarnations: read('app_incarnations'),
      revisions: read('app_revisions'),
      active: read('app_active'),
      retiring: read('app_retiring'),
      deploys: read('app_deploys'),
    };
  }

  put(change: AppsChange): void {
    for (const each of change.incarnations ?? []) {
      this.#run('INSERT OR REPLACE INTO app_incarnations VALUES (?, ?)', each.id, JSON.stringify(each));
    }
    for (const { incarnation, number } of change.forgottenRevisions ?? []) {
      this.#run('DELETE FROM app_revisions WHERE incarnation = ? AND number = ?', incarnation, number);
    }
    for (const each of change.revisions ?? []) {
      const stored = JSON.stringify(each);
      this.#run('INSERT OR REPLACE INTO app_revisions VALUES (?, ?, ?)', each.incarnation, each.number, stored);
    }
    for (const { incarnation, name } of change.inactive ?? []) {
      this.#run('DELETE FROM app_active WHERE incarnation = ? AND service = ?', incarnation, name);
    }
    for (const each of change.active ?? []) {
      const stored = JSON.stringify(each);
      this.#run('INSERT OR REPLACE INTO app_active VALUES (?, ?, ?)', each.incarnation, each.name, stored);
    }
    for (const instance of change.retired ?? []) this.#run('DELETE FROM app_retiring WHERE instance = ?', instance);
    for (const each of change.retiring ?? []) {
      this.#run('INSERT OR REPLACE INTO app_retiring VALUES (?, ?)', each.instance.id, JSON.stringify(each));
    }
    for (const id of change.forgottenDeploys ?? []) this.#run('DELETE FROM app_deploys WHERE id = ?', id);
    for (const each of change.deploys ?? []) {
      this.#run('INSERT OR REPLACE INTO app_deploys VALUES (?, ?)', each.id, JSON.stringify(each));
    }
  }

  #run(sql: string, ...values: SQLInputValue[]): void {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#database.prepare(sql);
      this.#statements.set(sql, statement);
    }
    statement.run(...values);
  }
}
