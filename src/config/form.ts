// The forms a value may take, as data: each can say what it accepts, read a value, and list the keys below it.
// Invariant: reading never throws and never stops at the first problem; a value that is refused is told to the findings
// and reads as undefined, and a table puts the default (or null) in its place so that the rest can be checked too.
import type { Findings } from './problem.ts';
import { nearest } from './suggest.ts';
import { formatKey, type Node, type Path, type TableNode } from './syntax.ts';

export interface Form<T> {
  /** Completes "accepted: …". */
  readonly accepts: string;
  /** The keys of a table with fixed names, for the documentation; null when there are none. */
  readonly keys: Keys | null;
  /** The form of each member of a table with free names, or of each item of a list. */
  readonly members: Form<unknown> | null;
  /** The same for editors, as JSON Schema: never stricter than `read`, and {} where nothing can be said. */
  readonly json: JsonSchema;
  read(node: Node, path: Path, findings: Findings): T | undefined;
}

export type JsonSchema = Readonly<Record<string, unknown>>;

/** Why a value is refused, when its kind is right. `accepts` replaces the form's own sentence. */
export class Refusal {
  readonly why: string;
  readonly accepts: string | null;

  constructor(why: string, accepts: string | null = null) {
    this.why = why;
    this.accepts = accepts;
  }
}

// ---- keys of tables --------------------------------------------------------------------------------------------

export interface Key<T> {
  readonly kind: 'key';
  readonly form: Form<T>;
  /** One sentence, or two. */
  readonly doc: string;
  /** As TOML; null: no default, the key may be left out and then means nothing. */
  readonly fallback: string | null;
  /** What stands for the key when it is left out. */
  readonly absent: T | null;
  readonly required: boolean;
  /** As TOML. */
  readonly example: string;
}

/** A key that belongs elsewhere: refused with a sentence of its own. */
export interface RefusedKey {
  readonly kind: 'refused';
  readonly why: string;
  readonly instead: string;
}

export type Keys = Readonly<Record<string, Key<unknown> | RefusedKey>>;

/** What a table with these keys reads as: a key without a default may be null. */
export type Read<K extends Keys> = {
  readonly [N in keyof K as K[N] extends RefusedKey ? never : N]: K[N] extends { readonly present: infer T }
    ? T
    : never;
};

/** What a form reads. */
export type Value<F> = F extends Form<infer T> ? T : never;

/** The type parameter of `Read`, never a value. */
type Present<P> = { readonly present: P };

export function required<T>(form: Form<T>, doc: string, example: string): Key<T> & Present<T> {
  return asKey({ kind: 'key', form, doc, fallback: null, absent: null, required: true, example });
}

/** Required too; when it is missing or refused `standIn` takes its place, so that the rest of its table can be checked. */
export function needed<T>(form: Form<T>, doc: string, example: string, standIn: T): Key<T> & Present<T> {
  return asKey({ kind: 'key', form, doc, fallback: null, absent: standIn, required: true, example });
}

export function optional<T>(form: Form<T>, doc: string, example: string): Key<T> & Present<T | null> {
  return asKey({ kind: 'key', form, doc, fallback: null, absent: null, required: false, example });
}

/** @param fallback  the default, as TOML; `absent` is what it means */
export function defaulted<T>(
  form: Form<T>,
  doc: string,
  fallback: string,
  absent: T,
  example: string = fallback,
): Key<T> & Present<T> {
  return asKey({ kind: 'key', form, doc, fallback, absent, required: false, example });
}

function asKey<T, P>(key: Key<T>): Key<T> & Present<P> {
  return key as Key<T> & Present<P>;
}

export function misplaced(why: string, instead: string): RefusedKey {
  return { kind: 'refused', why, instead };
}

// ---- scalars ---------------------------------------------------------------------------------------------------

interface Kinds {
  string: string;
  integer: bigint;
  float: number;
  boolean: boolean;
}

const kindNames = {
  string: 'a string',
  integer: 'an integer',
  float: 'a float',
  boolean: 'a boolean',
  datetime: 'a date or time',
  null: 'null',
  array: 'a list',
  table: 'a table',
} as const;

