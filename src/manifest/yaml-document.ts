// YAML text → the tree that the forms read, with the place of every key and value. Core schema of YAML 1.2 (chapter 10.3).
// Invariant: one document of plain data. Tags, directives, merge keys and keys that are written twice are refused rather
// than interpreted; tokens, depth and what aliases expand to are bounded before anything is built from them.
import type { Alias, Document as Composed, CST, LineCounter, ParsedNode, Scalar } from 'yaml';
import { lazyModule } from '../base/lazy-module.ts';
import { Document, type Node, type PlaceTree, type Position, type SyntaxFault } from '../config/syntax.ts';
import { deepest } from './depth.ts';
import { coreScalar } from './yaml-scalar.ts';

const yaml = lazyModule<typeof import('yaml')>('yaml');

/** A manifest of a few hundred lines has some thousands. */
const mostTokens = 20_000;
/** Values after aliases were replaced by what they refer to. */
const mostNodes = 5_000;

export type ParsedYaml =
  | { readonly ok: true; readonly document: Document }
  | { readonly ok: false; readonly faults: readonly SyntaxFault[] };

export function parseYaml(text: string, file: string): ParsedYaml {
  const lines = new (yaml().LineCounter)();
  try {
    const composed = compose(text, lines);
    const builder = new TreeBuilder(composed, lines);
    const { node, place } = builder.build();
    if (builder.faults.length > 0) return { ok: false, faults: builder.faults };
    if (node.kind === 'table') return { ok: true, document: new Document(file, node, place) };
    throw new Refused(0, 'is not a mapping with the key "app"');
  } catch (error) {
    if (error instanceof Refused)
      return { ok: false, faults: [{ ...lineAt(lines, error.offset), message: error.message }] };
    throw error;
  }
}

/** Ends the reading: what follows would be read on a wrong footing. */
class Refused extends Error {
  readonly offset: number;

  constructor(offset: number, message: string) {
    super(message);
    this.offset = offset;
  }
}

