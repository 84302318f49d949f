// The only place where a fault becomes a response.
// Invariant: HTML for browsers, JSON for who asks for JSON, text otherwise; never a stack, a backend address or a cookie.

import type { Fault } from '../base/fault.ts';
import { STATUS_CODES } from '../base/node-http.ts';
import { responseHeadText } from '../http1/serialise.ts';
import { FieldId } from '../message/field-id.ts';
import { Fields } from '../message/fields.ts';
import type { RequestHead, ResponseHead } from '../message/head.ts';
import { answerPage, pagePolicy } from './answer-page.ts';
import { publicText, retryAfterOf } from './fault-text.ts';

export interface Answer {
  readonly head: ResponseHead;
  readonly body: Buffer;
}

type Shape = 'html' | 'json' | 'text';

/**
 * @param request  null when no head could be read
 * @param retryAfterSeconds  0: as usual for this fault
 */
export function faultAnswer(
  fault: Fault,
  request: RequestHead | null,
  requestId: string,
  retryAfterSeconds = 0,
): Answer {
  // A fault without a status of its own should not have come this far; to the client it is a plain 500.
  const status = fault.status >= 400 && fault.status !== 499 ? fault.status : 500;
  const shape = shapeFor(request);
  const body = Buffer.from(bodyText(shape, status, fault, requestId), 'utf8');
  const fields = new Fields();
  fields.push('Content-Type', contentTypes[shape], FieldId.ContentType);
  fields.push('Cache-Control', 'no-store', FieldId.CacheControl);
  fields.push('X-Content-Type-Options', 'nosniff', FieldId.Other);
  if (shape === 'html') fields.push('Content-Security-Policy', pagePolicy, FieldId.Other);
  const retryAfter = retryAfterSeconds > 0 ? retryAfterSeconds : retryAfterOf(fault.code);
  if (retryAfter > 0) fields.push('Retry-After', String(retryAfter), FieldId.RetryAfter);
  // RFC 9110 §15.5.6: a 405 says what would be accepted.
  if (status === 405) fields.push('Allow', 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS', FieldId.Other);
  return withBody(status, fields, body, request);
}

/** A whole response around a body that we have; HEAD, 204 and 304 get their framing without it (RFC 9110 §8.6). */
export function withBody(status: number, fields: Fields, body: Buffer, request: RequestHead | null): Answer {
  const bodiless = status === 204 || status === 304;
  const isHead = request !== null && request.method === 'HEAD';
  const head: ResponseHead = {
    status,
    reason: STATUS_CODES[status] ?? '',
    fields,
    bodyLength: bodiless || isHead ? 0 : body.length,
    declaredLength: isHead && !bodiless ? body.length : -1,
  };
  return { head, body: bodiless || isHead ? empty : body };
}

/** The complete bytes of an error answer on HTTP/1.1, for requests that never became an exchange. */
export function faultBytes(fault: Fault, request: RequestHead | null): Buffer {
  const { head, body } = faultAnswer(fault, request, '');
  const length = head.bodyLength > 0 ? head.bodyLength : head.declaredLength;
  const text = responseHeadText(head, body.length > 0 ? 'length' : 'none', length, 'close');
  return Buffer.concat([Buffer.from(text, 'latin1'), body]);
}

const empty = Buffer.alloc(0);

const contentTypes: Record<Shape, string> = {
  html: 'text/html; charset=utf-8',
  json: 'application/json',
  text: 'text/plain; charset=utf-8',
};

function bodyText(shape: Shape, status: number, { code }: Fault, requestId: string): string {
  const { title, sentence, hint } = publicText(code);
  switch (shape) {
    case 'html':
      return answerPage(status, title, sentence, hint, requestId);
    case 'json':
      return `${JSON.stringify({ status, code, message: sentence, request_id: requestId })}\n`;
    case 'text':
      return `${status} ${title}. ${sentence}\n`;
  }
}

/** The first of the two types that Accept lists: browsers list HTML, API clients JSON; `*` alone tells nothing. */
function shapeFor(request: RequestHead | null): Shape {
  const accept = request?.fields.get(FieldId.Accept)?.toLowerCase() ?? '';
  const html = accept.indexOf('text/html');
  const json = accept.indexOf('application/json');
  if (html >= 0 && (json < 0 || html < json)) return 'html';
  return json >= 0 ? 'json' : 'text';
}