const jsonTypes = { string: 'string', integer: 'integer', float: 'number', boolean: 'boolean' } as const;

/** @param json  what JSON Schema can say beside the type */
export function scalar<K extends keyof Kinds, T>(
  kind: K,
  accepts: string,
  convert: (value: Kinds[K], path: Path) => T | Refusal,
  json: JsonSchema = {},
): Form<T> {
  return {
    accepts,
    keys: null,
    members: null,
    json: { type: jsonTypes[kind], ...json },
    read(node, path, findings) {
      if (node.kind !== kind) {
        const unquoted = kind === 'string' && 'raw' in node && node.raw !== '' && acceptsText(node.raw, path);
        const hint = unquoted ? `: quote it, ${quote(node.raw)}` : '';
        findings.error(path, `${show(node)} is ${kindNames[node.kind]}, not ${kindNames[kind]}${hint}`, accepts);
        return undefined;
      }
      const result = convert(node.value as Kinds[K], path);
      if (!(result instanceof Refusal)) return result;
      findings.error(path, result.why, result.accepts ?? accepts);
      return undefined;
    },
  };
  function acceptsText(raw: string, path: Path): boolean {
    return !(convert(raw as Kinds[K], path) instanceof Refusal);
  }
}

export function text<T>(
  accepts: string,
  convert: (value: string, path: Path) => T | Refusal,
  json: JsonSchema = {},
): Form<T> {
  return scalar('string', accepts, convert, json);
}

export const flag: Form<boolean> = scalar('boolean', 'true or false', (value) => value);

/** One word of a list. */
export function choice<const T extends string>(what: string, words: readonly T[]): Form<T> {
  const convert = (value: string): T | Refusal => {
    const word = words.find((each) => each === value);
    if (word !== undefined) return word;
    const near = nearest(value, words);
    return new Refusal(`${quote(value)} is not ${what}${near === null ? '' : `; did you mean "${near}"?`}`);
  };
  return text(alternatives(words.map((word) => JSON.stringify(word))), convert, { enum: words });
}

export function integerChoice<const T extends number>(what: string, numbers: readonly T[]): Form<T> {
  const convert = (value: bigint): T | Refusal =>
    numbers.find((each) => BigInt(each) === value) ?? new Refusal(`${value} is not ${what}`);
  return scalar('integer', alternatives(numbers.map(String)), convert, { enum: numbers });
}

// ---- alternatives, lists and tables ----------------------------------------------------------------------------

/** Several forms told apart by the kind of value written. */
export function either<T>(accepts: string, forms: { readonly [kind in Node['kind']]?: Form<T> }): Form<T> {
  const table = forms.table ?? forms.array;
  return {
    accepts,
    keys: table?.keys ?? null,
    members: table?.members ?? null,
    json: { anyOf: [...new Set(Object.values(forms).map((form) => form.json))] },
    read(node, path, findings) {
      const form = forms[node.kind];
      if (form !== undefined) return form.read(node, path, findings);
      findings.error(path, `${show(node)} is ${kindNames[node.kind]}`, accepts);
      return undefined;
    },
  };
}

/** The same form with more to say to editors. */
export function described<T>(form: Form<T>, json: JsonSchema): Form<T> {
  return { ...form, json: { ...form.json, ...json } };
}

/** The same value read into another shape. */
export function mapped<A, B>(form: Form<A>, convert: (value: A) => B): Form<B> {
  return {
    accepts: form.accepts,
    keys: form.keys,
    members: form.members,
    json: form.json,
    read(node, path, findings) {
      const value = form.read(node, path, findings);
      return value === undefined ? undefined : convert(value);
    },
  };
}

