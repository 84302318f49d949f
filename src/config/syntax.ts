// TOML text → a tree that knows where every key and every value was written.
// Invariant: values are smol-toml's, places are toml-eslint-parser's; a text that either of them refuses gives no tree.
// Tables are Maps, so that a key called `__proto__` is a key like any other and reaches the check for unknown keys.
import { parse, TomlDate, TomlError, type TomlValue } from 'smol-toml';
import { type AST, ParseError, parseTOML } from 'toml-eslint-parser';

/** Both counted from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

export type Path = readonly (string | number)[];

export type Node = ScalarNode | ArrayNode | TableNode;

export type ScalarNode =
  | { readonly kind: 'string'; readonly value: string; readonly raw: string }
  | { readonly kind: 'integer'; readonly value: bigint; readonly raw: string }
  | { readonly kind: 'float'; readonly value: number; readonly raw: string }
  | { readonly kind: 'boolean'; readonly value: boolean; readonly raw: string }
  | { readonly kind: 'datetime'; readonly value: Date; readonly raw: string }
  // TOML has none; YAML has.
  | { readonly kind: 'null'; readonly value: null; readonly raw: string };

export interface ArrayNode {
  readonly kind: 'array';
  readonly items: readonly Node[];
}

export interface TableNode {
  readonly kind: 'table';
  readonly entries: ReadonlyMap<string, Node>;
}

/** Where a member was written: its name (or array item), and its value. */
export interface Place {
  readonly key: Position;
  readonly value: Position;
  /** The name was written without quotes. */
  readonly bare: boolean;
}

export interface PlaceTree extends Place {
  /** The value as written, for messages; '' for tables. */
  readonly raw: string;
  readonly children: Map<string | number, PlaceTree>;
}

export class Document {
  /** As the operator named it. */
  readonly file: string;
  readonly root: TableNode;
  readonly #places: PlaceTree;

  constructor(file: string, root: TableNode, places: PlaceTree) {
    this.file = file;
    this.root = root;
    this.#places = places;
  }

  /** The place of this path, or of its nearest ancestor that was written. */
  locate(path: Path): Place {
    let place = this.#places;
    for (const step of path) {
      const child = place.children.get(step);
      if (child === undefined) break;
      place = child;
    }
    return place;
  }

  /** True when this very path was written. */
  has(path: Path): boolean {
    let place: PlaceTree | undefined = this.#places;
    for (const step of path) {
      place = place.children.get(step);
      if (place === undefined) return false;
    }
    return true;
  }
}

/** Inline tables and arrays inside each other; the schema needs four. */
const maxDepth = 32;

export interface SyntaxFault extends Position {
  readonly message: string;
}

export function parseDocument(
  text: string,
  file: string,
): { ok: true; document: Document } | { ok: false; fault: SyntaxFault } {
  try {
    const values = parse(text, { integersAsBigInt: true, maxDepth });
    const places = placesOf(parseTOML(text, { tomlVersion: '1.1' }), text);
    return { ok: true, document: new Document(file, toNode(values, places) as TableNode, places) };
  } catch (error) {
    if (error instanceof TomlError) {
      const [first = ''] = error.message.replace(/^Invalid TOML document: /, '').split('\n');
      return { ok: false, fault: { line: error.line, column: error.column, message: first } };
    }
    if (error instanceof ParseError) {
      const { lineNumber: line, column } = error;
      return { ok: false, fault: { line, column: column + 1, message: error.message } };
    }
    // A name of ten thousand dotted parts is nobody's configuration.
    if (error instanceof RangeError) return { ok: false, fault: { line: 1, column: 1, message: 'nested too deeply' } };
    throw error;
  }
}

/** `external_routes."app.test".to[0]` */
export function formatPath(path: Path): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else text += (text === '' ? '' : '.') + formatKey(step);
  }
  return text;
}

export function formatKey(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : JSON.stringify(key);
}

function toNode(value: TomlValue, place: PlaceTree): Node {
  const { raw } = place;
  if (typeof value === 'string') return { kind: 'string', value, raw };
  if (typeof value === 'bigint') return { kind: 'integer', value, raw };
  if (typeof value === 'number') return { kind: 'float', value, raw };
  if (typeof value === 'boolean') return { kind: 'boolean', value, raw };
  if (value instanceof TomlDate) return { kind: 'datetime', value, raw };
  if (Array.isArray(value)) {
    return { kind: 'array', items: value.map((item, i) => toNode(item, child(place, i))) };
  }
  const entries = new Map<string, Node>();
  for (const [key, member] of Object.entries(value)) entries.set(key, toNode(member, child(place, key)));
  return { kind: 'table', entries };
}

/** Both parsers read the same text, so every value has its place; should one be missing, the parent's is near enough. */
function child(place: PlaceTree, step: string | number): PlaceTree {
  return place.children.get(step) ?? { ...place, children: new Map() };
}

// ---- places ----------------------------------------------------------------------------------------------------

function placesOf(program: AST.TOMLProgram, text: string): PlaceTree {
  const start = { line: 1, column: 1 };
  const root: PlaceTree = { key: start, value: start, bare: true, raw: '', children: new Map() };
  for (const node of program.body[0].body) {
    if (node.type === 'TOMLKeyValue') placeKeyValue(root, node, text);
    else placeTable(root, node, text);
  }
  return root;
}

/** `[a."b.c"]` or `[[a.list]]`: the resolved key holds the index of array items, the written one does not. */
function placeTable(root: PlaceTree, table: AST.TOMLTable, text: string): void {
  let place = root;
  let written = 0;
  for (const step of table.resolvedKey) {
    const name = table.key.keys[Math.max(0, typeof step === 'number' ? written - 1 : written++)]!;
    place = descend(place, step, name);
  }
  for (const member of table.body) placeKeyValue(place, member, text);
}

function placeKeyValue(parent: PlaceTree, node: AST.TOMLKeyValue, text: string): void {
  let place = parent;
  const names = node.key.keys;
  for (const name of names.slice(0, -1)) place = descend(place, keyOf(name), name);
  const last = names[names.length - 1]!;
  placeValue(place, keyOf(last), position(last), last.type === 'TOMLBare', node.value, text);
}

function placeValue(
  parent: PlaceTree,
  step: string | number,
  key: Position,
  bare: boolean,
  node: AST.TOMLContentNode,
  text: string,
): void {
  const raw = node.type === 'TOMLValue' ? text.slice(node.range[0], node.range[1]) : '';
  const place: PlaceTree = { key, value: position(node), bare, raw, children: new Map() };
  parent.children.set(step, place);
  if (node.type === 'TOMLArray') {
    node.elements.forEach((element, i) => {
      placeValue(place, i, position(element), true, element, text);
    });
  } else if (node.type === 'TOMLInlineTable') {
    for (const member of node.body) placeKeyValue(place, member, text);
  }
}

function descend(parent: PlaceTree, step: string | number, name: AST.TOMLBare | AST.TOMLQuoted): PlaceTree {
  const found = parent.children.get(step);
  if (found !== undefined) return found;
  const at = position(name);
  const place: PlaceTree = { key: at, value: at, bare: name.type === 'TOMLBare', raw: '', children: new Map() };
  parent.children.set(step, place);
  return place;
}

function keyOf(name: AST.TOMLBare | AST.TOMLQuoted): string {
  return name.type === 'TOMLBare' ? name.name : name.value;
}

function position(node: { readonly loc: AST.SourceLocation }): Position {
  return { line: node.loc.start.line, column: node.loc.start.column + 1 };
}
