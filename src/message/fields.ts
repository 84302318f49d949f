// The header (or trailer) fields of one message, in wire order, original case, one entry a field line.
// Invariant: `names`, `values` and `ids` have the same length; a removed line keeps its place with id `Removed`; a live line
// can be written as one line, and where its text is kept as well, that text is the line.
import { FieldId, fieldIdOf } from './field-id.ts';

const unwritten = -1;
const inBlock = -2;

export interface SavedFields {
  readonly ids: readonly number[];
  readonly values: readonly string[];
}

/** Lines that many messages share, with their text made once. Names and values must be fit to be written. */
export class FieldBlock {
  readonly names: readonly string[];
  readonly values: readonly string[];
  readonly ids: readonly number[];
  readonly text: string;

  constructor(lines: readonly (readonly [name: string, value: string, id: number])[]) {
    this.names = lines.map(([name]) => name);
    this.values = lines.map(([, value]) => value);
    this.ids = lines.map(([, , id]) => id);
    this.text = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  }
}

/** Values are latin-1 strings: one character a byte, so bytes ≥ 0x80 pass unchanged. */
export class Fields {
  readonly names: string[] = [];
  readonly ids: number[] = [];
  readonly #values: string[] = [];
  /** Per line: where `#wire` has it exactly as `name: value CRLF`; `inBlock`, or `unwritten`. */
  readonly #starts: number[] = [];
  /** What the parsed lines were read from. */
  #wire = '';
  #block: FieldBlock | null = null;
  #blockAt = 0;

  /** Change one by `replace`. */
  get values(): readonly string[] {
    return this.#values;
  }

  /** Number of lines, removed ones included: the bound for index loops. */
  get length(): number {
    return this.names.length;
  }

  /** Appends a line whose id the caller already knows. One that could not be written as one line is born removed. */
  push(name: string, value: string, id: number): void {
    this.pushSafe(name, value, isOneLine(value) && (id !== FieldId.Other || isOneLine(name)) ? id : FieldId.Removed);
  }

  /** Appends a line of whose text there is nothing left to judge. */
  pushSafe(name: string, value: string, id: number): void {
    this.names.push(name);
    this.#values.push(value);
    this.ids.push(id);
    this.#starts.push(unwritten);
  }

  /** Appends a line that a strict parser read from `wire`; `start`: where it stands there just as it would be written. */
  pushParsed(name: string, value: string, id: number, wire: string, start: number): void {
    this.names.push(name);
    this.#values.push(value);
    this.ids.push(id);
    this.#starts.push(start);
    this.#wire = wire;
  }

  /** Appends lines that are the same for many messages. One block a message. */
  pushBlock(block: FieldBlock): void {
    this.#block = block;
    this.#blockAt = this.names.length;
    const { names, values, ids } = block;
    for (let i = 0; i < names.length; i++) {
      this.names.push(names[i]!);
      this.#values.push(values[i]!);
      this.ids.push(ids[i]!);
      this.#starts.push(inBlock);
    }
  }

  /** Another value in the same place, or none when it could not be written as one line. */
  replace(index: number, value: string): void {
    if (value === this.#values[index]) return;
    this.#values[index] = value;
    this.#starts[index] = unwritten;
    if (!isOneLine(value)) this.ids[index] = FieldId.Removed;
  }

  /** What `restore` needs to undo everything that was changed and appended since. */
  save(): SavedFields {
    return { ids: [...this.ids], values: [...this.#values] };
  }

  restore({ ids, values }: SavedFields): void {
    this.names.length = ids.length;
    this.ids.length = ids.length;
    this.#values.length = ids.length;
    this.#starts.length = ids.length;
    for (let i = 0; i < ids.length; i++) {
      this.replace(i, values[i]!);
      this.ids[i] = ids[i]!;
    }
  }

  /**
   * The lines as they are written, without those whose `ids[i] + 1` is 0 in `written`. Runs of lines that nobody touched
   * are taken as one piece from the text they came in.
   */
  text(written: Uint8Array): string {
    const { names, ids } = this;
    const values = this.#values;
    const starts = this.#starts;
    const count = ids.length;
    let text = '';
    for (let i = 0; i < count; ) {
      if (written[ids[i]! + 1] === 0) {
        i++;
        continue;
      }
      const start = starts[i]!;
      if (start >= 0) {
        let end = start;
        do {
          end += names[i]!.length + values[i]!.length + 4;
          i++;
        } while (i < count && starts[i] === end && written[ids[i]! + 1] === 1);
        text += this.#wire.slice(start, end);
      } else if (start === inBlock && i === this.#blockAt && this.#blockIsWhole(written)) {
        text += this.#block!.text;
        i += this.#block!.names.length;
      } else {
        text += names[i]! + ': ' + values[i]! + '\r\n';
        i++;
      }
    }
    return text;
  }

  #blockIsWhole(written: Uint8Array): boolean {
    const end = this.#blockAt + this.#block!.names.length;
    for (let i = this.#blockAt; i < end; i++) {
      if (this.#starts[i] !== inBlock || written[this.ids[i]! + 1] === 0) return false;
    }
    return true;
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
    return i < 0 ? null : this.#values[i]!;
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
      if (this.ids[i] === FieldId.Other && this.names[i]!.toLowerCase() === lower) return this.#values[i]!;
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
      if (this.ids[i] !== FieldId.Removed) yield [this.names[i]!, this.#values[i]!];
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
