// The fields that decide where a message ends and whether its connection lives on, judged alike in both directions.
// Invariant: one Content-Length of plain digits, or one Transfer-Encoding `chunked`, or neither; everything else is
// refused, because every tolerated variant is one that some other parser reads differently (RFC 9112 §6, §11.2).
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import { code } from './characters.ts';
import { trimBlanks } from './field-lines.ts';

export interface Framing {
  /** -1: no Content-Length line. */
  contentLength: number;
  chunked: boolean;
}

/**
 * Takes one Content-Length or Transfer-Encoding line into `framing`; says what is wrong with it, or null. Equal repeats
 * are refused too: they may be collapsed (RFC 9110 §8.6), but nobody who means well sends them.
 */
export function takeFraming(framing: Framing, id: number, value: string): string | null {
  if (id === FieldId.ContentLength) {
    if (framing.contentLength >= 0) return 'Content-Length twice';
    framing.contentLength = plainDigits(value);
    if (framing.contentLength < 0) return 'bad Content-Length';
  } else {
    if (framing.chunked) return 'Transfer-Encoding twice';
    // `gzip, chunked`, `chunked;q=1`, `identity`: none of them is worth a second opinion.
    if (value !== 'chunked' && value.toLowerCase() !== 'chunked') return 'unsupported Transfer-Encoding';
    framing.chunked = true;
  }
  return framing.chunked && framing.contentLength >= 0 ? 'Content-Length beside Transfer-Encoding' : null;
}

/** A whole number of plain digits up to 2^53 - 1, beyond which lengths would lose bytes; -1 for anything else. */
function plainDigits(text: string): number {
  if (text.length === 0 || text.length > 20) return -1;
  let length = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c < code.zero || c > code.nine) return -1;
    length = length * 10 + (c - code.zero);
  }
  return length > Number.MAX_SAFE_INTEGER ? -1 : length;
}

/** Options found in Connection fields (RFC 9110 §7.6.1), as bits. */
export const option = { close: 1, keepAlive: 2, upgrade: 4 } as const;

/** The options of one Connection value that matter to the engine; the common spellings cost one comparison. */
export function connectionOptions(value: string): number {
  if (value === 'keep-alive' || value === 'Keep-Alive') return option.keepAlive;
  if (value === 'close') return option.close;
  if (value === 'Upgrade' || value === 'upgrade') return option.upgrade;
  let found = 0;
  for (const each of value.split(',')) {
    const token = trimBlanks(each).toLowerCase();
    if (token === 'close') found |= option.close;
    else if (token === 'keep-alive') found |= option.keepAlive;
    else if (token === 'upgrade') found |= option.upgrade;
  }
  return found;
}

/** HTTP/1.1 persists unless told otherwise, HTTP/1.0 only when told so (RFC 9112 §9.3). */
export function persists(version: number, options: number): boolean {
  if ((options & option.close) !== 0) return false;
  return version === 11 || (options & option.keepAlive) !== 0;
}

/** True when the lines of this field name the token `lower` (any case) and no other. */
export function namesOnly(fields: Fields, id: number, lower: string): boolean {
  let found = false;
  for (let i = fields.ids.indexOf(id); i >= 0; i = fields.ids.indexOf(id, i + 1)) {
    for (const each of fields.values[i]!.split(',')) {
      const token = trimBlanks(each).toLowerCase();
      if (token === '') continue;
      if (token !== lower) return false;
      found = true;
    }
  }
  return found;
}
