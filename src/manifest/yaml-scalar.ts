// What a scalar of YAML means: the core schema of YAML 1.2 (chapter 10.3.2), nothing of 1.1.
// Invariant: only a plain scalar can be anything but text; the spelling is kept, so that a form can ask for another one.
import type { Scalar } from 'yaml';
import type { ScalarNode } from '../config/syntax.ts';

const nothing = /^(?:~|null|Null|NULL)?$/;
const truth = /^(?:true|True|TRUE)$/;
const falsehood = /^(?:false|False|FALSE)$/;
const integer = /^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$/;
const float = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;
const infinity = /^[-+]?\.(?:inf|Inf|INF)$/;
const notANumber = /^\.(?:nan|NaN|NAN)$/;

/** More digits than this are no number that anybody counts with. */
const mostDigits = 40;

export function coreScalar({ value, type, source }: Scalar<string>): ScalarNode {
  if (type !== 'PLAIN') return { kind: 'string', value, raw: value };
  const raw = source ?? value;
  if (nothing.test(value)) return { kind: 'null', value: null, raw };
  if (truth.test(value)) return { kind: 'boolean', value: true, raw };
  if (falsehood.test(value)) return { kind: 'boolean', value: false, raw };
  if (value.length <= mostDigits && integer.test(value)) return { kind: 'integer', value: BigInt(value), raw };
  if (float.test(value)) return { kind: 'float', value: Number(value), raw };
  if (infinity.test(value)) return { kind: 'float', value: value.startsWith('-') ? -Infinity : Infinity, raw };
  if (notANumber.test(value)) return { kind: 'float', value: Number.NaN, raw };
  return { kind: 'string', value, raw };
}
