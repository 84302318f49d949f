import { describe, expect, it } from 'vitest';
import type { Certificate } from '../../src/model/snapshot.ts';
import { LeafCache } from '../../src/tls/leaf-cache.ts';
import { HandClock } from '../support/hand-clock.ts';

function cacheWith(validForMs: number) {
  const clock = new HandClock();
  const asked: string[] = [];
  let broken = false;
  let aheadMs = 0;
  const cache = new LeafCache(async (name) => {
    asked.push(name);
    if (broken) throw new Error('the CA is away');
    const notBefore = clock.now() + aheadMs;
    return {
      id: `${name} ${asked.length}`,
      source: 'internal',
      origin: '',
      names: [name],
      notBefore,
      notAfter: notBefore + validForMs,
      chain: '',
      key: '',
    } satisfies Certificate;
  }, clock);
  return {
    cache,
    clock,
    asked,
    setBroken: (value: boolean) => {
      broken = value;
    },
    setAhead: (ms: number) => {
      aheadMs = ms;
    },
  };
}

describe('the leaves that a worker keeps', () => {
  it('are asked for once and then at hand', async () => {
    const { cache, asked } = cacheWith(900);
    expect(cache.get('a.test')).toBeNull();
    const both = await Promise.all([cache.request('a.test'), cache.request('a.test')]);
    expect(both.map((leaf) => leaf?.id)).toEqual(['a.test 1', 'a.test 1']);
    expect(cache.get('a.test')?.id).toBe('a.test 1');
    expect(asked).toEqual(['a.test']);
  });

  it('are renewed at two thirds of their validity while the old one is still served', async () => {
    const { cache, clock, asked } = cacheWith(900);
    await cache.request('a.test');
    clock.advance(599);
    expect(cache.get('a.test')?.id).toBe('a.test 1');
    expect(asked.length).toBe(1);
    clock.advance(1);
    expect(cache.get('a.test')?.id).toBe('a.test 1');
    await cache.request('a.test');
    expect(cache.get('a.test')?.id).toBe('a.test 2');
    expect(asked.length).toBe(2);
  });

  it('are asked for anew when they are dated into the future, by a clock that was wrong', async () => {
    const { cache, asked, setAhead } = cacheWith(900);
    setAhead(10_000);
    await cache.request('a.test');
    setAhead(0);
    cache.get('a.test');
    expect(asked.length).toBe(2);
    await cache.request('a.test');
    expect(cache.get('a.test')?.id).toBe('a.test 2');
    cache.get('a.test');
    expect(asked.length).toBe(2);
  });

  it('are not served past their end, even when there is no new one', async () => {
    const { cache, clock, setBroken } = cacheWith(900);
    await cache.request('a.test');
    setBroken(true);
    clock.advance(899);
    expect(cache.get('a.test')?.id).toBe('a.test 1');
    clock.advance(1);
    expect(cache.get('a.test')).toBeNull();
    expect(await cache.request('a.test')).toBeNull();
  });

  it('are not asked for again and again while the CA is away', async () => {
    const { cache, clock, asked, setBroken } = cacheWith(900);
    setBroken(true);
    for (let i = 0; i < 5; i++) expect(await cache.request('a.test')).toBeNull();
    expect(asked.length).toBe(1);
    clock.advance(1000);
    setBroken(false);
    expect((await cache.request('a.test'))?.id).toBe('a.test 2');
  });
});
