// A part of a snapshot on its way to a worker: bytes, and the proof that they arrived as they were.
// Invariant: what is opened is what was sealed; objects that one piece names twice are one object again.
import { createHash } from 'node:crypto';
import { deserialize, serialize } from 'node:v8';
import { Fault } from '../base/fault.ts';

export interface SealedPart {
  /** The first one holds everything but the items of long lists; each of the others holds some items of one list. */
  readonly pieces: readonly Uint8Array[];
  /** SHA-256 of all the bytes, hex. */
  readonly sha256: string;
}

type Members = Record<string, unknown>;

interface Items {
  readonly member: string;
  readonly items: readonly unknown[];
}

/** Items of a list in one piece: opening a thousand hosts takes a few milliseconds. */
const pieceItems = 1000;

/** Not JSON: routes share most of their limits and rules, which are written once a piece here. */
export function sealPart(part: object): SealedPart {
  const whole: Members = {};
  const pieces: Uint8Array[] = [];
  for (const [member, value] of Object.entries(part)) {
    const long = Array.isArray(value) && value.length > pieceItems;
    whole[member] = long ? [] : value;
    if (!long) continue;
    for (let at = 0; at < value.length; at += pieceItems) {
      pieces.push(serialize({ member, items: value.slice(at, at + pieceItems) } satisfies Items));
    }
  }
  pieces.unshift(serialize(whole));
  return { pieces, sha256: hash(pieces) };
}

/**
 * Opens a piece at a time and waits for `pause` after each, so that a worker that opens ten thousand routes goes on serving.
 * Throws `publish-refused` when the bytes are not those that were sealed.
 */
export async function openPart({ pieces, sha256 }: SealedPart, pause: () => Promise<void>): Promise<object> {
  if (hash(pieces) !== sha256) throw new Fault('publish-refused', 'a part arrived other than it was sent');
  const [first, ...lists] = pieces;
  const part = deserialize(first!) as Members;
  for (const piece of lists) {
    await pause();
    const { member, items } = deserialize(piece) as Items;
    (part[member] as unknown[]).push(...items);
  }
  return part;
}

function hash(pieces: readonly Uint8Array[]): string {
  const sha256 = createHash('sha256');
  for (const piece of pieces) sha256.update(piece);
  return sha256.digest('hex');
}