/** @param rules  `least`: how many items there must be; `identity`: items of equal identity are refused */
export function list<T>(
  accepts: string,
  item: Form<T>,
  rules: { least?: number; identity?: (item: T) => string } = {},
) {
  const form: Form<readonly T[]> = {
    accepts,
    keys: null,
    members: item,
    json: { type: 'array', items: item.json, ...(rules.least === undefined ? {} : { minItems: rules.least }) },
    read(node, path, findings) {
      if (node.kind !== 'array') {
        findings.error(path, `${show(node)} is ${kindNames[node.kind]}, not a list`, accepts);
        return undefined;
      }
      if (node.items.length < (rules.least ?? 0)) {
        findings.error(path, 'is empty', accepts);
        return undefined;
      }
      const items: T[] = [];
      const seen = new Map<string, number>();
      for (const [i, member] of node.items.entries()) {
        const value = item.read(member, [...path, i], findings);
        if (value === undefined) continue;
        const identity = rules.identity?.(value);
        const twin = identity === undefined ? undefined : seen.get(identity);
        if (twin !== undefined) {
          findings.error([...path, i], `${show(member)} is the same as item ${twin + 1}`, 'each item once');
          continue;
        }
        if (identity !== undefined) seen.set(identity, i);
        items.push(value);
      }
      return items;
    },
  };
  return form;
}

/** A table of a list, with its place in the file: a table that could not be read leaves a gap. */
export interface Item<T> {
  readonly index: number;
  readonly value: T;
}

/** `[[name]]` tables. */
export function tables<T>(accepts: string, table: Form<T>): Form<readonly Item<T>[]> {
  return {
    accepts,
    keys: null,
    members: table,
    json: { type: 'array', items: table.json },
    read(node, path, findings) {
      if (node.kind !== 'array') {
        findings.error(path, `${show(node)} is ${kindNames[node.kind]}, not a list`, accepts);
        return undefined;
      }
      const items: Item<T>[] = [];
      for (const [index, member] of node.items.entries()) {
        const value = table.read(member, [...path, index], findings);
        if (value !== undefined) items.push({ index, value });
      }
      return items;
    },
  };
}

/** A table whose names are the operator's. `name` judges each of them; the values keep the written order. */
export function named<T>(
  accepts: string,
  member: Form<T>,
  name: (name: string) => Refusal | null,
): Form<ReadonlyMap<string, T>> {
  return {
    accepts,
    keys: null,
    members: member,
    json: { type: 'object', additionalProperties: member.json },
    read(node, path, findings) {
      if (node.kind !== 'table') {
        findings.error(path, `${show(node)} is ${kindNames[node.kind]}, not a table`, accepts);
        return undefined;
      }
      const values = new Map<string, T>();
      for (const [key, value] of node.entries) {
        const at = [...path, key];
        const refusal = name(key);
        if (refusal !== null) findings.error(at, refusal.why, refusal.accepts ?? accepts, 'key');
        const read = member.read(value, at, findings);
        if (refusal === null && read !== undefined) values.set(key, read);
      }
      return values;
    },
  };
}

/** A table with fixed names. Unknown ones are refused with the nearest known one. */
export function table<K extends Keys>(what: string, keys: K): Form<Read<K>> {
  const accepts = `a table with the keys ${Object.keys(keys)
    .filter((name) => keys[name]!.kind === 'key')
    .join(', ')}`;
  return {
    accepts,
    keys,
    members: null,
    json: tableJson(keys),
    read(node, path, findings) {
      if (node.kind !== 'table') {
        findings.error(path, `${show(node)} is ${kindNames[node.kind]}, not a table`, accepts);
        return undefined;
      }
      refuseUnknown(what, keys, node, path, findings);
      const result: Record<string, unknown> = {};
      let whole = true;
      for (const [name, key] of Object.entries(keys)) {
        if (key.kind === 'refused') continue;
        const member = node.entries.get(name);
        let value: unknown;
        if (member !== undefined) value = key.form.read(member, [...path, name], findings);
        else if (key.required) findings.error([...path, name], 'is missing', key.form.accepts, 'key');
        if (value === undefined && key.required && key.absent === null) whole = false;
        result[name] = value ?? key.absent;
      }
      return whole ? (result as Read<K>) : undefined;
    },
  };
}

/**
 * A table with fixed names among names that are the operator's: tables under other names are read as members. `judge`
 * judges those names.
 */
