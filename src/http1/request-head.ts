// The head of a request from latin-1 text (RFC 9112 §3, §5, §6). Pure.
// Invariant: the result is either a head with exactly one reading, or a Fault that says why there is none; nothing is
// repaired but what RFC 9112 orders to be (absolute-form is reduced to origin-form).
import { Fault, type FaultCode } from '../base/fault.ts';
import { FieldId } from '../message/field-id.ts';
import { Fields, listHasToken } from '../message/fields.ts';
import { type RequestHead, unknownLength } from '../message/head.ts';
import { code, isAuthorityCode, isTargetCode, isTokenCode } from './characters.ts';
import { parseFieldLines } from './field-lines.ts';
import { connectionOptions, type Framing, namesOnly, option, persists, takeFraming } from './framing.ts';

export interface HeadLimits {
  /** Bytes of a whole head, start line and blank line included. */
  readonly headerSize: number;
  readonly headerCount: number;
  readonly targetSize: number;
}

export interface Http1RequestHead extends RequestHead {
  /** The client lets the connection live on after this exchange. */
  persistent: boolean;
}

/** What a request line may hold beside its target: longer lines are refused before they are complete. */
export const requestLineSlack = 64;

/**
 * Parses the head in `text[start, end)`, `end` just after the CRLF of its last line; the blank line is not part of it.
 */
export function parseRequestHead(
  text: string,
  start: number,
  end: number,
  limits: HeadLimits,
): Http1RequestHead | Fault {
  if (end + 2 - start > limits.headerSize) return refuse('head-too-large', 'head over the limit');

  // method SP request-target SP HTTP-version CRLF, with exactly these two spaces.
  let at = start;
  while (isTokenCode[text.charCodeAt(at)] === 1) at++;
  if (at === start || text.charCodeAt(at) !== code.space) return refuse('bad-request', 'bad method');
  const method = text.slice(start, at);
  const targetStart = ++at;
  while (isTargetCode[text.charCodeAt(at)] === 1) at++;
  if (at - targetStart > limits.targetSize || at - start > limits.targetSize + requestLineSlack) {
    return refuse('target-too-long', 'target over the limit');
  }
  if (at === targetStart || text.charCodeAt(at) !== code.space) return refuse('bad-request', 'bad request target');
  const version = versionAt(text, at + 1);
  if (version < 0) return refuse('bad-request', 'bad version');
  if (text.charCodeAt(at + 9) !== code.cr || text.charCodeAt(at + 10) !== code.lf) {
    return refuse('bad-request', 'bad request line');
  }
  if (version !== 11 && version !== 10) return refuse('version-unsupported', 'neither HTTP/1.1 nor HTTP/1.0');
  if (method === 'CONNECT') return refuse('method-refused', 'CONNECT');

  const head: Http1RequestHead = {
    method,
    target: '',
    version,
    authority: null,
    otherAuthority: null,
    fields: new Fields(),
    bodyLength: 0,
    upgrade: '',
    expectContinue: false,
    acceptsTrailers: false,
    persistent: false,
  };
  const problem = takeTarget(head, text.slice(targetStart, at));
  if (problem !== null) return refuse('bad-request', problem);
  const fieldsProblem = parseFieldLines(text, at + 11, end, head.fields, limits.headerCount);
  if (fieldsProblem !== null) {
    return refuse(fieldsProblem === 'too many field lines' ? 'head-too-large' : 'bad-request', fieldsProblem);
  }
  const meaningProblem = takeMeaning(head);
  return meaningProblem === null ? head : refuse('bad-request', meaningProblem);
}

/** 10, 11 and so on for `HTTP/x.y` at this place, -1 when it is not that. The name is case-sensitive (RFC 9112 §2.3). */
export function versionAt(text: string, at: number): number {
  if (!text.startsWith('HTTP/', at) || text.charCodeAt(at + 6) !== code.dot) return -1;
  const major = text.charCodeAt(at + 5) - code.zero;
  const minor = text.charCodeAt(at + 7) - code.zero;
  return major >= 0 && major <= 9 && minor >= 0 && minor <= 9 ? major * 10 + minor : -1;
}

