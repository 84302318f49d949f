// A route's header rules with everything prepared that does not depend on the message.
// Invariant: rules run last, so an operator's word beats the client's, the backend's and our own.
import { FieldId, fieldIdOf } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import type { HeaderRules } from '../model/snapshot.ts';
import { isConnectionField } from './hop-by-hop.ts';

interface RuleLine {
  readonly name: string;
  readonly lower: string;
  readonly value: string;
  readonly id: number;
}

export interface CompiledRules {
  readonly empty: boolean;
  readonly remove: readonly RuleLine[];
  readonly set: readonly RuleLine[];
  readonly add: readonly RuleLine[];
}

export function compileRules(rules: HeaderRules): CompiledRules {
  const remove = rules.remove.map((name) => ruleLine(name, ''));
  const set = rules.set.map(([name, value]) => ruleLine(name, value));
  const add = rules.add.map(([name, value]) => ruleLine(name, value));
  return { empty: remove.length + set.length + add.length === 0, remove, set, add };
}

function ruleLine(name: string, value: string): RuleLine {
  // Fields travel as latin-1; a value written in UTF-8 keeps its bytes.
  return { name, lower: name.toLowerCase(), value: Buffer.from(value, 'utf8').toString('latin1'), id: fieldIdOf(name) };
}

export function applyRules(rules: CompiledRules, fields: Fields): void {
  if (rules.empty) return;
  for (const line of rules.remove) removeLine(line, fields);
  for (const line of rules.set) {
    removeLine(line, fields);
    fields.push(line.name, line.value, line.id);
  }
  for (const line of rules.add) fields.push(line.name, line.value, line.id);
}

/** True when a rule names this field: a twin of it spelled with `_` must then not reach the backend either. */
export function rulesName(rules: CompiledRules, lower: string): boolean {
  if (rules.empty) return false;
  const names = (line: RuleLine): boolean => line.lower === lower;
  return rules.remove.some(names) || rules.set.some(names) || rules.add.some(names);
}

function removeLine(line: RuleLine, fields: Fields): void {
  if (line.id !== FieldId.Other) {
    // Connection fields stay: they are never emitted, and the codecs still read them.
    if (!isConnectionField(line.id)) fields.remove(line.id);
    return;
  }
  const { ids, names } = fields;
  const { lower } = line;
  for (let i = 0; i < ids.length; i++) {
    if (ids[i] !== FieldId.Other) continue;
    const name = names[i]!;
    if (name.length === lower.length && (name === lower || name.toLowerCase() === lower)) fields.removeAt(i);
  }
}
