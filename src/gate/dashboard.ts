// What the dashboard asks of the supervisor, and what it shows.
// Invariant: plain data; nothing in here opens anything, but a new token, which is told once to whoever made it.

export const dashboardPages = ['apps', 'sessions', 'tokens', 'users', 'operations'] as const;
export type DashboardPage = (typeof dashboardPages)[number];

export interface DashboardAsk {
  /** Hash of the session that asks. */
  readonly session: string;
  readonly page: DashboardPage;
  /** A form that was sent, as it was sent; null: only to be shown. */
  readonly order: Readonly<Record<string, string>> | null;
}

/** Null: the session is nobody's by now. */
export type DashboardAnswer = DashboardView | null;

export interface DashboardView {
  readonly user: string;
  /** May change things; others see their apps and their own sessions. */
  readonly owner: boolean;
  /** Why the order was not carried out. */
  readonly problem: string | null;
  /** A token that the order made. */
  readonly token: string | null;
  readonly apps: readonly AppTile[];
  readonly sessions: readonly SessionLine[];
  readonly tokens: readonly TokenLine[];
  readonly users: readonly UserLine[];
  readonly operations: OperationsView | null;
}

export interface AppTile {
  readonly app: string;
  readonly title: string;
  readonly description: string | null;
  readonly policy: string;
  readonly rationale: string | null;
  /** What was set at run time. */
  readonly override: boolean | null;
  /** A login is asked for; null: the gate does not stand in front of it. */
  readonly login: boolean | null;
  readonly state: 'up' | 'down' | 'held' | 'unknown';
  readonly ways: readonly LaunchWay[];
  readonly faults: readonly string[];
}

export interface LaunchWay {
  readonly label: string;
  /** Whole; null: on the dashboard's own name at `port`. */
  readonly origin: string | null;
  readonly port: number | null;
  readonly path: string;
}

export interface SessionLine {
  readonly id: string;
  readonly user: string;
  readonly address: string;
  readonly host: string;
  readonly lastUsedAt: number;
  readonly createdAt: number;
  /** The one that asks. */
  readonly own: boolean;
}

export interface TokenLine {
  readonly id: string;
  readonly app: string;
  readonly name: string;
  readonly scope: string;
  readonly expiresAt: number | null;
  readonly lastUsedAt: number;
}

export interface UserLine {
  readonly name: string;
  readonly role: 'owner' | 'user';
  readonly apps: readonly string[];
  readonly totp: boolean;
  readonly sessions: number;
}

export interface OperationsView {
  readonly version: string;
  readonly revision: number;
  readonly workers: number;
  readonly totals: readonly (readonly [label: string, value: string])[];
  readonly tables: readonly OperationsTable[];
}

export interface OperationsTable {
  readonly title: string;
  readonly heading: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Said when there is no row. */
  readonly nothing: string;
}
