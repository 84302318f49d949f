// Digests that prove two processes hold the same data.
// Invariant: `digestOf` is independent of key order and of how the object was built; arrays keep their order.
import { createHash } from 'node:crypto';

/** SHA-256, hex, over canonical JSON (sorted keys). `undefined` members do not count. */
export function digestOf(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex');
}

/**
 * By which parts of snapshots are told apart. Depends on the order of keys: for ten thousand routes it costs a third of
 * `digestOf`, and a part that is built in another order is published once more, at worst.
 */
export function digestOfPart(part: object): string {
  return createHash('sha256').update(JSON.stringify(part)).digest('hex');
}

export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => {
    if (member === null || typeof member !== 'object' || Array.isArray(member)) return member;
    return Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
  });
}
