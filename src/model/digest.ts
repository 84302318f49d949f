// Digests that prove two processes hold the same data.
// Invariant: independent of key order and of how the object was built; arrays keep their order.
import { createHash } from 'node:crypto';

/** SHA-256, hex, over canonical JSON (sorted keys). `undefined` members do not count. */
export function digestOf(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex');
}

export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => {
    if (member === null || typeof member !== 'object' || Array.isArray(member)) return member;
    return Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
  });
}
