import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { writeFileAtomically } from '../../src/base/atomic-file.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-atomic-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('a file that is written atomically', () => {
  it('replaces the old one, with its mode, and leaves nothing beside it', async () => {
    const path = join(directory, 'key');
    writeFileSync(path, 'old', { mode: 0o644 });
    await writeFileAtomically(path, 'new', 0o600);
    expect(readFileSync(path, 'utf8')).toBe('new');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(directory)).toEqual(['key']);
  });

  it('is a new file, so whoever reads the old one reads it to its end', async () => {
    const path = join(directory, 'key');
    const before = statSync(path).ino;
    await writeFileAtomically(path, 'newer', 0o600);
    expect(statSync(path).ino).not.toBe(before);
  });

  it('leaves no temporary file when it cannot be put in place', async () => {
    const taken = join(directory, 'taken');
    mkdirSync(join(taken, 'inside'), { recursive: true });
    await expect(writeFileAtomically(taken, 'x', 0o600)).rejects.toThrow();
    expect(readdirSync(directory).sort()).toEqual(['key', 'taken']);
  });
});