export function openTable<K extends Keys, T>(
  what: string,
  keys: K,
  accepts: string,
  member: Form<T>,
  judge: (name: string) => Refusal | null,
): Form<Read<K> & { readonly others: ReadonlyMap<string, T> }> {
  const fixed = table(what, keys);
  const others = named(accepts, member, judge);
  return {
    accepts: `${fixed.accepts}, and ${accepts}`,
    keys,
    members: member,
    json: { ...fixed.json, additionalProperties: member.json },
    read(node, path, findings) {
      if (node.kind !== 'table') return fixed.read(node, path, findings) as undefined;
      const free = [...node.entries].filter(([name, value]) => !Object.hasOwn(keys, name) && value.kind === 'table');
      const rest = [...node.entries].filter(([name, value]) => Object.hasOwn(keys, name) || value.kind !== 'table');
      const read = fixed.read({ kind: 'table', entries: new Map(rest) }, path, findings);
      const members = others.read({ kind: 'table', entries: new Map(free) }, path, findings);
      return read === undefined || members === undefined ? undefined : { ...read, others: members };
    },
  };
}

function tableJson(keys: Keys): JsonSchema {
  const own = Object.entries(keys).filter((entry): entry is [string, Key<unknown>] => entry[1].kind === 'key');
  const required = own.filter(([, key]) => key.required).map(([name]) => name);
  return {
    type: 'object',
    properties: Object.fromEntries(own.map(([name, { form, doc }]) => [name, { description: doc, ...form.json }])),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
  };
}

/** A table in which nothing was written. */
export function defaultsOf<K extends Keys>(keys: K): Read<K> {
  const result: Record<string, unknown> = {};
  for (const [name, key] of Object.entries(keys)) if (key.kind === 'key') result[name] = key.absent;
  return result as Read<K>;
}

/** Names an operator may know from elsewhere. */
const synonyms: Readonly<Record<string, string>> = {
  backend: 'to',
  backends: 'to',
  bind: 'address',
  cmd: 'command',
  domain: 'host',
  environment: 'env',
  header_up: 'request_headers',
  header_down: 'response_headers',
  lb_policy: 'balance',
  hold: 'max_hold',
  hostname: 'host',
  hosts: 'aliases',
  listen: 'address',
  max_body: 'body_size',
  prefix: 'path',
  proxy_pass: 'to',
  reverse_proxy: 'to',
  server_name: 'aliases',
  servers: 'to',
  stop_grace_period: 'stop_grace',
  stop_timeout: 'stop_grace',
  target: 'to',
  targets: 'to',
  upstream: 'to',
  upstreams: 'to',
  verify_tls: 'upstream_tls',
};

function refuseUnknown(what: string, keys: Keys, node: TableNode, path: Path, findings: Findings): void {
  const known = Object.keys(keys).filter((name) => keys[name]!.kind === 'key');
  for (const name of node.entries.keys()) {
    const key = Object.hasOwn(keys, name) ? keys[name] : undefined;
    if (key?.kind === 'key') continue;
    const at = [...path, name];
    if (key?.kind === 'refused') {
      findings.error(at, key.why, key.instead, 'key');
      continue;
    }
    const synonym = Object.hasOwn(synonyms, name) ? synonyms[name]! : null;
    // What is secret is kept in a file of its own.
    const inFile = known.find((each) => each === `${name}_file`);
    const near = synonym !== null && known.includes(synonym) ? synonym : (inFile ?? nearest(name, known));
    const hint = near === null ? '' : `; did you mean ${near}?`;
    findings.error(
      at,
      `unknown key ${formatKey(name)} in ${what}${hint}`,
      near === null ? known.join(', ') : '',
      'key',
    );
  }
}

// ---- how values are shown --------------------------------------------------------------------------------------

export function show(node: Node): string {
  if (node.kind === 'array') return node.items.length === 0 ? '[]' : 'the value';
  if (node.kind === 'table' || (node.kind === 'null' && node.raw === '')) return 'the value';
  return node.kind === 'string' ? quote(node.value) : node.raw;
}

/** Quoted, control characters escaped, not longer than a line. */
export function quote(value: string): string {
  return JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}…` : value);
}

export function alternatives(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words[words.length - 1]}`;
}