function lineAt(lines: LineCounter, offset: number): Position {
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

const second = 'is a second document; a file holds one manifest';

// ---- tokens to a document --------------------------------------------------------------------------------------

function compose(text: string, lines: LineCounter): Composed.Parsed {
  const parser = new (yaml().Parser)(lines.addNewLine);
  // Plain scalars stay text here; what they mean is decided below, and keys are compared there too.
  const composer = new (yaml().Composer)({ schema: 'failsafe', uniqueKeys: false, prettyErrors: false });
  const documents: Composed.Parsed[] = [];
  lines.addNewLine(0);
  let tokens = 0;
  let begun = false;
  for (const source of new (yaml().Lexer)().lex(text)) {
    if (++tokens > mostTokens) throw new Refused(parser.offset, 'has more parts than any manifest');
    const type = yaml().CST.tokenType(source);
    refuseToken(type, source, parser.offset);
    if (type === 'doc-start' && begun) throw new Refused(parser.offset, second);
    begun ||= type !== 'comment' && type !== 'newline' && type !== 'space' && type !== 'doc-mode';
    for (const token of parser.next(source)) {
      // The first error ends it: what comes after may be thousands of consequences.
      if (token.type === 'error') throw new Refused(token.offset, `not YAML: ${lowerFirst(token.message)}`);
      documents.push(...composer.next(token));
    }
    if (parser.stack.length > deepest + 4) throw new Refused(parser.offset, 'is nested too deeply');
  }
  for (const token of parser.end()) documents.push(...composer.next(token));
  documents.push(...composer.end());
  const [first, other] = documents;
  const error = documents.flatMap((each) => each.errors)[0];
  if (error !== undefined) throw new Refused(error.pos[0], `not YAML: ${lowerFirst(error.message)}`);
  if (other !== undefined) throw new Refused(other.contents?.range[0] ?? other.range[0], second);
  if (first === undefined || first.contents === null) throw new Refused(0, 'holds nothing');
  return first;
}

function refuseToken(type: CST.TokenType | null, source: string, offset: number): void {
  switch (type) {
    case 'tag':
      throw new Refused(offset, `has a tag, ${shown(source)}: values are plain; quote what shall be text`);
    case 'directive-line':
      throw new Refused(offset, `has a directive, ${shown(source)}: YAML is read as version 1.2`);
    case 'byte-order-mark':
      throw new Refused(offset, 'has a byte order mark');
    default:
  }
}

function shown(source: string): string {
  return JSON.stringify(source.length > 40 ? `${source.slice(0, 37)}…` : source);
}

function lowerFirst(message: string): string {
  const [first = ''] = message.split('\n');
  return first.charAt(0).toLowerCase() + first.slice(1);
}

// ---- document to a tree ----------------------------------------------------------------------------------------

interface Built {
  readonly node: Node;
  readonly place: PlaceTree;
}

class TreeBuilder {
  readonly faults: SyntaxFault[] = [];
  readonly #lines: LineCounter;
  readonly #root: ParsedNode;
  readonly #targets = new Map<Alias, ParsedNode>();
  /** Nodes that are being built: an alias to one of them would have no end. */
  readonly #open = new Set<ParsedNode>();
  #nodes = 0;

  constructor(composed: Composed.Parsed, lines: LineCounter) {
    this.#lines = lines;
    this.#root = composed.contents!;
    this.#resolve(this.#root, new Map());
  }

  build(): Built {
    return this.#node(this.#root, { line: 1, column: 1 }, false, 0);
  }

  /** An alias means the last node with its anchor before it (YAML 1.2, 7.1). */
  #resolve(node: ParsedNode, anchors: Map<string, ParsedNode>): void {
    if (yaml().isAlias(node)) {
      const target = anchors.get(node.source);
      if (target === undefined) throw new Refused(node.range[0], `*${node.source} has no anchor before it`);
      this.#targets.set(node, target);
      return;
    }
    if (node.anchor !== undefined) anchors.set(node.anchor, node);
    if (yaml().isMap(node)) {
      for (const { key, value } of node.items) {
        if (key !== null) this.#resolve(key as ParsedNode, anchors);
        if (value !== null) this.#resolve(value as ParsedNode, anchors);
      }
    } else if (yaml().isSeq(node)) for (const item of node.items) this.#resolve(item as ParsedNode, anchors);
  }

  #node(written: ParsedNode, key: Position, bare: boolean, depth: number): Built {
    const node = yaml().isAlias(written) ? this.#targets.get(written)! : written;
    if (++this.#nodes > mostNodes) throw new Refused(written.range[0], 'has more values than any manifest');
    if (depth > deepest) throw new Refused(written.range[0], 'is nested too deeply');
    const value = this.#position(node.range[0]);
    if (yaml().isScalar(node)) {
      const scalar = coreScalar(node as Scalar<string>);
      return { node: scalar, place: { key, value, bare, raw: scalar.raw, children: new Map() } };
    }
    if (!yaml().isCollection(node)) throw new Refused(written.range[0], 'is not plain data');
    if (this.#open.has(node)) throw new Refused(written.range[0], 'refers to what it is part of');
    this.#open.add(node);
    const place: PlaceTree = { key, value, bare, raw: '', children: new Map() };
    const built = yaml().isMap(node) ? this.#table(node, place, depth) : this.#list(node, place, depth);
    this.#open.delete(node);
    return { node: built, place };
  }

  #list(seq: ParsedNode & { readonly items: readonly unknown[] }, place: PlaceTree, depth: number): Node {
    const items = seq.items.map((item, i) => {
      const written = item as ParsedNode;
      const built = this.#node(written, this.#position(written.range[0]), true, depth + 1);
      place.children.set(i, built.place);
      return built.node;
    });
    return { kind: 'array', items };
  }

  #table(map: ParsedNode & { readonly items: readonly unknown[] }, place: PlaceTree, depth: number): Node {
    const entries = new Map<string, Node>();
    for (const pair of map.items as readonly { readonly key: ParsedNode; readonly value: ParsedNode | null }[]) {
      const { key, value } = pair;
      const at = this.#position(key.range[0]);
      const name = this.#nameOf(key);
      if (name === null) continue;
      const twin = place.children.get(name);
      if (twin !== undefined) {
        this.faults.push({ ...at, message: `the key ${shown(name)} is written twice (line ${twin.key.line})` });
        continue;
      }
      const bare = yaml().isScalar(key) && key.type === 'PLAIN';
      const built: Built =
        value === null
          ? {
              node: { kind: 'null', value: null, raw: '' },
              place: { key: at, value: at, bare, raw: '', children: new Map() },
            }
          : this.#node(value, at, bare, depth + 1);
      entries.set(name, built.node);
      place.children.set(name, { ...built.place, key: at });
    }
    return { kind: 'table', entries };
  }

  #nameOf(key: ParsedNode): string | null {
    const scalar = yaml().isAlias(key) ? null : key;
    const fault = (message: string): null => {
      this.faults.push({ ...this.#position(key.range[0]), message });
      return null;
    };
    if (!yaml().isScalar(scalar) || typeof scalar.value !== 'string')
      return fault('a key is plain text, not a structure or an alias');
    if (scalar.type !== 'PLAIN') return scalar.value;
    if (scalar.value === '<<') return fault('merge keys are not supported: write the keys out');
    return scalar.value;
  }

  #position(offset: number): Position {
    return lineAt(this.#lines, offset);
  }
}
