import { expect, test } from 'vitest';
import { FlowTable, TableEntry } from '../../src/udp/flow-table.ts';

class Entry extends TableEntry<Entry> {}

function tableOf(...keys: string[]): { table: FlowTable<Entry>; entries: Map<string, Entry> } {
  const table = new FlowTable<Entry>();
  const entries = new Map(keys.map((key) => [key, new Entry(key)]));
  let now = 0;
  for (const entry of entries.values()) table.add(entry, ++now);
  return { table, entries };
}

const order = (table: FlowTable<Entry>): string[] => table.all().map(({ key }) => key);

test('the oldest flow is the one that has been silent for the longest time', () => {
  const { table, entries } = tableOf('a', 'b', 'c');
  expect(table.oldest?.key).toBe('a');
  table.touch(entries.get('a')!, 10);
  expect(table.oldest?.key).toBe('b');
  expect(order(table)).toEqual(['b', 'c', 'a']);
  expect(entries.get('a')!.lastAt).toBe(10);
});

test('touching the newest flow only moves its time', () => {
  const { table, entries } = tableOf('a', 'b');
  table.touch(entries.get('b')!, 7);
  expect(order(table)).toEqual(['a', 'b']);
  expect(entries.get('b')!.lastAt).toBe(7);
});

test('a flow is found by its key until it is removed', () => {
  const { table, entries } = tableOf('a', 'b', 'c');
  table.remove(entries.get('b')!);
  expect(table.get('b')).toBeUndefined();
  expect(table.get('c')).toBe(entries.get('c'));
  expect(order(table)).toEqual(['a', 'c']);
  expect(table.size).toBe(2);
});

test('removing twice, or an old flow whose key another one has, changes nothing', () => {
  const { table, entries } = tableOf('a', 'b');
  const old = entries.get('a')!;
  table.remove(old);
  table.remove(old);
  const next = new Entry('a');
  table.add(next, 5);
  table.remove(old);
  expect(table.get('a')).toBe(next);
  expect(order(table)).toEqual(['b', 'a']);
});

test('the last flow leaves an empty table that can be filled again', () => {
  const { table, entries } = tableOf('a');
  table.remove(entries.get('a')!);
  expect(table.oldest).toBeNull();
  expect(table.size).toBe(0);
  table.add(new Entry('z'), 1);
  expect(order(table)).toEqual(['z']);
});

test('any mixture of additions, touches and removals keeps the order of the last datagrams', () => {
  const table = new FlowTable<Entry>();
  let expected: Entry[] = [];
  let seed = 7;
  const random = (below: number): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return (seed >>> 8) % below;
  };
  for (let now = 1; now < 5000; now++) {
    const choice = random(3);
    if (choice === 0 || expected.length === 0) {
      const entry = new Entry(`key ${now}`);
      table.add(entry, now);
      expected.push(entry);
      continue;
    }
    const entry = expected[random(expected.length)]!;
    expected = expected.filter((each) => each !== entry);
    if (choice === 1) {
      table.touch(entry, now);
      expected.push(entry);
    } else {
      table.remove(entry);
    }
  }
  expect(order(table)).toEqual(expected.map(({ key }) => key));
  expect(table.size).toBe(expected.length);
  expect(table.oldest).toBe(expected[0] ?? null);
});