/** Judges the target by its form (RFC 9112 §3.2); says what is wrong, or null. */
function takeTarget(head: Http1RequestHead, target: string): string | null {
  if (target.charCodeAt(0) === code.slash) {
    head.target = target;
    return null;
  }
  if (target === '*') {
    if (head.method !== 'OPTIONS') return 'asterisk-form is for OPTIONS';
    head.target = target;
    return null;
  }
  const scheme = target.slice(0, 8).toLowerCase();
  const authorityStart = scheme === 'https://' ? 8 : scheme.startsWith('http://') ? 7 : 0;
  if (authorityStart === 0) return 'unsupported request target';
  let at = authorityStart;
  for (; at < target.length; at++) {
    const c = target.charCodeAt(at);
    if (c === code.slash || c === code.question) break;
    if (c === code.at) return 'userinfo in the request target';
    if (isAuthorityCode[c] !== 1) return 'bad authority in the request target';
  }
  if (at === authorityStart) return 'no authority in the request target';
  head.otherAuthority = target.slice(authorityStart, at);
  const rest = target.slice(at);
  // An empty path is `/`, but for OPTIONS, where it stands for the server as a whole (RFC 9112 §3.2.4).
  if (rest === '') head.target = head.method === 'OPTIONS' ? '*' : '/';
  else head.target = rest.charCodeAt(0) === code.slash ? rest : '/' + rest;
  return null;
}

/** Reads what the fields say about host, body and connection; says what is wrong, or null. */
function takeMeaning(head: Http1RequestHead): string | null {
  const { fields } = head;
  const { ids } = fields;
  const framing: Framing = { contentLength: -1, chunked: false };
  let options = 0;
  let mayUpgrade = false;
  for (let i = 0; i < ids.length; i++) {
    switch (ids[i]) {
      case FieldId.Host:
        if (head.authority !== null) return 'Host twice';
        head.authority = fields.values[i]!;
        break;
      case FieldId.Connection:
        options |= connectionOptions(fields.values[i]!);
        break;
      case FieldId.ContentLength:
      case FieldId.TransferEncoding: {
        const problem = takeFraming(framing, ids[i]!, fields.values[i]!);
        if (problem !== null) return problem;
        break;
      }
      case FieldId.Te:
        if (listHasToken(fields.values[i]!, 'trailers')) head.acceptsTrailers = true;
        break;
      case FieldId.Upgrade:
        mayUpgrade = true;
        break;
      case FieldId.Expect:
        // HTTP/1.0 has no interim answers (RFC 9110 §10.1.1).
        if (head.version === 11 && fields.values[i]!.toLowerCase() === '100-continue') head.expectContinue = true;
        break;
    }
  }
  if (head.authority === null) {
    if (head.version === 11) return 'no Host';
    head.authority = head.otherAuthority;
  }
  if (framing.chunked) {
    // RFC 9112 §6.1: an HTTP/1.0 message with a transfer coding has faulty framing.
    if (head.version !== 11) return 'Transfer-Encoding on HTTP/1.0';
    head.bodyLength = unknownLength;
  } else if (framing.contentLength > 0) {
    head.bodyLength = framing.contentLength;
  }
  if (head.version !== 11) head.acceptsTrailers = false;
  head.persistent = persists(head.version, options);
  // Only a plain RFC 6455 handshake is one; every other wish to upgrade may be ignored (RFC 9110 §7.8) and is.
  if (
    mayUpgrade &&
    (options & option.upgrade) !== 0 &&
    head.method === 'GET' &&
    head.version === 11 &&
    head.bodyLength === 0 &&
    namesOnly(fields, FieldId.Upgrade, 'websocket')
  ) {
    head.upgrade = 'websocket';
  }
  return null;
}

function refuse(kind: FaultCode, detail: string): Fault {
  return new Fault(kind, detail);
}
