// Field lines of a head or a trailer section (RFC 9112 §5) from latin-1 text into `Fields`.
// Invariant: what is returned as good consists of `token ":" OWS value OWS CRLF` lines and nothing else: no folding, no
// space before the colon, no CR, LF, NUL or other control byte inside a line.
import { FieldId, fieldIdOf } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import { code, isTokenCode, isValueCode } from './characters.ts';

/** Why a section was refused; `too many` is the only one that is about size. */
export type FieldLinesProblem =
  | 'bad field name'
  | 'bad field value'
  | 'folded or empty field line'
  | 'too many field lines';

/**
 * Reads the lines in `text[start, end)`, where `end` lies just after the last line's CRLF, and appends them to `fields`.
 * Returns null when every line is good.
 */
export function parseFieldLines(
  text: string,
  start: number,
  end: number,
  fields: Fields,
  maxCount: number,
): FieldLinesProblem | null {
  let at = start;
  while (at < end) {
    const nameStart = at;
    let c = text.charCodeAt(at);
    while (isTokenCode[c] === 1) c = text.charCodeAt(++at);
    if (at === nameStart) return c === code.colon ? 'bad field name' : 'folded or empty field line';
    // Anything but the colon here, a space above all, lets two parsers see two names (RFC 9112 §5.1).
    if (c !== code.colon) return 'bad field name';
    const name = text.slice(nameStart, at);
    c = text.charCodeAt(++at);
    while (c === code.space || c === code.tab) c = text.charCodeAt(++at);
    const valueStart = at;
    while (isValueCode[c] === 1) c = text.charCodeAt(++at);
    if (c !== code.cr || text.charCodeAt(at + 1) !== code.lf) return 'bad field value';
    const id = fieldIdOf(name);
    let valueEnd = at;
    while (valueEnd > valueStart && isBlank(text.charCodeAt(valueEnd - 1))) valueEnd--;
    // Behind `chunked` a tab makes some parsers see another coding: it stays, and the coding is refused.
    if (id === FieldId.TransferEncoding && text.lastIndexOf('\t', at) >= valueEnd) valueEnd = at;
    at += 2;
    if (fields.names.length === maxCount) return 'too many field lines';
    const value = text.slice(valueStart, valueEnd);
    // Written as we would write it, it need not be put together again; blanks of another kind or number are not passed on.
    const asWritten = valueStart === nameStart + name.length + 2 && text.charCodeAt(valueStart - 1) === code.space;
    fields.pushParsed(name, value, id, text, asWritten && valueEnd === at - 2 ? nameStart : -1);
  }
  return null;
}

function isBlank(c: number): boolean {
  return c === code.space || c === code.tab;
}

/** Without leading and trailing SP and HTAB; `trim` would take the obs-text byte 0xA0 away as well. */
export function trimBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}
