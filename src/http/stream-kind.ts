// Which answers are streams: open-ended, long silent, to be passed on piece by piece and drained as streams. Pure.
// Invariant: judged by what the message says of itself; a stream is never compressed, and its silence is not a failure.
import { FieldId } from '../message/field-id.ts';
import type { ResponseHead } from '../message/head.ts';

const streamTypes = ['text/event-stream', 'application/x-ndjson', 'application/ndjson', 'multipart/x-mixed-replace'];

/**
 * Server-sent events, NDJSON, server push of images, gRPC, and whatever the app declares unbuffered
 * (`X-Accel-Buffering: no`). Such an answer may be silent for `stream_idle_timeout` and is never compressed.
 */
export function isStream(head: ResponseHead): boolean {
  const { fields } = head;
  const type = fields.get(FieldId.ContentType);
  if (type !== null && isStreamType(type)) return true;
  const buffering = fields.get(FieldId.XAccelBuffering);
  return buffering !== null && buffering.toLowerCase() === 'no';
}

export function isStreamType(contentType: string): boolean {
  const first = contentType.charCodeAt(0) | 0x20;
  // All of them start with t, a or m, but so does nearly everything: the second letters tell `text/html` apart cheaply.
  if (first !== 0x74 && first !== 0x61 && first !== 0x6d) return false;
  const type = mediaType(contentType);
  return streamTypes.includes(type) || type.startsWith('application/grpc');
}

/** `Text/HTML; charset=utf-8` → `text/html`. */
export function mediaType(contentType: string): string {
  const semicolon = contentType.indexOf(';');
  return (semicolon < 0 ? contentType : contentType.slice(0, semicolon)).trim().toLowerCase();
}
