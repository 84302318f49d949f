// A part of a snapshot on its way to a worker: bytes, and the proof that they arrived as they were.
// Invariant: what is opened is what was sealed; objects that a part names twice are one object again.
import { createHash } from 'node:crypto';
import { deserialize, serialize } from 'node:v8';
import { Fault } from '../base/fault.ts';

export interface SealedPart {
  readonly bytes: Uint8Array;
  /** SHA-256 of the bytes, hex. */
  readonly sha256: string;
}

/**
 * Not JSON: ten thousand routes share most of their limits and rules, which are written once here.
 */
export function sealPart(part: object): SealedPart {
  const bytes = serialize(part);
  return { bytes, sha256: hash(bytes) };
}

/** Throws `publish-refused` when the bytes are not those that were sealed. */
export function openPart({ bytes, sha256 }: SealedPart): object {
  if (hash(bytes) !== sha256) throw new Fault('publish-refused', 'a part arrived other than it was sent');
  return deserialize(bytes) as object;
}

const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
