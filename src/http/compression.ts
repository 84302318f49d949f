// Whether and how an answer is compressed for its client. Pure.
// Invariant: never a stream, a part, an encoded body or one marked `no-transform`; whenever the coding could have been
// another for another client, Vary says so.
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import type { RequestHead, ResponseHead } from '../message/head.ts';
import type { Compression } from '../model/snapshot.ts';
import { isStream, mediaType } from './stream-kind.ts';

export type Encoding = Compression['encodings'][number];

/** Chooses the coding and adapts the head to it; null: the body goes as it is. */
export function negotiate(compression: Compression, request: RequestHead, response: ResponseHead): Encoding | null {
  if (!isCompressible(compression, response)) return null;
  const { fields } = response;
  addVary(fields);
  if (request.method === 'HEAD' || response.bodyLength === 0) return null;
  const encoding = preferred(compression.encodings, request.fields);
  if (encoding === null) return null;
  fields.set('Content-Encoding', encoding, FieldId.ContentEncoding);
  // Lengths, ranges and digests were those of the bytes that will not be sent (RFC 9110 §8.8.3, RFC 9530 §2).
  fields.remove(FieldId.AcceptRanges);
  fields.remove(FieldId.ContentMd5);
  for (const name of ['Content-Digest', 'Repr-Digest', 'Digest']) fields.removeNamed(name);
  weakenEtag(fields);
  response.bodyLength = -1;
  response.declaredLength = -1;
  return encoding;
}

function isCompressible(
  compression: Compression,
  { status, fields, bodyLength, declaredLength }: ResponseHead,
): boolean {
  if (status < 200 || status === 204 || status === 206 || status === 304) return false;
  const length = declaredLength >= 0 ? declaredLength : bodyLength;
  if (length >= 0 && length < compression.minSize) return false;
  const type = fields.get(FieldId.ContentType);
  if (type === null || !isListedType(mediaType(type), compression.types)) return false;
  const encoding = fields.get(FieldId.ContentEncoding);
  if ((encoding !== null && encoding.toLowerCase() !== 'identity') || fields.has(FieldId.ContentRange)) return false;
  for (let i = fields.ids.indexOf(FieldId.CacheControl); i >= 0; i = fields.ids.indexOf(FieldId.CacheControl, i + 1)) {
    if (fields.values[i]!.toLowerCase().includes('no-transform')) return false;
  }
  return !isStream({ status, fields, bodyLength, declaredLength, reason: '' });
}

function isListedType(type: string, listed: readonly string[]): boolean {
  for (const each of listed) {
    if (each === type || (each.endsWith('/*') && type.startsWith(each.slice(0, -1)))) return true;
  }
  return false;
}

/** The first of ours with the client's highest weight (RFC 9110 §12.5.3); null when it prefers or needs identity. */
function preferred(ours: readonly Encoding[], request: Fields): Encoding | null {
  const weights = new Map<string, number>();
  for (let i = request.ids.indexOf(FieldId.AcceptEncoding); i >= 0; ) {
    for (const each of request.values[i]!.split(',')) {
      const [coding = '', ...parameters] = each.split(';');
      weights.set(coding.trim().toLowerCase(), weightOf(parameters));
    }
    i = request.ids.indexOf(FieldId.AcceptEncoding, i + 1);
  }
  let best: Encoding | null = null;
  let bestWeight = 0;
  for (const each of ours) {
    const weight = weights.get(each) ?? (each === 'gzip' ? weights.get('x-gzip') : undefined) ?? weights.get('*') ?? 0;
    if (weight > bestWeight) {
      best = each;
      bestWeight = weight;
    }
  }
  return best !== null && bestWeight >= (weights.get('identity') ?? 0) ? best : null;
}

function weightOf(parameters: readonly string[]): number {
  for (const each of parameters) {
    const match = /^\s*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*$/i.exec(each);
    if (match !== null) return Number(match[1]);
  }
  return 1;
}

function addVary(fields: Fields): void {
  for (let i = fields.ids.indexOf(FieldId.Vary); i >= 0; i = fields.ids.indexOf(FieldId.Vary, i + 1)) {
    const value = fields.values[i]!.toLowerCase();
    if (value.includes('accept-encoding') || value.includes('*')) return;
  }
  fields.push('Vary', 'Accept-Encoding', FieldId.Vary);
}

/** Other bytes under the same strong validator would be a lie (RFC 9110 §8.8.1). */
function weakenEtag(fields: Fields): void {
  const i = fields.indexOf(FieldId.Etag);
  if (i >= 0 && !fields.values[i]!.startsWith('W/')) fields.replace(i, `W/${fields.values[i]!}`);
}
