// The header (or trailer) fields of one message, in wire order, original case, one entry a field line.
// Invariant: `names`, `values` and `ids` have the same length; a removed line keeps its place with id `Removed`; a live line
// can be written as one line. Whoever replaces a value in place replaces it by text that `push` would have taken.
import { FieldId, fieldIdOf } from './field-id.ts';

/** Values are latin-1 strings: one character a byte, so bytes ≥ 0x80 pass unchanged. */
export class Fields {
  readonly names: string[] = [];
  readonly values: string[] = [];
  readonly ids: number[] = [];

  /** Number of lines, removed ones included: the bound for index loops. */
  get length(): number {
    return this.names.length;
  }

  /** Appends a line whose id the caller already knows. One that could not be written as one line is born removed. */
  push(name: string, value: string, id: number): void {
    this.pushParsed(name, value, isOneLine(value) && (id !== FieldId.Other || isOneLine(name)) ? id : FieldId.Removed);
  }

  /** Appends a line that came through a strict parser. */
  pushParsed(name: string, value: string, id: number): void {
    this.names.push(name);
    this.values.push(value);
    this.ids.push(id);
  }

  /** Appends a line, finding its id. */
  add(name: string, value: string): void {
    this.push(name, value, fieldIdOf(name));
  }

  /** Index of the first live line with this id, or -1. */
  indexOf(id: number): number {
    return this.ids.indexOf(id);
  }

  /** Value of the first live line with this id, or null. */
  get(id: number): string | null {
    const i = this.ids.indexOf(id);
    return i < 0 ? null : this.values[i]!;
  }

  has(id: number): boolean {
    return this.ids.indexOf(id) >= 0;
  }

  count(id: number): number {
    let n = 0;
    for (const each of this.ids) if (each === id) n++;
    return n;
  }

  removeAt(index: number): void {
    this.ids[index] = FieldId.Removed;
  }

  remove(id: number): void {
    for (let i = this.ids.indexOf(id); i >= 0; i = this.ids.indexOf(id, i + 1)) this.ids[i] = FieldId.Removed;
  }

  /** Removes every live line with this name (any case), known id or not. */
  removeNamed(name: string): void {
    const id = fieldIdOf(name);
    if (id !== FieldId.Other) {
      this.remove(id);
      return;
    }
    const lower = name.toLowerCase();
    for (let i = 0; i < this.ids.length; i++) {
      if (this.ids[i] === FieldId.Other && this.names[i]!.toLowerCase() === lower) this.ids[i] = FieldId.Removed;
    }
  }

  /** First live value of this name (any case), or null. For names without an id; not for the straight path. */
  getNamed(name: string): string | null {
    const id = fieldIdOf(name);
    if (id !== FieldId.Other) return this.get(id);
    const lower = name.toLowerCase();
    for (let i = 0; i < this.ids.length; i++) {
      if (this.ids[i] === FieldId.Other && this.names[i]!.toLowerCase() === lower) return this.values[i]!;
    }
    return null;
  }

  /** Replaces all lines of a known field by one at the end. */
  set(name: string, value: string, id: number): void {
    this.remove(id);
    this.push(name, value, id);
  }

  /** Live lines as [name, value] pairs, in order. */
  *entries(): IterableIterator<[string, string]> {
    for (let i = 0; i < this.ids.length; i++) {
      if (this.ids[i] !== FieldId.Removed) yield [this.names[i]!, this.values[i]!];
    }
  }

  static of(...pairs: readonly [string, string][]): Fields {
    const fields = new Fields();
    for (const [name, value] of pairs) fields.add(name, value);
    return fields;
  }
}

/**
 * No CR, LF or NUL, and nothing beyond latin-1, of which the wire would get the low byte: a line feed of U+010A. Better a
 * missing field than a second head.
 */
function isOneLine(text: string): boolean {
  if (text.length > 64) return !/[\0\r\n]|[^\x00-\xff]/.test(text);
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 0x0d || c === 0x0a || c === 0 || c > 0xff) return false;
  }
  return true;
}

/** True when a comma-separated token list (RFC 9110 §5.6.1) contains `lower`, compared without case. */
export function listHasToken(list: string, lower: string): boolean {
  if (list.length === lower.length && list.toLowerCase() === lower) return true;
  if (list.indexOf(',') < 0) return list.trim().toLowerCase() === lower;
  return list.split(',').some((token) => token.trim().toLowerCase() === lower);
}
