// Whether a request may pass to an app: facts in, verdict out. Never a socket, never a clock of its own. Pure.
// Invariant: the only ways to `pass` are a policy that asks for no login, a path that was declared open, and a proven
// identity that may use this app; everything that is not understood is none of them.
import type { EffectivePolicy } from '../model/gate-policy.ts';
import type { RouteGate } from '../model/snapshot.ts';
import type { Credentials, Identity, Lifetimes, LiveSession, LiveToken } from './credentials.ts';
import { canonicalOrigin } from './origin.ts';
import { canonicalTarget, coversPath } from './path.ts';

/** What a request shows. */
export interface Visitor {
  /** An upgrade over HTTP/2 counts as the GET that it would be over HTTP/1.1. */
  readonly method: string;
  /** Canonical where the app has rules about paths; without the query. */
  readonly path: string;
  readonly upgrade: boolean;
  /** The Origin field; null: none was sent. */
  readonly origin: string | null;
  /** The origin under which the client reached us. */
  readonly ownOrigin: string;
  /** Canonical host under which it did. */
  readonly host: string;
  /** The client's side is https. */
  readonly secure: boolean;
  readonly address: string;
  /** Hashes of the different session ids it brings. */
  readonly sessions: readonly string[];
  /** Hash of the app token it brings; null: none. */
  readonly token: string | null;
}

export type Verdict =
  /** `upgradeOnly`: by a rule for upgrades, so that nothing but a tunnel may come of it. */
  | { readonly kind: 'pass'; readonly identity: Identity | null; readonly upgradeOnly: boolean }
  /** Nothing in the request opens anything. */
  | { readonly kind: 'challenge'; readonly wrongToken: boolean }
  | { readonly kind: 'deny'; readonly why: DenyReason };

/** `user`: a session whose user may not use the app. `scope`: a token of the app that does not cover this. */
export type DenyReason = 'user' | 'scope' | 'origin';

export interface Ground {
  readonly credentials: Credentials;
  readonly lifetimes: Lifetimes;
  /** Wall clock, milliseconds. */
  readonly now: number;
}

const passOpen: Verdict = { kind: 'pass', identity: null, upgradeOnly: false };
const passUpgrade: Verdict = { kind: 'pass', identity: null, upgradeOnly: true };
const challenge: Verdict = { kind: 'challenge', wrongToken: false };
const wrongToken: Verdict = { kind: 'challenge', wrongToken: true };
const denyUser: Verdict = { kind: 'deny', why: 'user' };
const denyScope: Verdict = { kind: 'deny', why: 'scope' };
const denyOrigin: Verdict = { kind: 'deny', why: 'origin' };

export function judge(gate: RouteGate, policy: EffectivePolicy, visitor: Visitor, ground: Ground): Verdict {
  if (!policy.login) return passOpen;
  if (coversPath(gate.openPaths, visitor.path)) return passOpen;
  // A token was put there on purpose, by something that is no page: it needs no Origin, and comes first.
  const byToken = visitor.token === null ? challenge : judgeToken(gate, visitor, visitor.token, ground);
  if (byToken.kind === 'pass') return byToken;
  if (visitor.upgrade && coversPath(gate.upgradeOpenPaths, visitor.path)) return passUpgrade;
  const session = liveSession(visitor, ground);
  if (session === null) return byToken;
  if (!session.opens(gate.app)) return denyUser;
  // Cookies ride along with whatever a page of a stranger sends; what the answer to a WebSocket says, it may read.
  if (visitor.upgrade && !isOwnOrigin(gate, visitor)) return denyOrigin;
  return passBy(session);
}

/** Exactly one of the ids must be alive: two identities are none. */
export function liveSession(visitor: Visitor, { credentials, lifetimes, now }: Ground): LiveSession | null {
  let found: LiveSession | null = null;
  for (let i = 0; i < visitor.sessions.length; i++) {
    const session = credentials.session(visitor.sessions[i]!);
    if (session === undefined || !session.liveAt(now, lifetimes)) continue;
    if (session.row.secure !== visitor.secure) continue;
    if (session.row.secure && session.row.host !== visitor.host) continue;
    if (found !== null) return null;
    found = session;
  }
  return found;
}

function judgeToken(gate: RouteGate, visitor: Visitor, hash: string, { credentials, now }: Ground): Verdict {
  const token: LiveToken | undefined = credentials.token(hash);
  if (token === undefined || !token.liveAt(now) || token.row.app !== gate.app) return wrongToken;
  const { paths, methods } = token.row;
  const covered =
    // Whatever has a second spelling could be another path to the app.
    (paths.length === 0 || (canonicalTarget(visitor.path) === visitor.path && coversPath(paths, visitor.path))) &&
    (methods.length === 0 || methods.includes(visitor.method)) &&
    token.comesFrom(visitor.address);
  return covered ? passBy(token) : denyScope;
}

function passBy(identity: Identity): Verdict {
  return { kind: 'pass', identity, upgradeOnly: false };
}

/** Browsers send Origin with every WebSocket handshake; who sends none is no page. */
export function isOwnOrigin(gate: RouteGate, { origin, ownOrigin }: Visitor): boolean {
  if (origin === null) return true;
  const sent = canonicalOrigin(origin);
  return sent !== null && (sent === ownOrigin || gate.allowedOrigins.includes(sent));
}
