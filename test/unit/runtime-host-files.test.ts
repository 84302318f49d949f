// What is written on the host for YAML apps: below the data root only, through no link, and once.
import { execFileSync } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import type { ContainerShape } from '../../src/manifest/app.ts';
import { ConfinedDirectory } from '../../src/runtime/confined-directory.ts';
import { HostFiles } from '../../src/runtime/host-files.ts';
import { SecretDirectory } from '../../src/runtime/secret-directory.ts';
import { tarOf } from '../../src/runtime/tar.ts';
import { HandClock } from '../support/hand-clock.ts';

const directories: string[] = [];
let directory: string;
let root: string;
let outside: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'turnpike-host-'));
  directories.push(directory);
  root = join(directory, 'root');
  outside = join(directory, 'outside');
  mkdirSync(root);
  mkdirSync(outside);
});
afterAll(() => {
  for (const each of directories) rmSync(each, { recursive: true, force: true });
});

describe('a file below a root', () => {
  test('is written whole, with its mode and the directories on the way', async () => {
    const confined = new ConfinedDirectory(root);
    await confined.write(join(root, 'a/b/file'), 'text', 0o640);
    expect(readFileSync(join(root, 'a/b/file'), 'utf8')).toBe('text');
    expect(statSync(join(root, 'a/b/file')).mode & 0o777).toBe(0o640);
    expect(readdirSync(join(root, 'a/b'))).toEqual(['file']);
    expect((await confined.read(join(root, 'a/b/file'), 10)).toString()).toBe('text');
    await expect(confined.read(join(root, 'a/b/file'), 3)).rejects.toThrow('at most 3 bytes');
  });

  test('is not reached through a link, neither to write nor to read', async () => {
    const confined = new ConfinedDirectory(root);
    symlinkSync(outside, join(root, 'way'));
    writeFileSync(join(outside, 'secret'), 'theirs');
    await expect(confined.write(join(root, 'way/file'), 'x', 0o644)).rejects.toThrow('way is a link');
    await expect(confined.makeDirectory(join(root, 'way/new'))).rejects.toThrow('way is a link');
    await expect(confined.read(join(root, 'way/secret'), 100)).rejects.toThrow('way is a link');
    symlinkSync(join(outside, 'secret'), join(root, 'file'));
    await expect(confined.read(join(root, 'file'), 100)).rejects.toThrow('ELOOP');
    await confined.write(join(root, 'file'), 'ours', 0o644);
    expect(readFileSync(join(outside, 'secret'), 'utf8')).toBe('theirs');
    expect(readdirSync(outside)).toEqual(['secret']);
    expect(lstatSync(join(root, 'file')).isFile()).toBe(true);
  });

  test.each(['..', '../outside/file', 'a/../../outside/file'])('%j is refused', async (path) => {
    const confined = new ConfinedDirectory(root);
    await expect(confined.write(join(root, path), 'x', 0o644)).rejects.toMatchObject({ code: 'runtime-refused' });
    expect(readdirSync(outside)).toEqual([]);
  });

  test('changes owner with all below it, links themselves and not where they lead', async () => {
    mkdirSync(join(root, 'data/deep'), { recursive: true });
    writeFileSync(join(root, 'data/deep/file'), '');
    symlinkSync(outside, join(root, 'data/link'));
    await new ConfinedDirectory(root).own(join(root, 'data'), 1234, 1235);
    const owners = ['data', 'data/deep', 'data/deep/file', 'data/link'].map((each) => lstatSync(join(root, each)).uid);
    expect(owners).toEqual([1234, 1234, 1234, 1234]);
    expect(statSync(outside).uid).toBe(0);
  });
});

const shape = (over: Partial<ContainerShape>): ContainerShape =>
  ({ files: [], generatedCerts: [], hostBinds: [], dataUid: null, ...over }) as unknown as ContainerShape;

