// Answers that a route gives without a backend: fixed responses, redirects, and the way to https. Pure.
// Invariant: path and query of a redirect's target are the request's, byte for byte.
import { FieldId, fieldIdOf } from '../message/field-id.ts';
import { Fields } from '../message/fields.ts';
import type { RequestHead } from '../message/head.ts';
import type { RouteAction } from '../model/snapshot.ts';
import { type Answer, withBody } from './answer.ts';
import { isConnectionField } from './hop-by-hop.ts';

type Respond = Extract<RouteAction, { kind: 'respond' }>;
type Redirect = Extract<RouteAction, { kind: 'redirect' }>;

/** @param body  `action.body`, encoded once */
export function fixedAnswer(action: Respond, body: Buffer, request: RequestHead): Answer {
  const fields = new Fields();
  for (const [name, value] of action.headers) {
    const id = fieldIdOf(name);
    if (!isConnectionField(id)) fields.push(name, value, id);
  }
  if (body.length > 0 && !fields.has(FieldId.ContentType)) {
    fields.push('Content-Type', 'text/plain; charset=utf-8', FieldId.ContentType);
  }
  return withBody(action.status, fields, body, request);
}

export function redirectAnswer(action: Redirect, host: string, request: RequestHead): Answer {
  const uri = request.target === '*' ? '/' : request.target;
  // Replacer functions: `$&` in a path must not be read as a pattern of ours.
  const location = action.to.replaceAll('{host}', () => host).replaceAll('{uri}', () => uri);
  return toLocation(action.status, location, request);
}

/** 308 keeps method and body (RFC 9110 §15.4.9). */
export function httpsRedirect(host: string, port: number | null, request: RequestHead): Answer {
  const uri = request.target === '*' ? '/' : request.target;
  return toLocation(308, `https://${host}${port === null ? '' : `:${port}`}${uri}`, request);
}

function toLocation(status: number, location: string, request: RequestHead): Answer {
  const fields = new Fields();
  fields.push('Location', location, FieldId.Location);
  fields.push('Content-Type', 'text/plain; charset=utf-8', FieldId.ContentType);
  return withBody(status, fields, Buffer.from(`${location}\n`, 'latin1'), request);
}
