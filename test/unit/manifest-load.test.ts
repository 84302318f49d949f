// Files as manifests: what is refused before it is parsed, and what is only warned of.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { largestManifest, loadManifest, readManifest } from '../../src/manifest/load.ts';
import type { Loaded } from '../../src/manifest/loaded.ts';
import { facts } from '../support/manifest-rows.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-manifests-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function written(name: string, content: string | Uint8Array): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

const told = (loaded: Loaded): readonly string[] =>
  loaded.ok ? [] : loaded.problems.map(({ line, message }) => `${line}: ${message}`);
const warned = (loaded: Loaded): readonly (readonly [string, number, string])[] => {
  expect(told(loaded)).toEqual([]);
  return loaded.warnings.map(({ key, line, message }) => [key, line, message]);
};
const read = (file: string, text: string): Loaded => readManifest(Buffer.from(text), file, facts);

const blog = 'name = "blog"\n[services.web]\nimage = "blog:1"\n';
const boxed = 'app:\n  id: myapp\n  name: My App\n  version: 1.0.0\n  container:\n    image: vendor/myapp:1\n';

describe('files', () => {
  test('the format is that of the name', async () => {
    expect((await loadManifest(written('blog.toml', blog), facts)).ok).toBe(true);
    expect((await loadManifest(written('myapp.yml', boxed), facts)).ok).toBe(true);
    expect((await loadManifest(written('myapp.yaml', boxed), facts)).ok).toBe(true);
    expect(told(await loadManifest(written('blog.json', blog), facts))).toEqual([
      '0: has no format that its name tells',
    ]);
  });

  test('what lies there has to be a file of at most 1 MiB', async () => {
    const large = written('large.toml', '');
    // Sparse: nothing of it is ever read.
    truncateSync(large, 64 * 1024 * 1024 * 1024);
    expect(told(await loadManifest(large, facts))).toEqual(['0: is larger than 1 MiB']);
    const full = written('full.toml', `${blog}#${'x'.repeat(largestManifest - blog.length - 1)}`);
    expect((await loadManifest(full, facts)).ok).toBe(true);
    expect(told(await loadManifest(written('over.toml', Buffer.alloc(largestManifest + 1, '#')), facts))).toEqual([
      '0: is larger than 1 MiB',
    ]);
    mkdirSync(join(directory, 'folder.toml'));
    expect(told(await loadManifest(join(directory, 'folder.toml'), facts))).toEqual(['0: is a directory']);
    expect(told(await loadManifest(join(directory, 'gone.toml'), facts))).toEqual(['0: there is no such file']);
    const pipe = join(directory, 'pipe.yml');
    expect(spawnSync('mkfifo', [pipe]).status).toBe(0);
    expect(told(await loadManifest(pipe, facts))).toEqual(['0: is not a file']);
    expect(told(readManifest(Buffer.alloc(largestManifest + 1), 'over.toml', facts))).toEqual([
      '0: is larger than 1 MiB',
    ]);
  });

  test.each(['blog.toml', 'myapp.yml'])('UTF-8 without a byte order mark: %s', (file) => {
    const text = file === 'blog.toml' ? blog : boxed;
    expect(told(read(file, `\ufeff${text}`))).toEqual(['1: begins with a byte order mark']);
    expect(told(readManifest(Buffer.from([0xff, 0xfe, 0x61, 0x00]), file, facts))).toEqual(['0: is not UTF-8']);
    expect(told(readManifest(Buffer.concat([Buffer.from(text), Buffer.from([0xc0, 0xaf])]), file, facts))).toEqual([
      '0: is not UTF-8',
    ]);
  });

  test('a folder or a file of another name is only warned of', () => {
    expect(warned(read('apps/weblog.toml', blog))).toEqual([
      ['name', 1, 'the file is called weblog.toml, the app blog'],
    ]);
    expect(warned(read('apps/blog.toml', blog))).toEqual([]);
    expect(warned(read('apps/other/manifest.yml', boxed))).toEqual([
      ['app.id', 2, 'the folder is called other, the app myapp'],
    ]);
    expect(warned(read('apps/myapp/manifest.yml', boxed))).toEqual([]);
    expect(warned(read('manifest.yml', boxed))).toEqual([]);
  });
});

