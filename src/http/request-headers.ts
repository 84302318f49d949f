// The header fields of a request as its backend gets them.
// Invariant: what one hop owns is removed before anything of ours is added; every field of ours stands there once, whoever
// sent what. Everything else keeps its place, case and bytes.
import { FieldId, fieldIdOf } from '../message/field-id.ts';
import type { FieldBlock, Fields, SavedFields } from '../message/fields.ts';
import type { RequestHead } from '../message/head.ts';
import type { RouteAction } from '../model/snapshot.ts';
import type { ConnectionPlan } from './connection-plan.ts';
import { applyRules, type CompiledRules, rulesName } from './header-rules.ts';
import { isConnectionField, removeNominated } from './hop-by-hop.ts';
import type { RoutePlan } from './plans.ts';
import { isUsableRequestId } from './request-id.ts';

/** What the fields of ours are made of. */
export interface Forwarding {
  readonly connection: ConnectionPlan;
  /** Canonical `host[:port]` of the request. */
  readonly hostHeader: string;
  readonly clientAddress: string;
  readonly requestId: string;
  /** The port that clients reach us on. */
  readonly port: number;
  /** What `forwardedBlock` made for this connection and host; null: the peer is trusted, and has a word in it. */
  readonly block: FieldBlock | null;
  /** Write RFC 7239 `Forwarded` as well. */
  readonly forwardedField: boolean;
}

/** The id that a trusted peer gave the request, when it is fit to be kept; else null. */
export function givenRequestId(head: RequestHead, trustedPeer: boolean): string | null {
  if (!trustedPeer) return null;
  const given = head.fields.get(FieldId.XRequestId);
  return given !== null && isUsableRequestId(given) ? given : null;
}

/** Does what no route has a say in. Once per request, before the first backend gets it. */
export function prepareRequest(head: RequestHead, forwarding: Forwarding): void {
  const { fields } = head;
  const { connection } = forwarding;
  const trusted = connection.facts.trustedPeer;
  removeNominated(fields);
  const { ids, names, values } = fields;
  let chain = '';
  let elements = '';
  let proto = '';
  let forwardedHost = '';
  let forwardedPort = '';
  let cookie = -1;
  let hasHost = false;
  const count = ids.length;
  for (let i = 0; i < count; i++) {
    switch (ids[i]) {
      case FieldId.Other: {
        const name = names[i]!;
        if (name.includes('_')) {
          if (isTwin(name)) ids[i] = FieldId.Removed;
        } else if ((name.charCodeAt(0) | 0x20) === 0x78 && !trusted && isForwardedVariant(name)) {
          ids[i] = FieldId.Removed;
        }
        break;
      }
      case FieldId.Host:
        hasHost = true;
        fields.replace(i, forwarding.hostHeader);
        break;
      case FieldId.Cookie:
        // RFC 9113 §8.2.3: an HTTP/2 client may send crumbs; an HTTP/1.1 backend must get one line.
        if (cookie < 0) cookie = i;
        else {
          fields.replace(cookie, `${values[cookie]!}; ${values[i]!}`);
          ids[i] = FieldId.Removed;
        }
        break;
      case FieldId.XForwardedFor:
        if (trusted) chain = chain === '' ? values[i]! : `${chain}, ${values[i]!}`;
        ids[i] = FieldId.Removed;
        break;
      case FieldId.XForwardedProto:
        if (trusted) proto = lastElement(values[i]!);
        ids[i] = FieldId.Removed;
        break;
      case FieldId.XForwardedHost:
        if (trusted) forwardedHost = lastElement(values[i]!);
        ids[i] = FieldId.Removed;
        break;
      case FieldId.XForwardedPort:
        if (trusted) forwardedPort = lastElement(values[i]!);
        ids[i] = FieldId.Removed;
        break;
      case FieldId.Forwarded:
        if (trusted) elements = elements === '' ? values[i]! : `${elements}, ${values[i]!}`;
        ids[i] = FieldId.Removed;
        break;
      case FieldId.XRealIp:
      case FieldId.XRequestId:
      case FieldId.ProxyAuthorization:
        ids[i] = FieldId.Removed;
        break;
      case FieldId.Expect:
        if (!head.expectContinue) ids[i] = FieldId.Removed;
        break;
    }
  }
  // Canonical names, addresses and numbers of ours, and values that came through the parser: nothing left to judge.
  if (!hasHost) fields.pushSafe('Host', forwarding.hostHeader, FieldId.Host);
  if (forwarding.block !== null) fields.pushBlock(forwarding.block);
  else {
    const peer = connection.facts.peerAddress;
    if (proto === '') proto = connection.proto;
    if (forwardedPort === '') forwardedPort = portFor(proto, forwarding);
    const sentHost = forwardedHost === '' ? forwarding.hostHeader : forwardedHost;
    fields.pushSafe('X-Forwarded-For', chain === '' ? peer : `${chain}, ${peer}`, FieldId.XForwardedFor);
    fields.pushSafe('X-Forwarded-Proto', proto, FieldId.XForwardedProto);
    fields.pushSafe('X-Forwarded-Host', sentHost, FieldId.XForwardedHost);
    fields.pushSafe('X-Forwarded-Port', forwardedPort, FieldId.XForwardedPort);
    fields.pushSafe('X-Real-IP', forwarding.clientAddress, FieldId.XRealIp);
  }
  fields.pushSafe('X-Request-Id', forwarding.requestId, FieldId.XRequestId);
  if (forwarding.forwardedField || elements !== '') {
    fields.push('Forwarded', forwardedValue(elements, forwarding), FieldId.Forwarded);
  }
  head.authority = forwarding.hostHeader;
}

