// What kind of client asks, to answer it in its own way when it may not pass. Pure.
// Invariant: nothing here decides whether somebody passes.
import { FieldId } from '../message/field-id.ts';
import { listHasToken } from '../message/fields.ts';
import type { RequestHead } from '../message/head.ts';

/** `navigation`: a person's browser that shows what it gets. `programme`: a fetch, an API client, an upload. */
export type ClientKind = 'navigation' | 'programme';

export function clientKind(head: RequestHead): ClientKind {
  if (head.upgrade !== '' || (head.method !== 'GET' && head.method !== 'HEAD')) return 'programme';
  const { fields } = head;
  const mode = fields.get(FieldId.SecFetchMode);
  if (mode !== null) return mode === 'navigate' ? 'navigation' : 'programme';
  // Browsers leave Sec-Fetch-* out on plain http.
  if (fields.getNamed('x-requested-with') !== null) return 'programme';
  const accept = fields.get(FieldId.Accept);
  return accept !== null && asksForHtml(accept) ? 'navigation' : 'programme';
}

/** Names HTML, and JSON not before it. */
function asksForHtml(accept: string): boolean {
  const lower = accept.toLowerCase();
  const html = lower.indexOf('text/html');
  const json = lower.indexOf('application/json');
  return html >= 0 && (json < 0 || html < json);
}

/** Browsers ask for a name and password by themselves when a Basic challenge comes; other clients wait for one. */
export function wantsBasicChallenge(head: RequestHead): boolean {
  const { fields } = head;
  if (fields.has(FieldId.SecFetchMode) || fields.has(FieldId.Origin)) return false;
  return !(fields.get(FieldId.UserAgent) ?? '').includes('Mozilla/');
}

export function isGrpc(head: RequestHead): boolean {
  return head.fields.get(FieldId.ContentType)?.toLowerCase().startsWith('application/grpc') ?? false;
}

/** A form as browsers send it without JavaScript. */
export function isForm(head: RequestHead): boolean {
  const type = head.fields.get(FieldId.ContentType);
  return type !== null && listHasToken(type.split(';', 1)[0]!, 'application/x-www-form-urlencoded');
}