describe('bounds are judged before anything is built', () => {
  // Each of these is as large as a manifest may be, or makes a small text expand; a parser that took them would need
  // gigabytes or minutes, so a limit of seconds is one of structure.
  const size = largestManifest - 64;
  const fill = (unit: string): string => unit.repeat(Math.floor(size / unit.length));
  test.each([
    ['a.toml', 'inline arrays', `a=${fill('[')}`, 'has more parts than any manifest'],
    ['a.toml', 'inline tables', fill('a={'), 'has more parts than any manifest'],
    ['a.toml', 'a few inline arrays', `a=${'['.repeat(40)}`, 'not TOML'],
    ['a.toml', 'a dotted key', `${fill('a.')}a=1`, 'is nested too deeply'],
    ['a.toml', 'a dotted heading', `[${fill('a.')}a]`, 'is nested too deeply'],
    [
      'a.toml',
      'many keys',
      Array.from({ length: 80_000 }, (_, i) => `k${i}=1\n`).join(''),
      'has more parts than any manifest',
    ],
    ['a.toml', 'many tables', fill('[[a]]\n'), 'has more parts than any manifest'],
    ['a.toml', 'a long text', `name="${fill('x')}"`, 'is larger than any value of a manifest'],
    ['a.toml', 'a long number', `name=${fill('1')}`, 'is longer than any word of a manifest'],
    ['a.yml', 'flow sequences', fill('['), 'is nested too deeply'],
    ['a.yml', 'flow mappings', fill('{a: '), 'is nested too deeply'],
    [
      'a.yml',
      'block mappings',
      Array.from({ length: 1000 }, (_, i) => `${' '.repeat(i)}a:\n`).join(''),
      'is nested too deeply',
    ],
    ['a.yml', 'block sequences', fill('- '), 'is nested too deeply'],
    ['a.yml', 'explicit keys', fill('? '), 'is nested too deeply'],
    ['a.yml', 'many documents', fill('---\n'), 'is a second document; a file holds one manifest'],
    [
      'a.yml',
      'many keys',
      `app:\n${Array.from({ length: 80_000 }, (_, i) => `  k${i}: 1\n`).join('')}`,
      'has more parts than any manifest',
    ],
    ['a.yml', 'many anchors', `a: ${fill('&a ')}`, 'has more parts than any manifest'],
    ['a.yml', 'an alias to itself', 'app: &a { b: *a }', 'refers to what it is part of'],
  ])('%s: %s', { timeout: 10_000 }, (file, _what, text, message) => {
    const loaded = read(file, text);
    expect(told(loaded)).toHaveLength(1);
    expect(told(loaded)[0]).toContain(message);
  });

  test('what aliases expand to is counted', () => {
    const levels = [...'abcdefghi'].map((name, i) => {
      const below = i === 0 ? 'x' : `*${'abcdefghi'[i - 1]}`;
      return `  ${name}: &${name} [${Array(10).fill(below).join(', ')}]\n`;
    });
    expect(told(read('a.yml', `app:\n${levels.join('')}`))[0]).toContain('has more values than any manifest');
    // A few are fine.
    const few = `${boxed}  extra: &a [1, 2]\n  more: [*a, *a]\n`;
    expect(warned(read('a.yml', few))).toEqual([]);
  });

  test('a depth that no schema needs is refused where it begins', () => {
    const dotted = (depth: number): string => `${blog}[${Array(depth).fill('a').join('.')}]\n`;
    expect(told(read('blog.toml', dotted(23)))[0]).toContain('4: unknown key a');
    expect(told(read('blog.toml', dotted(24)))).toEqual(['4: is nested too deeply']);
    expect(told(read('blog.toml', dotted(26)))).toEqual(['4: is nested too deeply']);
  });

  test('quotes do not hide parts, nor dots in texts make depth', () => {
    const text = `${blog}command = ["${'a.'.repeat(1000)}", '''${'[\n'.repeat(1000)}''', """${'"\\"" '.repeat(100)}"""] # ${'=.'.repeat(50_000)}\n`;
    expect(read('blog.toml', text).ok).toBe(true);
  });
});

