import { describe, expect, it } from 'vitest';
import {
  type Candidate,
  hashText,
  leastRequests,
  rendezvous,
  roundRobin,
  Standing,
} from '../../src/upstream/balance.ts';

interface Fake extends Candidate {
  inflight: number;
  hasRoom: boolean;
  stand: Standing;
}

function fake(address: string, inflight = 0, stand: Standing = Standing.open): Fake {
  return { address, addressHash: hashText(address), inflight, hasRoom: true, stand, standing: () => stand };
}

const names = (count: number): Fake[] => Array.from({ length: count }, (_, i) => fake(`10.0.0.${i + 1}:80`));

describe('least requests', () => {
  it('takes the backend with the fewest exchanges in work', () => {
    const backends = [fake('a', 3), fake('b', 1), fake('c', 2)];
    for (let start = 0; start < 3; start++) expect(leastRequests(backends, start, 0, Standing.open, null)).toBe(1);
  });

  it('goes round among equals', () => {
    const backends = names(3);
    expect([0, 1, 2].map((start) => leastRequests(backends, start, 0, Standing.open, null))).toEqual([0, 1, 2]);
  });

  it('leaves out what may not be chosen and what just failed', () => {
    const backends = [fake('a', 0, Standing.out), fake('b', 5), fake('c', 9)];
    expect(leastRequests(backends, 0, 0, Standing.open, null)).toBe(1);
    expect(leastRequests(backends, 0, 0, Standing.open, 'b')).toBe(2);
  });

  it('takes one that is limited only when told to', () => {
    const backends = [fake('a', 1, Standing.limited), fake('b', 0, Standing.out)];
    expect(leastRequests(backends, 0, 0, Standing.open, null)).toBe(-1);
    expect(leastRequests(backends, 0, 0, Standing.limited, null)).toBe(0);
  });
});

describe('round robin', () => {
  it('goes on from where it was told', () => {
    const backends = names(4);
    expect([0, 1, 2, 3].map((start) => roundRobin(backends, start, 0, Standing.open, null))).toEqual([0, 1, 2, 3]);
  });

  it('passes over backends that are full, and waits at its turn when all are', () => {
    const backends = names(3);
    backends[1]!.hasRoom = false;
    expect(roundRobin(backends, 1, 0, Standing.open, null)).toBe(2);
    for (const each of backends) each.hasRoom = false;
    expect(roundRobin(backends, 1, 0, Standing.open, null)).toBe(1);
  });

  it('gives nothing when nobody may be chosen', () => {
    expect(roundRobin([fake('a', 0, Standing.out)], 0, 0, Standing.open, null)).toBe(-1);
    expect(roundRobin([], 0, 0, Standing.open, null)).toBe(-1);
  });
});

describe('hashing', () => {
  const keys = Array.from({ length: 4000 }, (_, i) => hashText(`192.0.2.${i}`));
  const choose = (backends: readonly Candidate[], key: number): string | undefined =>
    backends[rendezvous(backends, key, 0, Standing.open, null)]?.address;

  it('gives a key the same backend every time, whatever the order of the list', () => {
    const backends = names(7);
    const turned = [...backends].reverse();
    for (const key of keys) expect(choose(turned, key)).toBe(choose(backends, key));
  });

  it('spreads keys evenly', () => {
    const backends = names(5);
    const counts = new Map<string, number>();
    for (const key of keys) counts.set(choose(backends, key)!, (counts.get(choose(backends, key)!) ?? 0) + 1);
    expect(counts.size).toBe(5);
    for (const count of counts.values()) expect(Math.abs(count - 800)).toBeLessThan(160);
  });

  it('moves only the keys of the backend that leaves', () => {
    const backends = names(5);
    const left = backends.filter((_, i) => i !== 2);
    for (const key of keys) {
      const before = choose(backends, key)!;
      if (before === backends[2]!.address) expect(choose(left, key)).not.toBe(before);
      else expect(choose(left, key)).toBe(before);
    }
  });

  it('treats a backend that is out like one that left', () => {
    const backends = names(4);
    const without = backends.filter((_, i) => i !== 1);
    const out = backends.map((each, i) => (i === 1 ? fake(each.address, 0, Standing.out) : each));
    for (const key of keys.slice(0, 500)) expect(choose(out, key)).toBe(choose(without, key));
  });
});
