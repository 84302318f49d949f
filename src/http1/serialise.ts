// Heads and chunk framing as latin-1 text for the wire (RFC 9112 §2.1, §7.1). Pure.
// Invariant: framing and connection fields come from the head's own members, never from the field lines that a peer sent;
// nothing put into a line can end it (`Fields` sees to its own), so what is written holds exactly the lines it was made of.
import { STATUS_CODES } from '../base/node-http.ts';
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import { type RequestHead, type ResponseHead, unknownLength } from '../message/head.ts';

/** How the body after a response head is framed. */
export type AnswerFraming = 'none' | 'length' | 'chunked' | 'close';

/** Written by us or by nobody (RFC 9110 §7.6.1, RFC 9112 §6). Indexed by id + 1, so that `Removed` has a place. */
const written = new Uint8Array(128).fill(1);
for (const id of [
  FieldId.Removed,
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
  written[id + 1] = 0;
}

/** The head of a request to a backend, always as HTTP/1.1. */
export function requestHeadText(head: RequestHead): string {
  const { fields } = head;
  let text = `${startWord(head.method)} ${startWord(head.target)} HTTP/1.1\r\n`;
  if (fields.ids.indexOf(FieldId.Host) < 0) text += `Host: ${lineSafe(head.authority ?? '')}\r\n`;
  text = appendFields(text, fields);
  if (head.bodyLength === unknownLength) text += 'Transfer-Encoding: chunked\r\n';
  else if (head.bodyLength > 0 || wantsLength(head)) text += `Content-Length: ${head.bodyLength}\r\n`;
  if (head.upgrade === 'websocket') return text + 'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
  // TE is hop-by-hop: whoever sends it must say so in Connection (RFC 9110 §10.1.4).
  return text + (head.acceptsTrailers ? 'TE: trailers\r\nConnection: TE\r\n\r\n' : '\r\n');
}

/** An empty body is worth a line where one is expected (RFC 9110 §8.6) or where the client wrote one itself. */
function wantsLength(head: RequestHead): boolean {
  const { method } = head;
  return method === 'POST' || method === 'PUT' || method === 'PATCH' || head.fields.has(FieldId.ContentLength);
}

/**
 * The head of an answer. `length` is the Content-Length to write, with framing `length`, or with `none` for the length
 * that a HEAD or 304 answer declares; -1 writes none.
 */
export function responseHeadText(
  head: ResponseHead,
  framing: AnswerFraming,
  length: number,
  connection: '' | 'close' | 'keep-alive',
): string {
  let text = appendFields(`HTTP/1.1 ${head.status} ${lineSafe(head.reason)}\r\n`, head.fields);
  if (framing === 'chunked') text += 'Transfer-Encoding: chunked\r\n';
  else if (length >= 0 && framing !== 'close') text += `Content-Length: ${length}\r\n`;
  if (connection !== '') text += `Connection: ${connection}\r\n`;
  return text + '\r\n';
}

/** A 1xx head other than 101: no framing, no connection fields. */
export function informationText(status: number, fields: Fields): string {
  return appendFields(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`, fields) + '\r\n';
}

/** The 101 that turns the connection into a WebSocket tunnel. */
export function switchingText(head: ResponseHead): string {
  const start = `HTTP/1.1 101 ${lineSafe(head.reason) || 'Switching Protocols'}\r\n`;
  return appendFields(start, head.fields) + 'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
}

/** What goes before the data of a chunk; `\r\n` goes after it. */
export function chunkStart(length: number): string {
  return length.toString(16) + '\r\n';
}

/** The last chunk, the trailers and the end of a chunked body. */
export function lastChunk(trailers: Fields | null): string {
  return trailers === null ? '0\r\n\r\n' : appendFields('0\r\n', trailers) + '\r\n';
}

function appendFields(start: string, fields: Fields): string {
  return start + fields.text(written);
}

function lineSafe(text: string): string {
  return /[\0\r\n]|[^\x00-\xff]/.test(text) ? '' : text;
}

/** A method or target as it may stand between two spaces; what a rewrite may have brought in is percent-encoded. */
function startWord(word: string): string {
  return /[^\x21-\x7e]/.test(word)
    ? word.replace(/[^\x21-\x7e]+/g, (odd) => encodeURIComponent(odd.toWellFormed()))
    : word;
}
