import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SecretFiles } from '../../src/runtime/secret-files.ts';
import { FileSecretStore, PassSecretStore, type SecretStore } from '../../src/runtime/secret-store.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-secrets-'));
const gnupg = join(directory, 'gnupg');
afterAll(() => {
  execFileSync('gpgconf', ['--homedir', gnupg, '--kill', 'all']);
  rmSync(directory, { recursive: true });
});

const appId = '11111111-aaaa-4bbb-8ccc-000000000001';
const secret = { appId, service: 'web', name: 'api-key' };

const stores: Readonly<Record<string, () => Promise<SecretStore>>> = {
  'the encrypted files': () => FileSecretStore.open(join(directory, 'files')),
  pass: async () => new PassSecretStore(join(directory, 'pass')),
};

beforeAll(() => {
  mkdirSync(gnupg, { mode: 0o700 });
  process.env['GNUPGHOME'] = gnupg;
  const quiet = { stdio: 'ignore', env: { ...process.env, PASSWORD_STORE_DIR: join(directory, 'pass') } } as const;
  execFileSync(
    'gpg',
    ['--batch', '--passphrase', '', '--quick-gen-key', 'turnpike@test.invalid', 'default', 'default'],
    quiet,
  );
  execFileSync('pass', ['init', 'turnpike@test.invalid'], quiet);
}, 60_000);

describe.each(Object.entries(stores))('%s', (_name, open) => {
  test('give back what was set, byte for byte, and list only names', async () => {
    const store = await open();
    expect(await store.read(secret)).toBeNull();
    expect(await store.list(appId, 'web')).toEqual([]);
    for (const value of ['s3cret', 'two\nlines\n', ' spaces ', 'ünïcödé €']) {
      await store.write(secret, value);
      expect(await store.read(secret)).toBe(value);
    }
    await store.write({ ...secret, name: 'db' }, 'x');
    expect(await store.list(appId, 'web')).toEqual(['api-key', 'db']);
    expect(await store.list(appId, 'worker')).toEqual([]);
  });

  test('are bound to app, service and name', async () => {
    const store = await open();
    await store.write(secret, 'mine');
    expect(await store.read({ ...secret, service: 'worker' })).toBeNull();
    expect(await store.read({ ...secret, appId: appId.replace('1', '2') })).toBeNull();
  });

  test('take the longest name of a service, with what is kept beside its secrets', async () => {
    const store = await open();
    const service = `${'s'.repeat(63)}.SERVED`;
    await store.write({ ...secret, service }, 'x');
    expect(await store.read({ ...secret, service })).toBe('x');
    await expect(store.read({ ...secret, service: `s${service}` })).rejects.toMatchObject({ code: 'secret-refused' });
  });

  test('forget what is removed', async () => {
    const store = await open();
    await store.write(secret, 'x');
    expect(await store.remove(secret)).toBe(true);
    expect(await store.read(secret)).toBeNull();
    expect(await store.remove(secret)).toBe(false);
  });

  test.each(['', 'nul\0byte', 'x'.repeat(65_537)])(
    'refuse a value that no container could have (%#)',
    async (value) => {
      await expect((await open()).write(secret, value)).rejects.toMatchObject({ code: 'secret-refused' });
    },
  );

  test.each(['../x', 'a/b', '.', '', 'x'.repeat(64)])('refuse %j for a name', async (name) => {
    await expect((await open()).write({ ...secret, name }, 'x')).rejects.toMatchObject({ code: 'secret-refused' });
    await expect((await open()).read({ ...secret, service: name })).rejects.toMatchObject({ code: 'secret-refused' });
  });
});

describe('the encrypted files', () => {
  const path = join(directory, 'files');

  test('hold no value in the clear, for their owner alone', async () => {
    const store = await FileSecretStore.open(path);
    await store.write(secret, 'find-me-in-the-file');
    const file = join(path, appId, 'web', 'api-key');
    expect(readFileSync(file).includes('find-me')).toBe(false);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(join(path, 'key')).mode & 0o777).toBe(0o600);
    expect(statSync(path).mode & 0o777).toBe(0o700);
  });

  test('a file that was changed, or put in another place, does not open and is not a value', async () => {
    const store = await FileSecretStore.open(path);
    await store.write(secret, 'x');
    const file = join(path, appId, 'web', 'api-key');
    copyFileSync(file, join(path, appId, 'web', 'other'));
    await expect(store.read({ ...secret, name: 'other' })).rejects.toMatchObject({ code: 'secret-refused' });
    const bytes = readFileSync(file);
    bytes[bytes.length - 1]! ^= 1;
    writeFileSync(file, bytes);
    await expect(store.read(secret)).rejects.toMatchObject({ code: 'secret-refused' });
    rmSync(join(path, appId, 'web', 'other'));
  });

  test('a key of the wrong length is an error that names its file', async () => {
    const other = join(directory, 'short-key');
    mkdirSync(other);
    writeFileSync(join(other, 'key'), 'short');
    await expect(FileSecretStore.open(other)).rejects.toThrow(`${other}/key has not 32 bytes`);
  });
});

test('files for a container are readable inside, their directory is not, and both go', async () => {
  const root = join(directory, 'mounted');
  const files = new SecretFiles(root);
  await files.write('instance', new Map([['API_KEY', 'value']]));
  expect(readFileSync(join(root, 'instance', 'API_KEY'), 'utf8')).toBe('value');
  expect(statSync(join(root, 'instance', 'API_KEY')).mode & 0o777).toBe(0o444);
  expect(statSync(join(root, 'instance')).mode & 0o777).toBe(0o700);
  await files.remove('instance');
  expect(readdirSync(root)).toEqual([]);
  await files.write('none', new Map());
  expect(readdirSync(root)).toEqual([]);
});
