// Compiled code is read from directories that only this user can write to.
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isOurs } from '../../bin/compile-cache.js';

describe('a directory of compiled code', () => {
  let place: string;
  beforeEach(() => {
    place = mkdtempSync(join(tmpdir(), 'turnpike-test-'));
  });
  afterEach(() => rmSync(place, { recursive: true, force: true }));

  it('is made for this user alone', () => {
    expect(isOurs(join(place, 'a/b'))).toBe(true);
    expect(statSync(join(place, 'a/b')).mode & 0o777).toBe(0o700);
  });

  it('that others may write to is not used', () => {
    for (const mode of [0o777, 0o770, 0o702, 0o1777]) {
      const shared = join(place, mode.toString(8));
      mkdirSync(shared);
      chmodSync(shared, mode);
      expect(isOurs(shared), mode.toString(8)).toBe(false);
    }
  });

  it('that is a link to elsewhere is not used', () => {
    mkdirSync(join(place, 'elsewhere'), { mode: 0o700 });
    symlinkSync(join(place, 'elsewhere'), join(place, 'link'));
    expect(isOurs(join(place, 'link'))).toBe(false);
  });

  it('that cannot be made is done without', () => {
    expect(isOurs('/proc/turnpike/compiled')).toBe(false);
  });
});
