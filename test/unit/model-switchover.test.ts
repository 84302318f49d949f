import { expect, test } from 'vitest';
import { reserve, type SwitchEffect, type SwitchEvent, type Switchover, step } from '../../src/model/switchover.ts';

function run(start: Switchover, events: readonly SwitchEvent[]) {
  let state = start;
  let effects: readonly SwitchEffect[] = [];
  for (const event of events) ({ state, effects } = step(state, event));
  return { state, effects };
}

const start = reserve('1', 'app.test', 4, ['10.0.0.1:80', '10.0.0.2:80']);
const begin: SwitchEvent = { kind: 'begin', probe: true };
const passed = (address: string): SwitchEvent => ({ kind: 'probe-passed', address });
const committed: SwitchEvent = { kind: 'committed', generation: 5 };
const proven = [begin, passed('10.0.0.1:80'), passed('10.0.0.2:80')];

test('all new backends are probed before anything is published', () => {
  expect(run(start, [begin]).effects).toEqual([{ kind: 'probe', addresses: ['10.0.0.1:80', '10.0.0.2:80'] }]);
  expect(run(start, [begin, passed('10.0.0.2:80')]).effects).toEqual([]);
  const ready = run(start, proven);
  expect(ready.effects).toEqual([{ kind: 'publish' }]);
  expect(ready.state.phase).toBe('preparing');
});

test('without a probe it publishes at once', () => {
  expect(run(start, [{ kind: 'begin', probe: false }]).effects).toEqual([{ kind: 'publish' }]);
});

test('one backend that does not become ready aborts the switch and ends the other probes', () => {
  const end = run(start, [
    begin,
    passed('10.0.0.1:80'),
    { kind: 'probe-failed', address: '10.0.0.2:80', detail: 'refused' },
  ]);
  expect(end.effects).toEqual([{ kind: 'stop-probes' }, { kind: 'release' }]);
  expect(end.state).toMatchObject({
    phase: 'aborted',
    to: null,
    fault: { code: 'probe-failed', detail: '10.0.0.2:80: refused' },
  });
});

test('it goes through holding, committed and draining to done', () => {
  const phases = ([] as SwitchEvent[])
    .concat(proven, [{ kind: 'holding' }, committed, { kind: 'draining' }, { kind: 'drained' }])
    .reduce<{ state: Switchover; phases: string[] }>(
      ({ state, phases: seen }, event) => {
        const next = step(state, event).state;
        return { state: next, phases: next.phase === state.phase ? seen : [...seen, next.phase] };
      },
      { state: start, phases: [] },
    ).phases;
  expect(phases).toEqual(['probing', 'preparing', 'holding', 'committed', 'draining', 'done']);
});

test('the commit releases the reservation and names the new generation', () => {
  const end = run(start, [...proven, committed]);
  expect(end.effects).toEqual([{ kind: 'release' }]);
  expect(end.state.to).toBe(5);
});

test('a refused publication aborts', () => {
  const fault = { code: 'publish-timeout', detail: 'silent' };
  for (const before of [proven, [...proven, { kind: 'holding' } as const]]) {
    const end = run(start, [...before, { kind: 'refused', fault }]);
    expect(end.state).toMatchObject({ phase: 'aborted', fault });
    expect(end.effects).toEqual([{ kind: 'release' }]);
  }
});

test('nothing undoes a commit, and what belongs to another phase changes nothing', () => {
  const after = run(start, [...proven, committed]).state;
  const fault = { code: 'internal', detail: 'x' };
  for (const event of [
    { kind: 'refused', fault },
    { kind: 'probe-failed', address: '10.0.0.1:80', detail: 'x' },
    { kind: 'holding' },
    { kind: 'drained' },
    begin,
  ] as const) {
    expect(step(after, event)).toEqual({ state: after, effects: [] });
  }
  const aborted = run(start, [begin, { kind: 'probe-failed', address: '10.0.0.1:80', detail: 'x' }]).state;
  for (const event of [passed('10.0.0.2:80'), committed, { kind: 'draining' } as const]) {
    expect(step(aborted, event)).toEqual({ state: aborted, effects: [] });
  }
});
