import { expect, test } from 'vitest';
import {
  newPublication,
  type Publication,
  type PublicationEffect,
  type PublicationEvent,
  step,
} from '../../src/model/publication.ts';

function run(start: Publication, events: readonly PublicationEvent[]) {
  let state = start;
  let effects: readonly PublicationEffect[] = [];
  for (const event of events) ({ state, effects } = step(state, event));
  return { state, effects };
}

const begin: PublicationEvent = { kind: 'begin' };
const persisted: PublicationEvent = { kind: 'persisted' };
const agreed = (move: 'prepare' | 'hold' | 'commit', worker: string): PublicationEvent => ({
  kind: 'agreed',
  move,
  worker,
});
const left = (worker: string): PublicationEvent => ({ kind: 'left', worker });
const late = (move: 'prepare' | 'hold' | 'commit'): PublicationEvent => ({ kind: 'deadline', move });
const ask = (move: 'prepare' | 'hold' | 'commit', workers: readonly string[], deadlineMs: number) => [
  { kind: 'ask', move, workers, deadlineMs },
];
const two = ['a', 'b'];
const prepared = [begin, agreed('prepare', 'a'), agreed('prepare', 'b')];
const held = [...prepared, agreed('hold', 'a'), agreed('hold', 'b')];

test('a publication that moves traffic prepares, holds, persists, commits, in this order', () => {
  const start = newPublication(two, true);
  expect(run(start, [begin]).effects).toEqual(ask('prepare', two, 10_000));
  expect(run(start, [begin, agreed('prepare', 'a')]).effects).toEqual([]);
  expect(run(start, prepared).effects).toEqual(ask('hold', two, 500));
  expect(run(start, held).effects).toEqual([{ kind: 'persist' }]);
  expect(run(start, [...held, persisted]).effects).toEqual(ask('commit', two, 2000));
  const end = run(start, [...held, persisted, agreed('commit', 'b'), agreed('commit', 'a')]);
  expect(end.effects).toEqual([{ kind: 'finish' }]);
  expect(end.state).toMatchObject({ phase: 'published', fault: null });
});

test('nothing is held when no traffic moves', () => {
  expect(run(newPublication(two, false), prepared).effects).toEqual([{ kind: 'persist' }]);
});

test('without workers the decision follows at once', () => {
  const start = newPublication([], true);
  expect(run(start, [begin]).effects).toEqual([{ kind: 'persist' }]);
  expect(run(start, [begin, persisted]).state.phase).toBe('published');
});

test('a refusal aborts everywhere and carries its reason', () => {
  const fault = { code: 'certificate-unusable', detail: 'key and certificate differ' };
  const end = run(newPublication(two, true), [
    begin,
    agreed('prepare', 'a'),
    { kind: 'refused', move: 'prepare', worker: 'b', fault },
  ]);
  expect(end.effects).toEqual([{ kind: 'abort', workers: two }, { kind: 'finish' }]);
  expect(end.state).toMatchObject({ phase: 'aborted', fault });
});

test.each([
  ['prepare', [begin, agreed('prepare', 'a')]],
  ['hold', [...prepared, agreed('hold', 'a')]],
] as const)('silence during %s aborts and names who was silent', (move, events) => {
  const end = run(newPublication(two, true), [...events, late(move)]);
  expect(end.effects).toEqual([{ kind: 'abort', workers: two }, { kind: 'finish' }]);
  expect(end.state.fault?.code).toBe('publish-timeout');
  expect(end.state.fault?.detail).toContain('worker b');
});

test.each([
  ['prepare', [begin]],
  ['hold', prepared],
] as const)('a death during %s aborts and the dead one is not spoken to', (_move, events) => {
  const end = run(newPublication(two, true), [...events, left('a')]);
  expect(end.effects).toEqual([{ kind: 'abort', workers: ['b'] }, { kind: 'finish' }]);
  expect(end.state.fault?.detail).toContain('worker a died');
});

test('what cannot be persisted is aborted', () => {
  const fault = { code: 'state-unusable', detail: 'disk full' };
  const end = run(newPublication(two, true), [...held, { kind: 'not-persisted', fault }]);
  expect(end.effects).toEqual([{ kind: 'abort', workers: two }, { kind: 'finish' }]);
  expect(end.state).toMatchObject({ phase: 'aborted', fault });
});

test('after the decision a silent worker is killed, and the end waits until it is gone', () => {
  const start = newPublication(two, true);
  const decided = [...held, persisted, agreed('commit', 'a')];
  const killed = run(start, [...decided, late('commit')]);
  expect(killed.effects).toEqual([{ kind: 'kill', workers: ['b'] }]);
  expect(killed.state.phase).toBe('committing');
  const end = run(start, [...decided, late('commit'), left('b')]);
  expect(end.effects).toEqual([{ kind: 'finish' }]);
  expect(end.state).toMatchObject({ phase: 'published', fault: null, workers: ['a'] });
});

test('a worker that refuses a commit is killed', () => {
  const fault = { code: 'internal', detail: 'bug' };
  const end = run(newPublication(two, true), [
    ...held,
    persisted,
    { kind: 'refused', move: 'commit', worker: 'b', fault },
  ]);
  expect(end.effects).toEqual([{ kind: 'kill', workers: ['b'] }]);
});

test('the death of all workers after the decision still publishes', () => {
  const end = run(newPublication(two, true), [...held, persisted, left('a'), left('b')]);
  expect(end.state.phase).toBe('published');
});

test('late answers, second answers and strangers change nothing', () => {
  const start = newPublication(two, true);
  const holding = run(start, prepared).state;
  for (const event of [agreed('prepare', 'a'), agreed('commit', 'a'), late('prepare'), left('z'), persisted, begin]) {
    expect(step(holding, event)).toEqual({ state: holding, effects: [] });
  }
  const aborted = run(start, [begin, left('a')]).state;
  for (const event of [agreed('prepare', 'b'), left('b'), late('prepare'), persisted]) {
    expect(step(aborted, event)).toEqual({ state: aborted, effects: [] });
  }
});
