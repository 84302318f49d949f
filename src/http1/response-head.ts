// The head of a response from latin-1 text (RFC 9112 §4, §6.3). Pure.
// Invariant: as strict as the request side; a head that two readers could frame differently is refused whole.
import { Fault } from '../base/fault.ts';
import { FieldId } from '../message/field-id.ts';
import { Fields } from '../message/fields.ts';
import { type ResponseHead, unknownLength } from '../message/head.ts';
import { code, isValueCode } from './characters.ts';
import { parseFieldLines } from './field-lines.ts';
import { connectionOptions, type Framing, persists, takeFraming } from './framing.ts';
import { type HeadLimits, versionAt } from './request-head.ts';

/** How the end of a response body is found. */
export type ResponseFraming = 'none' | 'length' | 'chunked' | 'close';

export interface Http1ResponseHead extends ResponseHead {
  framing: ResponseFraming;
  /** The backend lets the connection live on after this response. */
  persistent: boolean;
}

/**
 * Parses the head in `text[start, end)`, `end` just after the CRLF of its last line. `method` is that of the request it
 * answers. Interim heads (1xx, 101 included) come back with framing `none`: a body that they speak of is void.
 */
export function parseResponseHead(
  text: string,
  start: number,
  end: number,
  method: string,
  limits: HeadLimits,
): Http1ResponseHead | Fault {
  if (end + 2 - start > limits.headerSize) return refuse('head over the limit');

  // HTTP-version SP 3DIGIT [ SP [ reason-phrase ] ] CRLF. The space before a missing reason is often missing as well.
  const version = versionAt(text, start);
  if (version !== 11 && version !== 10) return refuse('bad version');
  if (text.charCodeAt(start + 8) !== code.space) return refuse('bad status line');
  const hundreds = text.charCodeAt(start + 9) - code.zero;
  const tens = text.charCodeAt(start + 10) - code.zero;
  const ones = text.charCodeAt(start + 11) - code.zero;
  if (!(hundreds >= 1 && hundreds <= 9 && tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9))
    return refuse('bad status');
  const status = hundreds * 100 + tens * 10 + ones;
  let at = start + 12;
  let reason = '';
  if (text.charCodeAt(at) === code.space) {
    const reasonStart = ++at;
    while (isValueCode[text.charCodeAt(at)] === 1) at++;
    reason = text.slice(reasonStart, at);
  }
  if (text.charCodeAt(at) !== code.cr || text.charCodeAt(at + 1) !== code.lf) return refuse('bad status line');

  const fields = new Fields();
  const problem = parseFieldLines(text, at + 2, end, fields, limits.headerCount);
  if (problem !== null) return refuse(problem);
  const head: Http1ResponseHead = {
    status,
    reason,
    fields,
    bodyLength: 0,
    declaredLength: -1,
    framing: 'none',
    persistent: true,
  };
  const framingProblem = takeFramingOf(head, version, method);
  return framingProblem === null ? head : refuse(framingProblem);
}

/** RFC 9112 §6.3, in its order; says what is wrong, or null. */
function takeFramingOf(head: Http1ResponseHead, version: number, method: string): string | null {
  const { fields, status } = head;
  const { ids } = fields;
  const framing: Framing = { contentLength: -1, chunked: false };
  let options = 0;
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!;
    if (id === FieldId.ContentLength || id === FieldId.TransferEncoding) {
      const problem = takeFraming(framing, id, fields.values[i]!);
      if (problem !== null) return problem;
    } else if (id === FieldId.Connection) options |= connectionOptions(fields.values[i]!);
  }
  if (framing.chunked && version !== 11) return 'Transfer-Encoding on HTTP/1.0';
  if (status < 200) return null;
  head.persistent = persists(version, options);
  if (method === 'HEAD' || status === 304) {
    head.declaredLength = framing.contentLength;
  } else if (status === 204) {
    // A 204 has no body whatever it declares. One that declares a body may well send it, so its connection is not trusted.
    if (framing.chunked || framing.contentLength > 0) head.persistent = false;
  } else if (framing.chunked) {
    head.bodyLength = unknownLength;
    head.framing = 'chunked';
  } else if (framing.contentLength >= 0) {
    head.bodyLength = framing.contentLength;
    if (framing.contentLength > 0) head.framing = 'length';
  } else {
    head.bodyLength = unknownLength;
    head.framing = 'close';
    head.persistent = false;
  }
  return null;
}

function refuse(detail: string): Fault {
  return new Fault('upstream-bad-response', detail);
}
