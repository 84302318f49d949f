// Users, sessions and tokens as the supervisor keeps them: on disk, in memory, and at every worker.
// Invariant: a change is on disk before it is in memory, and in force at every serving worker before `change` resolves; a
// worker that does not answer in time to a change that takes something away is ended.
import type { CredentialsDelta, RowsDelta } from '../gate/credentials.ts';
import type { GateChange, GateStore, StoredSession, StoredToken, StoredUser } from './gate-store.ts';

/** Gives every worker the delta; resolves when it is in force. `urgent`: a worker that stays silent must not serve on. */
export type Spread = (delta: CredentialsDelta, urgent: boolean) => Promise<void>;

export class GateLedger {
  readonly users: Map<string, StoredUser>;
  readonly sessions: Map<string, StoredSession>;
  readonly tokens: Map<string, StoredToken>;
  readonly #store: GateStore;
  readonly #spread: Spread;
  /** Told of each change once it is in memory. Uses are none. */
  changed: () => void = () => {};

  constructor(store: GateStore, spread: Spread) {
    this.#store = store;
    this.#spread = spread;
    this.users = new Map(store.users().map((row) => [row.name, row]));
    this.sessions = new Map(store.sessions().map((row) => [row.hash, row]));
    this.tokens = new Map(store.tokens().map((row) => [row.hash, row]));
  }

  /** What a worker that has nothing yet is given. */
  whole(): CredentialsDelta {
    const all = <R>(rows: Map<string, R>): RowsDelta<R> => ({ put: [...rows.values()], gone: [] });
    return deltaOf({ users: all(this.users), sessions: all(this.sessions), tokens: all(this.tokens) }, true);
  }

  change(change: GateChange): Promise<void> {
    this.#store.write(change);
    apply(this.users, change.users, ({ name }) => name);
    apply(this.sessions, change.sessions, ({ hash }) => hash);
    apply(this.tokens, change.tokens, ({ hash }) => hash);
    this.changed();
    const { users, sessions, tokens } = change;
    // A user that is put may be a narrowed one.
    const takes = [users, sessions, tokens].some((each) => (each?.gone?.length ?? 0) > 0) || users?.put !== undefined;
    return this.#spread(deltaOf(change, false), takes);
  }

  /** Sessions and tokens were used. Workers do not ask for the last use of a token, nor does a stream end for one. */
  saveUses(sessions: readonly StoredSession[], tokens: readonly StoredToken[]): Promise<void> {
    this.#store.write({ sessions: { put: sessions }, tokens: { put: tokens } });
    for (const row of sessions) this.sessions.set(row.hash, row);
    for (const row of tokens) this.tokens.set(row.hash, row);
    return this.#spread(deltaOf({ sessions: { put: sessions } }, false), false);
  }

  /** The sessions for which this is so. */
  sessionsWhere(which: (session: StoredSession) => boolean): readonly string[] {
    return [...this.sessions.values()].filter(which).map(({ hash }) => hash);
  }
}

function apply<R>(
  rows: Map<string, R>,
  change: { readonly put?: readonly R[]; readonly gone?: readonly string[] } | undefined,
  keyOf: (row: R) => string,
): void {
  for (const key of change?.gone ?? []) rows.delete(key);
  for (const row of change?.put ?? []) rows.set(keyOf(row), row);
}

/** What workers need to know, and nothing else: no password, no secret. */
function deltaOf({ users, sessions, tokens }: GateChange, whole: boolean): CredentialsDelta {
  return {
    whole,
    users: {
      put: (users?.put ?? []).map(({ name, role, apps }) => ({ name, role, apps })),
      gone: users?.gone ?? [],
    },
    sessions: {
      put: (sessions?.put ?? []).map(({ hash, user, createdAt, lastUsedAt, secure, host, address }) => ({
        hash,
        user,
        createdAt,
        lastUsedAt,
        secure,
        host,
        address,
      })),
      gone: sessions?.gone ?? [],
    },
    tokens: {
      put: (tokens?.put ?? []).map(({ hash, name, app, expiresAt, paths, methods, cidrs }) => ({
        hash,
        name,
        app,
        expiresAt,
        paths,
        methods,
        cidrs,
      })),
      gone: tokens?.gone ?? [],
    },
  };
}
