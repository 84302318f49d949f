// What a worker's gate asks of the supervisor, which alone knows passwords and makes sessions, and what it reports.
// Invariant: plain data on both ways; a password goes up and is never kept, a session id comes down once, to be set.

import type { SessionRow } from './credentials.ts';
import type { DashboardAnswer, DashboardAsk } from './dashboard.ts';

/** Where a login comes from. */
export interface Caller {
  /** The client's address. */
  readonly address: string;
  /** Canonical host under which the cookie will be set. */
  readonly host: string;
  readonly secure: boolean;
  /** Hashes of the session ids that the browser brought: they end with the login. */
  readonly replaces: readonly string[];
}

export interface DeskQuestions {
  login: {
    ask: { readonly user: string; readonly password: string; readonly code: string; readonly caller: Caller };
    answer: LoginAnswer;
  };
  /** The first user. */
  setup: {
    ask: { readonly secret: string; readonly user: string; readonly password: string; readonly caller: Caller };
    answer: LoginAnswer;
  };
  /** A login by the issuer. Null: it cannot be asked. */
  ssoBegin: {
    ask: {
      readonly address: string;
      /** Hash of the browser's mark. */
      readonly visit: string;
      readonly redirectUri: string;
      readonly returnTo: string;
      /** Of the name that sent the browser here. */
      readonly awayVisit: string;
    };
    answer: { readonly url: string } | null;
  };
  ssoEnd: {
    ask: { readonly url: string; readonly visit: string; readonly caller: Caller };
    answer: SsoAnswer | null;
  };
  /** Ends the session, or every session of its user. By hash: the id stays with the worker. */
  logout: { ask: { readonly session: string; readonly everywhere: boolean }; answer: 'ended' };
  /** What the dashboard shows, after an order was carried out. */
  dashboard: { ask: DashboardAsk; answer: DashboardAnswer };
  /** A one-time code that takes a session of this host over to another one. */
  handOver: {
    ask: { readonly session: string; readonly visit: string; readonly to: Handover };
    answer: { readonly code: string } | null;
  };
  /** The session for such a code; null: unknown, used, too old, of another host or another browser. */
  redeem: {
    ask: { readonly code: string; readonly visit: string; readonly caller: Caller };
    answer: { readonly id: string; readonly returnTo: string } | null;
  };
}

/** Where a login on one name is wanted for. */
export interface Handover {
  readonly host: string;
  readonly secure: boolean;
  /** Path and query there. */
  readonly returnTo: string;
}

export type LoginAnswer =
  | { readonly kind: 'ok'; readonly id: string }
  /** `code`: the password is right, and a code of the authenticator is missing or wrong. */
  | { readonly kind: 'refused'; readonly why: 'password' | 'code' | 'setup' | 'weak' | 'name' }
  | { readonly kind: 'throttled'; readonly retryAfterSeconds: number };

/** `sso`: the issuer's answer is none; `stranger`: it knows them and they may not log in; `name`: it is taken, or unfit. */
export type SsoAnswer =
  | { readonly kind: 'ok'; readonly id: string; readonly returnTo: string; readonly awayVisit: string }
  | { readonly kind: 'refused'; readonly why: 'sso' | 'stranger' | 'name' };

export type DeskTopic = keyof DeskQuestions;
export type DeskQuestion = {
  [T in DeskTopic]: { readonly topic: T; readonly ask: DeskQuestions[T]['ask'] };
}[DeskTopic];
export type DeskAnswer = DeskQuestions[DeskTopic]['answer'];

export interface Desk {
  /** Null when the supervisor cannot be asked. */
  ask<T extends DeskTopic>(topic: T, ask: DeskQuestions[T]['ask']): Promise<DeskQuestions[T]['answer'] | null>;
  /** Somebody at this address sent a token that opens nothing. */
  wrongToken(address: string): void;
  /** Seconds that this address has to wait; 0: none. */
  waitOf(address: string): number;
}

/** What was used since the last report, told now and then. */
export interface UsageReport {
  readonly sessions: readonly Pick<SessionRow, 'hash' | 'lastUsedAt' | 'address'>[];
  readonly tokens: readonly { readonly hash: string; readonly lastUsedAt: number }[];
  /** Addresses that sent wrong tokens, and how many. */
  readonly wrongTokens: readonly (readonly [address: string, count: number])[];
}
