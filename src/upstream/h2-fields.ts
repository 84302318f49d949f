// Heads and fields between our types and what node:http2's client takes and gives. Pure.
// Invariant: no connection field crosses (RFC 9113 §8.2.2), names go out in lower case, pseudo-header fields come first
// and only from the head's members, and cookies stay as they are.
import { STATUS_CODES } from '../base/node-http.ts';
import { FieldId } from '../message/field-id.ts';
import { Fields } from '../message/fields.ts';
import { type RequestHead, type ResponseHead, unknownLength } from '../message/head.ts';

/** Never sent as a field: said by a pseudo-header field, by the stream itself, or by nobody. By id + 1. */
const withheld = new Uint8Array(128);
for (const id of [
  FieldId.Removed,
  FieldId.Host,
  FieldId.Connection,
  FieldId.ContentLength,
  FieldId.TransferEncoding,
  FieldId.Te,
  FieldId.Trailer,
  FieldId.Upgrade,
  FieldId.KeepAlive,
  FieldId.ProxyConnection,
  FieldId.Http2Settings,
]) {
  withheld[id + 1] = 1;
}

/** Name, value, name, value … of a request. */
export function requestLines(head: RequestHead, scheme: 'http' | 'https'): string[] {
  const { fields } = head;
  const { names, values, ids } = fields;
  const websocket = head.upgrade === 'websocket';
  const lines = [
    ':method',
    websocket ? 'CONNECT' : head.method,
    ':scheme',
    scheme,
    ':authority',
    fields.get(FieldId.Host) ?? head.authority ?? '',
    ':path',
    head.target,
  ];
  if (websocket) lines.push(':protocol', 'websocket');
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!;
    if (withheld[id + 1] === 1) continue;
    // The key proves an HTTP/1.1 upgrade; extended CONNECT has no use for it (RFC 8441 §5.1).
    if (websocket && id === FieldId.SecWebSocketKey) continue;
    lines.push(names[i]!.toLowerCase(), values[i]!);
  }
  if (websocket) return lines;
  if (head.bodyLength > 0 || (head.bodyLength === 0 && wantsLength(head))) {
    lines.push('content-length', String(head.bodyLength));
  }
  if (head.acceptsTrailers) lines.push('te', 'trailers');
  return lines;
}

/** An empty body is worth a line where one is expected (RFC 9110 §8.6) or where the client wrote one itself. */
function wantsLength(head: RequestHead): boolean {
  const { method } = head;
  return method === 'POST' || method === 'PUT' || method === 'PATCH' || head.fields.has(FieldId.ContentLength);
}

/** Trailers as node:http2 takes them: an object, repeated names as arrays. */
export function trailerObject(trailers: Fields): Record<string, string | string[]> {
  const object: Record<string, string | string[]> = Object.create(null);
  for (let i = 0; i < trailers.length; i++) {
    if (withheld[trailers.ids[i]! + 1] === 1) continue;
    const name = trailers.names[i]!.toLowerCase();
    const value = trailers.values[i]!;
    const before = object[name];
    if (before === undefined) object[name] = value;
    else if (typeof before === 'string') object[name] = [before, value];
    else before.push(value);
  }
  return object;
}

/** Fields from raw lines as node:http2 gives them; pseudo-header fields are left out. */
export function fieldsOf(raw: readonly string[]): Fields {
  const fields = new Fields();
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i]!;
    if (name.charCodeAt(0) !== 0x3a) fields.add(name, raw[i + 1]!);
  }
  return fields;
}

/**
 * The final head of an answer to `method`; `last` when END_STREAM came with it. A string says why it cannot be relayed.
 * node:http2 has refused connection fields and broken lengths before this; the size it only bounds once the backend has
 * acknowledged our SETTINGS.
 */
export function responseHeadOf(
  status: number,
  raw: readonly string[],
  method: string,
  last: boolean,
  maxSize: number,
): ResponseHead | string {
  if (!(status >= 200 && status <= 999)) return `status ${status} as the final one`;
  let size = 0;
  for (const text of raw) size += text.length + 2;
  if (size > maxSize) return 'head over the limit';
  const fields = fieldsOf(raw);
  const written = fields.get(FieldId.ContentLength);
  let length: number = unknownLength;
  if (written !== null) {
    if (!/^[0-9]{1,16}$/.test(written)) return 'bad content-length';
    length = Number(written);
    if (!Number.isSafeInteger(length)) return 'content-length too large';
  }
  // HTTP/2 has no reason phrase; HTTP/1.1 clients get the usual one.
  const reason = STATUS_CODES[status] ?? '';
  if (method === 'HEAD' || status === 304) return { status, reason, fields, bodyLength: 0, declaredLength: length };
  if (status === 204) return { status, reason, fields, bodyLength: 0, declaredLength: unknownLength };
  return { status, reason, fields, bodyLength: last ? 0 : length, declaredLength: unknownLength };
}