describe('warnings', () => {
  const site = `${blog}[[services.web.http]]\nhost = "blog.example.com"\nport = 3000\n`;
  const without = { ...facts, entrypoints: facts.entrypoints.filter(({ protocol }) => protocol === 'tcp') };
  const plain = { ...facts, entrypoints: facts.entrypoints.filter(({ protocol }) => protocol === 'http') };

  test('a public host that nobody serves', () => {
    const loaded = readManifest(Buffer.from(site), 'blog.toml', without);
    expect(warned(loaded)).toEqual([
      ['services.web.http[0].host', 5, 'no entrypoint serves hosts: no request will reach it'],
    ]);
  });

  test('always without https', () => {
    const loaded = readManifest(Buffer.from(`${site}tls = "always"`), 'blog.toml', plain);
    expect(warned(loaded)).toEqual([
      ['services.web.http[0].tls', 7, 'there is no https entrypoint: every request will be answered 421'],
    ]);
  });

  test.each([
    ['ports:\n    - { host: 1, container: 2, auth: gated }', 'app.ports[0].auth', 'gated pins the app to 127.0.0.1'],
    [
      'ports:\n    - { host: 1, container: 2, auth: local, bind: "" }',
      'app.ports[0].bind',
      'local pins the app to 127.0.0.1',
    ],
    ['prots: []', 'app.prots', 'is kept as an extension and does nothing'],
    ['auth: gated', 'app.auth', 'is kept as an extension and does nothing'],
    ['capabilities: [CHOWN]', 'app.capabilities', 'is kept as an extension and does nothing'],
    ['resources: { disk_limit: 10g }', 'app.resources.disk_limit', 'is shown, not enforced'],
    ['hooks: { pre_start: [{ exec: [a] }] }', 'app.hooks.pre_start', 'is kept and shown, and nothing runs it'],
    ['health_check: { type: exec }', 'app.health_check.type', 'is not exercised: exec is no kind of probe here'],
    ['health_check: { type: http }', 'app.health_check.type', 'is not exercised: it is not clear which port is meant'],
    ['interfaces: { main: { port: 5 } }', 'app.interfaces.main.port', '5 is not a host port of this app'],
    [
      'volumes: [{ type: bind, source: /run/user/1000/podman/podman.sock, target: /p }]',
      'app.volumes[0].source',
      'is a socket of the machine: the app can do whatever it allows',
    ],
  ])('%s', (rest, key, message) => {
    const warnings = warned(read('myapp.yml', `${boxed}  ${rest}\n`));
    expect(warnings.map(([at, , words]) => [at, words])).toEqual([[key, message]]);
  });

  test('what an app without container cannot have', () => {
    const outside = boxed.replace(/ {2}container:\n.*\n/, '');
    expect(warned(read('myapp.yml', `${outside}  environment: [A=1]\n  volumes: []\n`)).map(([key]) => key)).toEqual([
      'app.environment',
      'app.volumes',
    ]);
  });

  test('a network that contradicts its policy', () => {
    expect(warned(read('myapp.yml', `${boxed}    network: host\n`)).map(([key]) => key)).toEqual([
      'app.container.network',
    ]);
  });
});

test('without a configuration only what needs one is left unchecked', () => {
  const text = `${blog.replace('blog:1', 'evil.example.net/a')}devices = ["gpu"]\n[[services.web.tcp]]\nentrypoint = "gone"\nport = 0\n`;
  const loaded = readManifest(Buffer.from(text), 'blog.toml', null);
  expect(told(loaded)).toEqual(['7: 0 is out of range']);
});
