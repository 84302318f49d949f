// `turnpike check --manifest`: manifests by themselves, against the configuration, and against each other.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { run } from '../support/command.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'turnpike-check-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const write = (name: string, text: string): void => writeFileSync(join(directory, name), text);
const site = (app: string, host: string): string =>
  `name = "${app}"\n[services.web]\nimage = "a:1"\n[[services.web.http]]\nhost = "${host}"\nport = 3000\n`;
const listener = (app: string): string =>
  `name = "${app}"\n[services.web]\nimage = "a:1"\n[[services.web.tcp]]\nentrypoint = "game"\nport = 1\n`;
const port = (id: string, host: number): string =>
  `app: { id: ${id}, name: A, version: "1", ports: [{ host: ${host}, container: 1 }] }\n`;
const config =
  '[entrypoints.web]\naddress = ":80"\nprotocol = "http"\n[entrypoints.game]\naddress = ":25565"\nprotocol = "tcp"\n' +
  '[external_routes]\n"legacy.example.com" = "127.0.0.1:3000"\n';

test('valid manifests beside a valid configuration', async () => {
  write('config.toml', config);
  write('blog.toml', site('blog', 'blog.example.com'));
  mkdirSync(join(directory, 'notes'));
  write('notes/manifest.yml', port('notes', 8090));
  const { code, out } = await run(
    ['check', '--manifest', `${directory}/blog.toml`, `${directory}/notes/manifest.yml`],
    directory,
  );
  expect(code).toBe(0);
  expect(out).toContain(`${directory}/blog.toml is valid: the app blog.`);
  expect(out).toContain(`${directory}/notes/manifest.yml is valid: the app notes.`);
});

test('every problem of every file, and exit 1', async () => {
  write('config.toml', 'workers = "many"');
  write('a.toml', 'name = "A"\n');
  write('b.yml', 'app: { id: b }\n');
  const { code, err } = await run(['check', '--manifest', `${directory}/a.toml`, `${directory}/b.yml`], directory);
  expect(code).toBe(1);
  expect(err).toContain('config.toml:1:11: workers:');
  expect(err).toContain('a.toml:1:8: name: "A" has capitals (accepted: "a")');
  expect(err).toMatch(/a\.toml:1:1: services: is missing/);
  expect(err).toContain('app.name: is missing');
  expect(err).toContain('2 problems in');
  expect(err).toContain('were not checked: the configuration file has problems');
});

test('what lies in the directory of [apps] is checked with the configuration', async () => {
  write('config.toml', `${config}[apps]\ndirectory = "apps"\n`);
  expect((await run(['check'], directory)).code).toBe(0);
  mkdirSync(join(directory, 'apps/notes'), { recursive: true });
  write('apps/blog.toml', site('blog', 'legacy.example.com'));
  write('apps/notes/manifest.yml', port('notes', 8090));
  write('apps/notes/other.yml', 'not a manifest');
  const { code, out, err } = await run(['check'], directory);
  expect(code).toBe(1);
  expect(err).toContain('host legacy.example.com belongs to the configuration');
  expect(out).toContain('apps/notes/manifest.yml is valid: the app notes.');
  // Named ones take their place.
  write('good.toml', site('good', 'good.example.com'));
  expect((await run(['check', '--manifest', join(directory, 'good.toml')], directory)).code).toBe(0);
});

test('in the repository of an app there is no configuration', async () => {
  write('blog.toml', site('blog', 'blog.example.com'));
  const { code, err } = await run(['check', '--manifest', `${directory}/blog.toml`], directory);
  expect(code).toBe(0);
  expect(err).toContain('were not checked: there is no configuration file');
  const named = await run(
    ['check', '--config', `${directory}/gone.toml`, '--manifest', `${directory}/blog.toml`],
    directory,
  );
  expect(named.code).toBe(1);
});

describe('who wants what somebody else has', () => {
  const told = async (...files: readonly string[]): Promise<{ code: number; err: string }> => {
    write('config.toml', config);
    return run(['check', '--manifest', ...files.map((file) => join(directory, file))], directory);
  };

  test('the same host in two manifests', async () => {
    write('a.toml', site('a', 'blog.example.com'));
    write('b.toml', site('b', 'BLOG.example.com.'));
    const { code, err } = await told('a.toml', 'b.toml');
    expect(code).toBe(1);
    expect(err).toContain('host blog.example.com belongs to app a (a.toml:5 services.web.http[0].host)');
    expect(err).toContain('app b wants it too (b.toml:5 services.web.http[0].host)');
    expect(err).not.toContain('problem in a.toml');
  });

  test('a host of the configuration', async () => {
    write('a.toml', site('a', 'legacy.example.com'));
    const { code, err } = await told('a.toml');
    expect(code).toBe(1);
    expect(err).toContain('host legacy.example.com belongs to the configuration (config.toml:8');
  });

  test('the same TCP listener twice', async () => {
    write('a.toml', listener('a'));
    write('b.toml', listener('b'));
    const { code, err } = await told('a.toml', 'b.toml');
    expect(code).toBe(1);
    expect(err).toContain('belongs to app a (a.toml:4 services.web.tcp[0])');
  });

  test('the same host port in two manifests, and one of an entrypoint', async () => {
    write('a.yml', port('a', 8090));
    write('b.yml', port('b', 8090));
    write('c.yml', port('c', 80));
    const { err } = await told('a.yml', 'b.yml', 'c.yml');
    expect(err).toContain('belongs to app a (a.yml:1 app.ports[0]); app b wants it too');
    expect(err).toContain('belongs to the entrypoint web');
  });

  test('the same app twice', async () => {
    write('a.toml', site('a', 'a.example.com'));
    write('again.toml', site('a', 'b.example.com'));
    const { code, err } = await told('a.toml', 'again.toml');
    expect(code).toBe(1);
    expect(err).toContain('the app a is in');
  });
});

test('as JSON', async () => {
  write('config.toml', config);
  write('a.toml', site('a', 'localhost'));
  const { code, out } = await run(['check', '--json', '--manifest', `${directory}/a.toml`], directory);
  expect(code).toBe(1);
  const { ok, problems, manifests } = JSON.parse(out) as {
    ok: boolean;
    problems: [];
    manifests: { problems: { key: string; line: number }[] }[];
  };
  expect(ok).toBe(false);
  expect(problems).toEqual([]);
  expect(manifests).toMatchObject([
    { file: `${directory}/a.toml`, ok: false, app: null, problems: [{ key: 'services.web.http[0].host', line: 5 }] },
  ]);
});

test('docs/examples/apps are valid together, without a warning, and say first what they are for', async () => {
  const examples = join(import.meta.dirname, '../../docs/examples/apps');
  const files = readdirSync(examples, { recursive: true, encoding: 'utf8' })
    .filter((name) => /(?:^[^/]+\.toml|manifest\.yml)$/.test(name))
    .sort()
    .map((name) => join(examples, name));
  expect(files).toHaveLength(8);
  const { out, code } = await run(
    ['check', '--json', '--config', join(examples, 'host/config.toml'), '--manifest', ...files],
    directory,
  );
  const { manifests } = JSON.parse(out) as { manifests: { file: string; problems: []; warnings: [] }[] };
  expect(manifests.flatMap(({ problems, warnings }) => [...problems, ...warnings])).toEqual([]);
  expect(code).toBe(0);
  for (const file of files) expect(readFileSync(file, 'utf8')).toMatch(/^# [A-Z].{20,}/);
});
