// What a request shows to the gate, read once, before anything of it is changed.
// Invariant: a hash is worked out once for a connection that brings the same cookie again and again; the address and the
// scheme are what a trusted proxy says, and nobody else's word.
import { tokenOf } from '../gate/authorization.ts';
import { cookieIds, joinedCookies, sessionCookieName, visitCookieName } from '../gate/cookies.ts';
import { hashOf } from '../gate/credentials.ts';
import { originOf } from '../gate/origin.ts';
import type { Visitor } from '../gate/verdict.ts';
import { FieldId } from '../message/field-id.ts';
import type { RequestHead } from '../message/head.ts';
import type { ConnectionPlan } from './connection-plan.ts';
import type { HostMatch } from './host-match.ts';
import { saysHttps } from './plaintext.ts';
import { isHandshake } from './websocket.ts';

export class RequestVisitor implements Visitor {
  readonly method: string;
  path = '';
  readonly upgrade: boolean;
  readonly origin: string | null;
  readonly fetchSite: string | null;
  readonly host: string;
  readonly #port: number | null;
  readonly secure: boolean;
  readonly address: string;
  readonly sessions: readonly string[];
  readonly token: string | null;
  /** Marks in the browser's cookie. */
  readonly visits: readonly string[];

  constructor(head: RequestHead, connection: ConnectionPlan, match: HostMatch, address: string) {
    const { fields } = head;
    const { facts } = connection;
    this.upgrade = isHandshake(head);
    this.method = head.method === 'CONNECT' ? 'GET' : head.method;
    this.origin = fields.get(FieldId.Origin);
    this.fetchSite = fields.get(FieldId.SecFetchSite);
    this.host = match.host;
    this.secure = facts.tls !== null || (facts.trustedPeer && saysHttps(head));
    this.#port = match.port;
    this.address = address;
    const known = connection.credentials;
    const cookie = joinedCookies(fields);
    if (cookie !== known.cookie || this.secure !== known.secure) {
      known.cookie = cookie;
      known.secure = this.secure;
      known.sessions = cookieIds(cookie, sessionCookieName(this.secure)).map(hashOf);
      known.visits = cookieIds(cookie, visitCookieName(this.secure));
    }
    this.sessions = known.sessions;
    this.visits = known.visits;
    const token = fields.has(FieldId.Authorization) ? tokenOf(fields) : null;
    if (token !== null && token !== known.token) {
      known.token = token;
      known.tokenHash = hashOf(token);
    }
    this.token = token === null ? null : known.tokenHash;
  }

  get ownOrigin(): string {
    return originOf(this.secure, this.host, this.#port);
  }
}
