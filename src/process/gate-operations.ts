// What an operator may do with users, tokens, sessions and access control.
// Invariant: what cannot be done is a `gate-refused` Fault and has changed nothing; every change is in force at every worker
// when it resolves; no answer holds a hash, and a token or secret is told once, to whoever made it.
import { hashOf } from '../gate/credentials.ts';

export interface GateOperations {
  status(): Promise<GateStatus>;
  users(): Promise<readonly UserRowStatus[]>;
  addUser(user: NewUser): Promise<UserRowStatus>;
  /** Ends their sessions, too. */
  removeUser(name: string): Promise<void>;
  /** Ends every session of theirs. */
  setPassword(name: string, password: string): Promise<void>;
  setRights(name: string, role: 'owner' | 'user', apps: readonly string[]): Promise<UserRowStatus>;
  /** From the next login on a code is asked for. */
  addTotp(name: string): Promise<TotpSecret>;
  removeTotp(name: string): Promise<void>;
  tokens(): Promise<readonly TokenStatus[]>;
  createToken(token: NewToken): Promise<CreatedToken>;
  /** By id, or by a name that only one has. */
  revokeToken(token: string): Promise<TokenStatus>;
  sessions(): Promise<readonly SessionStatus[]>;
  /** By id, or every one of a user. */
  revokeSessions(which: { readonly id: string } | { readonly user: string }): Promise<{ readonly ended: number }>;
  /** Null: what is declared counts again. */
  setAppGate(app: string, enabled: boolean | null): Promise<AppGateStatus>;
}

export interface GateStatus {
  /** Where people log in for every name; null: on each name by itself. */
  readonly host: string | null;
  readonly users: number;
  readonly sessions: number;
  readonly tokens: number;
  readonly apps: readonly AppGateStatus[];
  /** Ports of installed apps. */
  readonly ports: readonly GatePortStatus[];
}

export interface GatePortStatus {
  readonly app: string;
  readonly port: number;
  readonly protocol: 'tcp' | 'udp';
  readonly policy: AppGateStatus['policy'];
  readonly rationale: string | null;
  /** Where the gate listens for it; "*" is every address. */
  readonly addresses: readonly string[];
  /** What keeps the gate from listening, or exposes what should be local. */
  readonly faults: readonly string[];
  /** Address of its onion service; null: it has none. */
  readonly onion: string | null;
  readonly origin: string;
}

export interface AppGateStatus {
  readonly app: string;
  readonly policy: 'session' | 'gated' | 'open' | 'none' | 'local' | 'absent';
  /** Why it needs no login, in the operator's words. */
  readonly rationale: string | null;
  readonly override: boolean | null;
  /** A login is asked for right now; null: the gate does not stand in front of it. */
  readonly login: boolean | null;
  readonly openPaths: readonly string[];
  readonly upgradeOpenPaths: readonly string[];
  /** Hosts and paths that lead there. */
  readonly routes: readonly string[];
  readonly origin: string;
  /** Why the file of the override could not be read: then a login is asked for. */
  readonly problem: string | null;
}

export interface NewUser {
  readonly name: string;
  readonly role: 'owner' | 'user';
  readonly apps: readonly string[];
  readonly password: string;
}

export interface UserRowStatus {
  readonly name: string;
  readonly role: 'owner' | 'user';
  readonly apps: readonly string[];
  readonly totp: boolean;
  readonly createdAt: number;
  readonly sessions: number;
}

export interface TotpSecret {
  readonly secret: string;
  readonly uri: string;
}

export interface NewToken {
  readonly app: string;
  readonly name: string;
  /** Null: never. */
  readonly expiresAt: number | null;
  readonly paths: readonly string[];
  readonly methods: readonly string[];
  readonly cidrs: readonly string[];
}

export interface TokenStatus extends NewToken {
  readonly id: string;
  readonly createdAt: number;
  /** 0: never. */
  readonly lastUsedAt: number;
}

export interface CreatedToken extends TokenStatus {
  /** Shown this once. */
  readonly token: string;
}

export interface SessionStatus {
  readonly id: string;
  readonly user: string;
  readonly host: string;
  readonly secure: boolean;
  readonly createdAt: number;
  readonly lastUsedAt: number;
  readonly address: string;
}

/** What a session or token is called in lists and commands: nothing that opens anything. */
export function publicId(hash: string): string {
  return hashOf(`id ${hash}`).slice(0, 12);
}
