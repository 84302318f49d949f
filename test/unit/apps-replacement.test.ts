import { describe, expect, test } from 'vitest';
import {
  isCancellable,
  isOver,
  planReplacement,
  type Replacement,
  type ReplacementEvent,
  recover,
  step,
} from '../../src/apps/replacement.ts';

const fault = { code: 'deploy-failed', detail: 'no' };
const events: readonly ReplacementEvent[] = [
  { kind: 'begin' },
  { kind: 'withdrawn' },
  { kind: 'stopped' },
  { kind: 'started' },
  { kind: 'ready' },
  { kind: 'published' },
  { kind: 'discarded', fresh: 'c2' },
  { kind: 'failed', fault },
];

const plan = (over: Partial<Replacement> = {}): Replacement => ({
  ...planReplacement({ service: 'web', mode: 'overlap', candidate: 'c1', old: 'o', warm: false }),
  ...over,
});

/** The phases that these events lead through. */
function phases(from: Replacement, ...kinds: readonly ReplacementEvent['kind'][]): string[] {
  let state = from;
  return kinds.map((kind) => {
    state = step(state, events.find((event) => event.kind === kind)!);
    return state.phase;
  });
}

describe('overlap', () => {
  test('the new one is started, probed and published; the old one is not touched', () => {
    expect(phases(plan(), 'begin', 'started', 'ready', 'published')).toEqual([
      'starting',
      'probing',
      'publishing',
      'done',
    ]);
  });

  test('a generation that still runs is probed and published without a start', () => {
    expect(phases(plan({ warm: true }), 'begin', 'ready', 'published')).toEqual(['probing', 'publishing', 'done']);
  });

  test.each(['begin', 'begin started', 'begin started ready'])(
    'after "%s" a failure removes the new one only',
    (way) => {
      const kinds = way.split(' ') as ReplacementEvent['kind'][];
      expect(phases(plan(), ...kinds, 'failed', 'discarded').slice(-2)).toEqual(['discarding', 'failed']);
    },
  );

  test('one that served before is not stopped because it is not ready', () => {
    expect(phases(plan({ warm: true }), 'begin', 'failed')).toEqual(['probing', 'failed']);
  });
});

describe('sequential', () => {
  const sequential = plan({ mode: 'sequential' });

  test('traffic is withdrawn, the old one stopped, and only then the new one started', () => {
    expect(phases(sequential, 'begin', 'withdrawn', 'stopped', 'started', 'ready', 'published')).toEqual([
      'withdrawing',
      'stopping',
      'starting',
      'probing',
      'publishing',
      'done',
    ]);
  });

  test('a withdrawal that failed blocks the stop', () => {
    expect(phases(sequential, 'begin', 'failed')).toEqual(['withdrawing', 'failed']);
  });

  test('an old one that cannot be stopped gets its traffic back, and nothing is started', () => {
    expect(phases(sequential, 'begin', 'withdrawn', 'failed', 'published')).toEqual([
      'withdrawing',
      'stopping',
      'reinstating',
      'failed',
    ]);
  });

  test('a new one that fails is removed, then the old revision is started again', () => {
    const way = ['begin', 'withdrawn', 'stopped', 'started', 'failed', 'discarded', 'started', 'ready', 'published'];
    expect(phases(sequential, ...(way as ReplacementEvent['kind'][])).slice(-5)).toEqual([
      'discarding',
      'starting',
      'probing',
      'publishing',
      'failed',
    ]);
  });
});

/** Every state that can be reached, with one way to it. */
function reachable(from: Replacement): ReadonlyMap<string, Replacement> {
  const known = new Map<string, Replacement>();
  const visit = (state: Replacement): void => {
    const key = JSON.stringify(state);
    if (known.has(key)) return;
    known.set(key, state);
    for (const event of events) visit(step(state, event));
  };
  visit(from);
  return known;
}

const begins = (['overlap', 'sequential'] as const).flatMap((mode) =>
  ['o', null].flatMap((old) => [false, true].map((warm) => plan({ mode, old, warm: warm && mode === 'overlap' }))),
);

describe.each(begins)('whatever happens ($mode, old $old, warm $warm)', (begin) => {
  const states = [...reachable(begin).values()];

  test('a failure at any point leads to an end', () => {
    for (const state of states) {
      let at = state;
      for (let i = 0; i < 12 && !isOver(at); i++) {
        at = step(step(at, { kind: 'failed', fault }), { kind: 'discarded', fresh: 'c3' });
      }
      expect(isOver(at), JSON.stringify(state)).toBe(true);
      if (at.phase === 'failed') expect(at.fault).not.toBeNull();
    }
  });

  test('sequential: nothing is starting before something said that the old one is gone', () => {
    if (begin.mode !== 'sequential') return;
    for (const state of states) {
      if (state.phase !== 'planned' && state.phase !== 'withdrawing') continue;
      for (const event of events) expect(step(state, event).phase).not.toBe('starting');
    }
  });

  test('what can be given up has touched nothing that serves', () => {
    for (const state of states.filter(isCancellable)) {
      const end = step(step(state, { kind: 'failed', fault }), { kind: 'discarded', fresh: 'c3' });
      expect(end.phase, JSON.stringify(state)).toBe('failed');
      expect(end.restored || end.old === null).toBe(true);
    }
  });

  test('after a restart of ours it ends from every state, and what was published is done', () => {
    for (const state of states) {
      for (const serving of [state.old, state.candidate, null]) {
        for (const forward of [true, false]) {
          let at = recover(state, { serving, forward });
          if (state.phase === 'publishing' && serving === state.candidate && state.attempt === 'new') {
            expect(at.phase).toBe('done');
          }
          for (let i = 0; i < 14 && !isOver(at); i++) {
            for (const event of events) if (event.kind !== 'failed') at = step(at, event);
          }
          expect(isOver(at), `${JSON.stringify(state)} ${serving} ${forward}`).toBe(true);
        }
      }
    }
  });
});
