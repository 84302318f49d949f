import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { StoredService } from '../../src/process/service-state.ts';
import { StateStore } from '../../src/process/state-store.ts';
import { testKeys } from '../support/routing.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'turnpike-state-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const row = (name: string, number: number): StoredService => ({
  name,
  state: 'run',
  number,
  addresses: ['127.0.0.1:80'],
  origin: 'test',
  override: null,
});

test('a new state directory begins with nothing, and only its owner may read it', () => {
  const store = StateStore.open(join(directory, 'deep/er'));
  expect(store.revision).toBe(0);
  expect(store.keys).toBeNull();
  expect(store.services().size).toBe(0);
  store.close();
  expect(statSync(join(directory, 'deep/er')).mode & 0o777).toBe(0o700);
  expect(statSync(join(directory, 'deep/er/state.db')).mode & 0o777).toBe(0o600);
});

test('what was written is there after reopening; services that a write does not name keep their rows', () => {
  const store = StateStore.open(directory);
  store.write({ revision: 1, services: [row('a', 1), row('b', 1)], keys: testKeys });
  store.write({ revision: 2, services: [row('b', 2)], keys: testKeys });
  store.close();
  const again = StateStore.open(directory);
  expect(again.revision).toBe(2);
  expect(again.keys).toEqual(testKeys);
  expect([...again.services().values()].map(({ name, number }) => `${name}#${number}`)).toEqual(['a#1', 'b#2']);
  again.close();
});

test('a second process on the same directory is refused and told who has it', () => {
  const store = StateStore.open(directory);
  expect(() => StateStore.open(directory)).toThrow(`in use by another running turnpike (process ${process.pid})`);
  store.close();
  StateStore.open(directory).close();
});

test('a write that fails half way has written nothing', () => {
  const store = StateStore.open(directory);
  store.write({ revision: 1, services: [row('a', 1)], keys: testKeys });
  const unwritable = { ...row('b', 2), number: 2n as unknown as number };
  expect(() => store.write({ revision: 2, services: [row('a', 2), unwritable], keys: testKeys })).toThrow(
    'not written',
  );
  expect(store.revision).toBe(1);
  expect(store.services().get('a')?.number).toBe(1);
  store.write({ revision: 3, services: [], keys: testKeys });
  expect(store.revision).toBe(3);
  store.close();
});

test('a state of a newer program is left alone', () => {
  StateStore.open(directory).close();
  const database = new DatabaseSync(join(directory, 'state.db'));
  database.exec('PRAGMA user_version = 99');
  database.close();
  expect(() => StateStore.open(directory)).toThrow('written by a newer version');
});

test('a directory that cannot be made is a clear fault', () => {
  expect(() => StateStore.open('/proc/turnpike')).toThrow(expect.objectContaining({ code: 'state-unusable' }));
});

const writer = `
import { StateStore } from ${JSON.stringify(join(import.meta.dirname, '../../src/process/state-store.ts'))};
const store = StateStore.open(process.argv[1]);
const keys = ${JSON.stringify(testKeys)};
for (let revision = store.revision + 1; ; revision++) {
  const services = ['a', 'b', 'c'].map((name) => ({
    name, state: 'run', number: revision, addresses: [], origin: '', override: null,
  }));
  store.write({ revision, services, keys });
  process.stdout.write(revision + '\\n');
}`;

test('a process killed at any instant leaves a whole revision, and none that it had announced is lost', async () => {
  for (let round = 0; round < 8; round++) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', writer, directory]);
    let announced = '';
    let errors = '';
    child.stdout.on('data', (chunk) => {
      announced += chunk;
    });
    child.stderr.on('data', (chunk) => {
      errors += chunk;
    });
    const closed = new Promise((resolve) => child.once('close', resolve));
    await new Promise<void>((resolve) => {
      // After some writes, at a moment that has nothing to do with them.
      child.stdout.once('data', () => setTimeout(resolve, 5 + round * 7));
      child.once('close', () => resolve());
    });
    child.kill('SIGKILL');
    await closed;
    expect(errors).toBe('');
    const last = Number(announced.trim().split('\n').at(-1));
    const store = StateStore.open(directory);
    expect(store.revision).toBeGreaterThanOrEqual(last);
    expect([...store.services().values()].map(({ number }) => number)).toEqual([
      store.revision,
      store.revision,
      store.revision,
    ]);
    store.close();
  }
  expect(readFileSync(join(directory, 'turnpike.pid'), 'utf8').trim()).toBe(String(process.pid));
});
