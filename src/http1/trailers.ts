// Which fields may travel in a trailer section (RFC 9110 §6.5.1), for HTTP/1.1 and HTTP/2 alike.
// Invariant: a trailer never changes how a message is framed, routed, authenticated, cached or decoded.
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import { isClaim } from '../message/identity-claims.ts';

const denied = new Set([
  // framing and connection
  'connection',
  'content-length',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  // routing
  'forwarded',
  'host',
  'max-forwards',
  'via',
  'x-real-ip',
  'x-request-id',
  // request modifiers and conditions
  'accept-encoding',
  'cache-control',
  'expect',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'origin',
  'pragma',
  'range',
  // authentication and state
  'authentication-info',
  'authorization',
  'cookie',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'set-cookie',
  'strict-transport-security',
  'www-authenticate',
  // response control
  'age',
  'date',
  'expires',
  'location',
  'retry-after',
  'vary',
  'warning',
  // content
  'content-disposition',
  'content-encoding',
  'content-location',
  'content-range',
  'content-security-policy',
  'content-type',
]);

function isDenied(name: string): boolean {
  // `_` becomes `-` in CGI-style environments, so both spellings are one name to many backends.
  const lower = name.toLowerCase().replaceAll('_', '-');
  if (denied.has(lower) || lower.startsWith('x-forwarded-') || lower.startsWith(':')) return true;
  // Who asks is said in the head: servers that merge trailers into it would take this for ours.
  return isClaim(name);
}

/** Marks the lines that must not travel as trailers `Removed`. Returns null when none is left. */
export function allowedTrailers(fields: Fields): Fields | null {
  let left = 0;
  for (let i = 0; i < fields.length; i++) {
    if (fields.ids[i] === FieldId.Removed) continue;
    if (isDenied(fields.names[i]!)) fields.removeAt(i);
    else left++;
  }
  return left === 0 ? null : fields;
}