describe('what a manifest wants on the host', () => {
  const files = (clock = new HandClock()) => new HostFiles(clock, () => root);
  const facts = { HOST_MDNS: 'box.local' };

  test('files are written once, or each time', async () => {
    const wanted = (content: string) =>
      shape({
        files: [
          { path: join(root, 'app/once'), content, overwrite: false },
          { path: join(root, 'app/always'), content, overwrite: true },
        ],
      });
    await files().prepare(wanted('one'), facts);
    await files().prepare(wanted('two'), facts);
    expect(readFileSync(join(root, 'app/once'), 'utf8')).toBe('one');
    expect(readFileSync(join(root, 'app/always'), 'utf8')).toBe('two');
  });

  test('directories of binds are made, those of the machine are left alone', async () => {
    const bind = (source: string) => ({ source, target: '/x', options: [], readonly: false });
    await files().prepare(shape({ hostBinds: [bind(join(root, 'app/data')), bind(join(outside, 'never'))] }), facts);
    expect(existsSync(join(root, 'app/data'))).toBe(true);
    expect(existsSync(join(outside, 'never'))).toBe(false);
  });

  test('a certificate is made for its names, kept, and made again in its last third or without its key', async () => {
    const clock = new HandClock();
    const [crt, key] = [join(root, 'tls/crt'), join(root, 'tls/key')];
    const wanted = shape({ generatedCerts: [{ crt, key, commonName: '{{HOST_MDNS}}', sans: ['127.0.0.1'] }] });
    const made = async (): Promise<X509Certificate> => {
      await files(clock).prepare(wanted, facts);
      return new X509Certificate(readFileSync(crt));
    };
    const first = await made();
    expect(first.subject).toBe('CN=box.local');
    expect(first.subjectAltName).toBe('DNS:box.local, IP Address:127.0.0.1');
    expect(first.checkPrivateKey(createPrivateKey(readFileSync(key)))).toBe(true);
    expect(statSync(key).mode & 0o777).toBe(0o600);
    expect((await made()).fingerprint256).toBe(first.fingerprint256);
    rmSync(key);
    const second = await made();
    expect(second.fingerprint256).not.toBe(first.fingerprint256);
    clock.advance(3650 * 0.7 * 86_400_000);
    expect((await made()).fingerprint256).not.toBe(second.fingerprint256);
  });
});

describe('a secret of a YAML app', () => {
  test('is made on first use, once, for its owner alone', async () => {
    const secrets = new SecretDirectory(join(directory, 'secrets'));
    expect(await secrets.read('db')).toBeNull();
    for (const [kind, form] of [
      ['hex16', /^[0-9a-f]{32}$/],
      ['hex32', /^[0-9a-f]{64}$/],
      ['base64', /^[A-Za-z0-9+/]{43}=$/],
    ] as const) {
      await secrets.make({ name: `db-${kind}`, kind });
      const value = await secrets.read(`db-${kind}`);
      expect(value).toMatch(form);
      await secrets.make({ name: `db-${kind}`, kind });
      expect(await secrets.read(`db-${kind}`)).toBe(value);
      expect(statSync(join(directory, 'secrets', `db-${kind}`)).mode & 0o777).toBe(0o600);
    }
    expect(statSync(join(directory, 'secrets')).mode & 0o777).toBe(0o700);
    writeFileSync(join(directory, 'secrets/db-hex16'), '');
    await secrets.make({ name: 'db-hex16', kind: 'hex16' });
    expect(await secrets.read('db-hex16')).toMatch(/^[0-9a-f]{32}$/);
  });

  test('that others may read, that is a link, or whose name leads elsewhere is refused', async () => {
    const secrets = new SecretDirectory(directory);
    writeFileSync(join(directory, 'open'), 'x\n', { mode: 0o600 });
    expect(await secrets.read('open')).toBe('x');
    chmodSync(join(directory, 'open'), 0o640);
    await expect(secrets.read('open')).rejects.toThrow('chmod 600');
    symlinkSync(join(directory, 'open'), join(directory, 'link'));
    await expect(secrets.read('link')).rejects.toMatchObject({ code: 'secret-refused' });
    for (const name of ['../x', 'a/b', '', '.hidden']) {
      await expect(secrets.read(name)).rejects.toThrow('no name of a secret');
    }
  });
});

test('an archive is one that tar reads', () => {
  const archive = tarOf([
    { name: 'one', content: Buffer.from('first'), mode: 0o644 },
    { name: 'two', content: Buffer.alloc(1024, 'x'), mode: 0o600 },
  ]);
  const list = execFileSync('tar', ['-tvf', '-'], { input: archive, encoding: 'utf8' });
  expect(list).toMatch(/-rw-r--r-- 0\/0 +5 .* one\n-rw------- 0\/0 +1024 .* two\n/);
  expect(execFileSync('tar', ['-xOf', '-', 'one'], { input: archive, encoding: 'utf8' })).toBe('first');
});
