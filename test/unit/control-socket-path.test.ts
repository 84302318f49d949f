import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findConfig, findSocket, stateDirOf } from '../../src/control/socket-path.ts';

let cwd: string;
let systemConfigFile: string;

beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'turnpike-place-'));
  mkdirSync(join(cwd, 'etc'));
  systemConfigFile = join(cwd, 'etc/config.toml');
});
afterEach(() => rmSync(cwd, { recursive: true }));

const write = (name: string, text: string): string => {
  const file = join(cwd, name);
  writeFileSync(file, text);
  return file;
};

describe('the state directory of a configuration file', () => {
  it.each([
    ['is .turnpike beside it by default', 'workers = 1\n', '.turnpike'],
    ['is relative to the file', 'state_dir = "./run/state"\n', 'run/state'],
    ['may be absolute', "state_dir = '/var/lib/turnpike'\n", '/var/lib/turnpike'],
    [
      'is found in a file that is broken further down',
      'state_dir = "run" # here\n[entrypoints.web\naddress = \n',
      'run',
    ],
    ['is not taken from a table', '[other]\nstate_dir = "elsewhere"\n[broken\n', '.turnpike'],
    ['is the default where the value is no text', 'state_dir = 7\n', '.turnpike'],
  ])('%s', (_name, text, expected) => {
    const file = write('config.toml', text);
    expect(stateDirOf(file)).toBe(expected.startsWith('/') ? expected : join(cwd, expected));
  });

  it('is the default for a file that cannot be read', () => {
    expect(stateDirOf(join(cwd, 'nothing.toml'))).toBe(join(cwd, '.turnpike'));
  });
});

describe('where a command looks for the process', () => {
  const find = (options: Parameters<typeof findSocket>[0] = {}): string | null =>
    findSocket(options, { cwd, systemConfigFile })?.path.slice(cwd.length + 1) ?? null;

  it('nowhere when nothing is there', () => {
    expect(find()).toBeNull();
    expect(findConfig(undefined, { cwd, systemConfigFile })).toBeNull();
  });

  it('the system file, then a socket near by, then a file near by, then what is named', () => {
    write('etc/config.toml', 'state_dir = "system"\n');
    expect(find()).toBe('etc/system/turnpike.sock');
    mkdirSync(join(cwd, '.turnpike'));
    write('.turnpike/turnpike.sock', '');
    expect(find()).toBe('.turnpike/turnpike.sock');
    write('config.toml', 'state_dir = "near"\n');
    expect(find()).toBe('near/turnpike.sock');
    write('other.toml', 'state_dir = "named"\n');
    expect(find({ config: 'other.toml' })).toBe('named/turnpike.sock');
    expect(find({ config: 'other.toml', socket: 'my.sock' })).toBe('my.sock');
  });
});
