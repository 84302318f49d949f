import { describe, expect, it } from 'vitest';
import { PassiveState } from '../../src/upstream/passive.ts';

const rules = { failures: 3, ejectMs: 10_000 };

/** Fails it until it is out; returns for how long. */
function ejected(state: PassiveState, now = 0): number {
  state.failed(now);
  state.failed(now);
  return state.failed(now);
}

describe('passive health', () => {
  it('puts a backend out after consecutive failures, not after scattered ones', () => {
    const state = new PassiveState(rules);
    expect([state.failed(0), state.failed(0)]).toEqual([0, 0]);
    state.succeeded();
    expect([state.failed(0), state.failed(0)]).toEqual([0, 0]);
    expect(state.ejected(0)).toBe(false);
    expect(state.failed(0)).toBe(10_000);
    expect(state.ejected(9_999)).toBe(true);
    expect(state.ejected(10_000)).toBe(false);
  });

  it('never puts a backend out when it is switched off', () => {
    const state = new PassiveState({ failures: 0, ejectMs: 10_000 });
    for (let i = 0; i < 100; i++) expect(state.failed(0)).toBe(0);
    expect(state.whole).toBe(true);
  });

  it('does not count what fails while it is out', () => {
    const state = new PassiveState(rules);
    ejected(state);
    expect(state.failed(5_000)).toBe(0);
    expect(state.ejected(10_000)).toBe(false);
  });

  it('lets it back one exchange at a time, then twice as many after each success', () => {
    const state = new PassiveState(rules);
    ejected(state);
    const allowed = (): number => {
      for (let inflight = 0; inflight < 1000; inflight++) if (!state.admits(inflight)) return inflight;
      return 1000;
    };
    const seen: number[] = [];
    for (let i = 0; i < 7; i++) {
      seen.push(allowed());
      state.succeeded();
    }
    expect(seen).toEqual([1, 2, 4, 8, 16, 32, 1000]);
    expect(state.whole).toBe(true);
  });

  it('puts it out again at the first failure on its way back, for longer each time, up to eight times as long', () => {
    const state = new PassiveState(rules);
    let now = 0;
    let out = ejected(state, now);
    const times = [out];
    for (let i = 0; i < 5; i++) {
      now += out;
      out = state.failed(now);
      times.push(out);
    }
    expect(times).toEqual([10_000, 20_000, 40_000, 80_000, 80_000, 80_000]);
  });

  it('forgets earlier ejections once it is whole', () => {
    const state = new PassiveState(rules);
    ejected(state);
    state.failed(10_000);
    for (let i = 0; i < 6; i++) state.succeeded();
    expect(ejected(state, 100_000)).toBe(10_000);
  });

  it('comes back gradually from an active check, too', () => {
    const state = new PassiveState(rules);
    state.returns();
    expect([state.admits(0), state.admits(1)]).toEqual([true, false]);
    expect(state.ejected(0)).toBe(false);
  });
});
