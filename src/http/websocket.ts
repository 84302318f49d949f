// The WebSocket handshake between clients of both protocol versions and backends (RFC 6455 §4, RFC 8441 §5). Pure.
// Invariant: inside Turnpike a handshake always has the HTTP/1.1 form; what the other version lacks is made here and,
// where a peer has to prove something, checked here.
import { randomBytes } from 'node:crypto';
import { FieldId } from '../message/field-id.ts';
import type { RequestHead, ResponseHead } from '../message/head.ts';
import { acceptFor } from '../upstream/websocket-accept.ts';

/** An extended CONNECT, or an HTTP/1.1 request with what RFC 6455 §4.2.1 asks for. */
export function isHandshake({ method, upgrade, fields }: RequestHead): boolean {
  if (upgrade === '') return false;
  if (method === 'CONNECT') return true;
  return fields.count(FieldId.SecWebSocketKey) === 1 && fields.get(FieldId.SecWebSocketKey) !== '';
}

/**
 * Gives an extended CONNECT the form of RFC 6455: GET with a key of ours. Returns the Sec-WebSocket-Accept that the backend
 * must prove. An HTTP/1.1 request that has not exactly one key is no handshake (RFC 6455 §4.2.1): it becomes a plain
 * request, and the answer is null. Otherwise any 101 that an attacker gets a backend to say, at an address that echoes
 * a status, say, would open a tunnel past every rule of ours.
 */
export function asHandshake(request: RequestHead): string | null {
  const { fields } = request;
  if (request.method !== 'CONNECT') {
    if (isHandshake(request)) return acceptFor(fields.get(FieldId.SecWebSocketKey)!);
    request.upgrade = '';
    return null;
  }
  request.method = 'GET';
  request.bodyLength = 0;
  const key = randomBytes(16).toString('base64');
  fields.set('Sec-WebSocket-Key', key, FieldId.SecWebSocketKey);
  if (!fields.has(FieldId.SecWebSocketVersion)) {
    fields.push('Sec-WebSocket-Version', '13', FieldId.SecWebSocketVersion);
  }
  return acceptFor(key);
}

/** True when the backend proved that it read the key. */
export function provesAccept(response: ResponseHead, expected: string): boolean {
  return response.fields.get(FieldId.SecWebSocketAccept) === expected;
}