/** What `applyRoute` changed, so that a second try can arrive at another route. */
export interface Undo {
  readonly target: string;
  readonly authority: string | null;
  readonly fields: SavedFields;
}

/** Does what the route asks for; null: nothing. */
export function applyRoute(head: RequestHead, plan: RoutePlan): Undo | null {
  const { hostHeader, action, path } = plan.route;
  const rewrite = action.kind === 'forward' ? action.rewrite : null;
  if (hostHeader === null && rewrite === null && plan.requestRules.empty) return null;
  const { fields } = head;
  const undo = { target: head.target, authority: head.authority, fields: fields.save() };
  if (rewrite !== null) head.target = rewritten(head.target, path, rewrite);
  if (hostHeader !== null) {
    head.authority = hostHeader;
    fields.replace(fields.indexOf(FieldId.Host), hostHeader);
  }
  if (!plan.requestRules.empty) {
    removeTwins(fields, plan.requestRules);
    applyRules(plan.requestRules, fields);
  }
  return undo;
}

export function undoRoute(head: RequestHead, undo: Undo): void {
  head.target = undo.target;
  head.authority = undo.authority;
  head.fields.restore(undo.fields);
}

/** The route's path taken off or replaced; the rest, query included, byte for byte. */
export function rewritten(
  target: string,
  path: string,
  rewrite: NonNullable<Extract<RouteAction, { kind: 'forward' }>['rewrite']>,
): string {
  // `OPTIONS *` has no path to rewrite.
  if (target === '*') return target;
  const rest = path === '/' ? target : target.slice(path.length);
  if (rewrite.kind === 'strip') return rest.charCodeAt(0) === 0x2f ? rest : `/${rest}`;
  const { to } = rewrite;
  const joined = rest.charCodeAt(0) === 0x2f && to.endsWith('/') ? to.slice(0, -1) + rest : to + rest;
  return joined.charCodeAt(0) === 0x2f ? joined : `/${joined}`;
}

/** The port that the client used: known to us, or else what its scheme implies when a trusted proxy told the scheme. */
function portFor(proto: string, { connection, port }: Forwarding): string {
  if (proto === connection.proto) return String(port);
  return proto === 'https' || proto === 'wss' ? '443' : '80';
}

/** Only the last element was written by the peer that we trust. */
export function lastElement(list: string): string {
  const comma = list.lastIndexOf(',');
  return (comma < 0 ? list : list.slice(comma + 1)).trim();
}

function forwardedValue(elements: string, { connection, hostHeader }: Forwarding): string {
  const host = /^[a-z0-9.-]+$/.test(hostHeader) ? hostHeader : `"${hostHeader}"`;
  const own = `${connection.forwardedNode};host=${host};proto=${connection.proto}`;
  return elements === '' ? own : `${elements}, ${own}`;
}

/** `X_Forwarded_For` and its like: CGI-style apps cannot tell them from the fields that we vouch for or remove. */
function isTwin(name: string): boolean {
  const id = fieldIdOf(name.replaceAll('_', '-'));
  switch (id) {
    case FieldId.Host:
    case FieldId.XForwardedFor:
    case FieldId.XForwardedProto:
    case FieldId.XForwardedHost:
    case FieldId.XForwardedPort:
    case FieldId.XRealIp:
    case FieldId.Forwarded:
    case FieldId.XRequestId:
    case FieldId.ProxyAuthorization:
      return true;
    default:
      return isConnectionField(id) || isForwardedVariant(name);
  }
}

/** X-Forwarded-Server, X-Forwarded-Prefix, X-Forwarded-Ssl …: nobody but a trusted proxy has a word in that family. */
function isForwardedVariant(name: string): boolean {
  if (name.length < 13) return false;
  const separator = name.charCodeAt(11);
  if (separator !== 0x2d && separator !== 0x5f) return false;
  return name.slice(0, 11).toLowerCase().replace('_', '-') === 'x-forwarded';
}

function removeTwins(fields: Fields, rules: CompiledRules): void {
  const { ids, names } = fields;
  for (let i = 0; i < ids.length; i++) {
    if (ids[i] !== FieldId.Other || !names[i]!.includes('_')) continue;
    const twin = names[i]!.toLowerCase();
    if (!rulesName(rules, twin) && rulesName(rules, twin.replaceAll('_', '-'))) fields.removeAt(i);
  }
}
