// Which of several backends takes the next request: pure choosers over what is known about them at this moment.
// Invariant: no chooser allocates or remembers; the same arguments give the same index, in every worker.

/** Whether a backend may be chosen: `out` never, `limited` when no other is `open`. */
export const Standing = { out: 0, limited: 1, open: 2 } as const;
export type Standing = (typeof Standing)[keyof typeof Standing];

export interface Candidate {
  readonly address: string;
  /** `hashText(address)`. */
  readonly addressHash: number;
  /** Exchanges in work, or waiting for a connection. */
  readonly inflight: number;
  /** One more exchange would find or open a connection at once. */
  readonly hasRoom: boolean;
  standing(now: number): Standing;
}

/** The least busy one; ties go round, beginning at `start`. -1: none has at least this standing. */
export function leastRequests(
  candidates: readonly Candidate[],
  start: number,
  now: number,
  least: Standing,
  avoid: string | null,
): number {
  const count = candidates.length;
  let best = -1;
  let fewest = Number.POSITIVE_INFINITY;
  for (let i = 0; i < count; i++) {
    const index = (start + i) % count;
    const candidate = candidates[index]!;
    if (candidate.inflight >= fewest || candidate.address === avoid || candidate.standing(now) < least) continue;
    best = index;
    fewest = candidate.inflight;
  }
  return best;
}

/** The next one from `start` on that has room; when all are full, the next one. */
export function roundRobin(
  candidates: readonly Candidate[],
  start: number,
  now: number,
  least: Standing,
  avoid: string | null,
): number {
  const count = candidates.length;
  let full = -1;
  for (let i = 0; i < count; i++) {
    const index = (start + i) % count;
    const candidate = candidates[index]!;
    if (candidate.address === avoid || candidate.standing(now) < least) continue;
    if (candidate.hasRoom) return index;
    if (full < 0) full = index;
  }
  return full;
}

/**
 * Rendezvous hashing: every backend is scored against the key, the highest score wins. When a backend leaves, only the
 * keys that it had won move; when it comes back, exactly those return.
 */
export function rendezvous(
  candidates: readonly Candidate[],
  keyHash: number,
  now: number,
  least: Standing,
  avoid: string | null,
): number {
  let best = -1;
  let highest = -1;
  for (let i = 0; i < candidates.length; i++) {
    const candidate = candidates[i]!;
    if (candidate.address === avoid || candidate.standing(now) < least) continue;
    const score = mix(keyHash + Math.imul(candidate.addressHash, 0x9e3779b1));
    if (score <= highest) continue;
    best = i;
    highest = score;
  }
  return best;
}

/** FNV-1a over the character codes, 32 bits, then mixed. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mix(hash);
}

/** Spreads every input bit over all 32 output bits (the finaliser of MurmurHash3). */
function mix(value: number): number {
  let h = value | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
