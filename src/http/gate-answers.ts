// How the gate answers who may not pass, and what it says in its own name.
// Invariant: navigations are led to a login, everything else is told 401 or 403 in its own format; nothing of it may be
// stored, and no body is read for it.
import { Fault } from '../base/fault.ts';
import { clientKind, isGrpc, wantsBasicChallenge } from '../gate/client-kind.ts';
import { setVisit } from '../gate/cookies.ts';
import { hashOf } from '../gate/credentials.ts';
import { originOf } from '../gate/origin.ts';
import type { Page } from '../gate/pages/document.ts';
import { noticePage } from '../gate/pages/login-page.ts';
import { downField, retryAfterSeconds, retryPage } from '../gate/pages/retry-page.ts';
import { reservedPath } from '../gate/return-path.ts';
import type { DenyReason } from '../gate/verdict.ts';
import { newVisit } from '../gate/visit.ts';
import type { VisitReply } from '../gate/visit-request.ts';
import { FieldId } from '../message/field-id.ts';
import { Fields } from '../message/fields.ts';
import type { RequestHead } from '../message/head.ts';
import { type Answer, faultAnswer, withBody } from './answer.ts';
import type { HostMatch } from './host-match.ts';
import type { OutsideVerdict } from './outside-auth.ts';
import type { RequestVisitor } from './visitor.ts';

/** Nothing in the request opens the app. */
export function challengeAnswer(
  head: RequestHead,
  match: HostMatch,
  visitor: RequestVisitor,
  app: string,
  requestId: string,
): Answer {
  if (clientKind(head) === 'navigation') return toLogin(head, match, visitor);
  if (isGrpc(head)) return grpcAnswer(head);
  const answer = faultAnswer(new Fault('login-required'), head, requestId);
  const { fields } = answer.head;
  const realm = app.replace(/["\\]/g, '');
  fields.push('WWW-Authenticate', `Bearer realm="${realm}"`, FieldId.Other);
  if (wantsBasicChallenge(head)) fields.push('WWW-Authenticate', `Basic realm="${realm}"`, FieldId.Other);
  return answer;
}

export function deniedAnswer(why: DenyReason, head: RequestHead, requestId: string): Answer {
  if (why === 'user' && clientKind(head) === 'navigation') {
    const link = { href: `${reservedPath}logout`, label: 'Log out' };
    return pageAnswer(
      403,
      noticePage('Not for you', 'You are logged in, but this app is not open to you.', link),
      head,
    );
  }
  return faultAnswer(new Fault('forbidden'), head, requestId);
}

/** No backend of a gate-fronted app takes connections. */
export function downAnswer(head: RequestHead, app: string, ancestors: string, requestId: string): Answer {
  const people = clientKind(head) === 'navigation';
  const answer = people
    ? pageAnswer(503, retryPage(app, ancestors), head)
    : faultAnswer(new Fault('app-down'), head, requestId, retryAfterSeconds);
  if (people) answer.head.fields.push('Retry-After', String(retryAfterSeconds), FieldId.RetryAfter);
  answer.head.fields.push(downField, '1', FieldId.Other);
  return answer;
}

/** The word of the other program, as far as it is for the client. */
export function outsideAnswer(
  verdict: Exclude<OutsideVerdict, { kind: 'pass' }>,
  head: RequestHead,
  requestId: string,
): Answer {
  if (verdict.kind === 'unknown') return faultAnswer(new Fault('login-unavailable'), head, requestId);
  return withBody(verdict.status, verdict.fields, verdict.body, head);
}

export function visitAnswer(reply: VisitReply, head: RequestHead): Answer {
  const answer =
    reply.page === null
      ? withBody(reply.status, noStore(), Buffer.alloc(0), head)
      : pageAnswer(reply.status, reply.page, head);
  const { fields } = answer.head;
  if (reply.location !== null) fields.push('Location', reply.location, FieldId.Location);
  for (const cookie of reply.cookies) fields.push('Set-Cookie', cookie, FieldId.SetCookie);
  if (reply.retryAfterSeconds > 0) fields.push('Retry-After', String(reply.retryAfterSeconds), FieldId.RetryAfter);
  return answer;
}

/** RFC 9110 §15.4.4: whatever was asked for, the login is got. */
function toLogin(head: RequestHead, match: HostMatch, visitor: RequestVisitor): Answer {
  const fields = noStore();
  const elsewhere = loginElsewhere(match, visitor);
  if (elsewhere === null) {
    fields.push('Location', `${reservedPath}login?rd=${encodeURIComponent(head.target)}`, FieldId.Location);
  } else {
    const visit = visitor.visits.length === 1 ? visitor.visits[0]! : newVisit();
    if (visitor.visits.length !== 1) fields.push('Set-Cookie', setVisit(visit, visitor.secure), FieldId.SetCookie);
    const here = encodeURIComponent(visitor.ownOrigin + head.target);
    fields.push('Location', `${elsewhere}${reservedPath}login?rd=${here}&v=${hashOf(visit)}`, FieldId.Location);
  }
  return withBody(303, fields, Buffer.alloc(0), head);
}

/** The origin of the name that everybody logs in on; null: people log in right here. */
function loginElsewhere({ plans, plan, host, port }: HostMatch, { secure }: RequestVisitor): string | null {
  // A cookie counts on every port of its name: one login serves them all, right where somebody comes to.
  if (plan?.entry.host.tls === 'either') return null;
  // The login leads back to names that are ours, and those of the catch-all are anybody's.
  if (plan?.entry.host.pattern === '*') return null;
  const name = plans.gatePart.settings.host;
  if (name === null || name === host) return null;
  const endpoint = plans.httpsEndpointOf(name);
  if (endpoint === null) return originOf(secure, name, port);
  return originOf(true, name, endpoint.publicPort ?? endpoint.port);
}

/** Trailers only: gRPC clients take the status from the fields (gRPC over HTTP/2, "Responses"), others see the 401. */
function grpcAnswer(head: RequestHead): Answer {
  const fields = noStore();
  fields.push('Content-Type', 'application/grpc', FieldId.ContentType);
  fields.push('WWW-Authenticate', 'Bearer', FieldId.Other);
  fields.push('grpc-status', '16', FieldId.Other);
  fields.push('grpc-message', 'login required', FieldId.Other);
  return withBody(401, fields, Buffer.alloc(0), head);
}

function pageAnswer(status: number, { html, policy }: Page, head: RequestHead): Answer {
  const fields = noStore();
  fields.push('Content-Type', 'text/html; charset=utf-8', FieldId.ContentType);
  fields.push('Content-Security-Policy', policy, FieldId.ContentSecurityPolicy);
  fields.push('X-Content-Type-Options', 'nosniff', FieldId.Other);
  // Not `no-referrer`: with that, browsers send `Origin: null` with the form.
  fields.push('Referrer-Policy', 'same-origin', FieldId.Other);
  return withBody(status, fields, Buffer.from(html, 'utf8'), head);
}

function noStore(): Fields {
  const fields = new Fields();
  fields.push('Cache-Control', 'no-store', FieldId.CacheControl);
  return fields;
}
