// A token bucket per client address for one route.
// Invariant: memory is bounded by `maxClients` buckets however many addresses come; forgetting one only favours a client.
import { isIPv6 } from 'node:net';
import type { RateLimit } from '../model/snapshot.ts';

interface Bucket {
  tokens: number;
  /** Monotonic milliseconds of the last refill. */
  at: number;
}

const maxClients = 65_536;

export class RateLimiter {
  readonly #perMs: number;
  readonly #burst: number;
  /** Two generations: when the young one is full, the old one is forgotten. No order to keep, no timer to run. */
  #young = new Map<string, Bucket>();
  #old = new Map<string, Bucket>();

  /** @param workers  each worker grants its share: clients spread over workers by connection */
  constructor(limit: RateLimit, workers: number) {
    this.#perMs = limit.perSecond / workers / 1000;
    this.#burst = Math.max(1, limit.burst / workers);
  }

  /** 0: go on. Else milliseconds until the next token. */
  take(address: string, now: number): number {
    const bucket = this.#bucket(limitKey(address), now);
    bucket.tokens = Math.min(this.#burst, bucket.tokens + (now - bucket.at) * this.#perMs);
    bucket.at = now;
    if (bucket.tokens >= 1) {
      bucket.tokens -= 1;
      return 0;
    }
    return (1 - bucket.tokens) / this.#perMs;
  }

  #bucket(key: string, now: number): Bucket {
    let bucket = this.#young.get(key);
    if (bucket !== undefined) return bucket;
    bucket = this.#old.get(key) ?? { tokens: this.#burst, at: now };
    if (this.#young.size >= maxClients / 2) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, bucket);
    return bucket;
  }
}

/** One IPv6 client owns a /64 at least: counting single addresses would let it take a fresh bucket for every request. */
export function limitKey(address: string): string {
  if (!isIPv6(address)) return address;
  const [left = '', right] = address.split('%')[0]!.split('::');
  const groups = left === '' ? [] : left.split(':');
  if (right !== undefined) {
    const tail = right === '' ? [] : right.split(':');
    // A dotted tail (::ffff:1.2.3.4) stands for two groups; it never reaches into the first four of a real client.
    const size = tail.length + (right.includes('.') ? 1 : 0);
    while (groups.length + size < 8) groups.push('0');
    groups.push(...tail);
  }
  return groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, '').toLowerCase())
    .join(':');
}
