// Every question of the bench runs from beginning to end. What it measures in a second means nothing and is not looked at.
import { spawn, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { repository } from '../support/turnpike.ts';

const questions = readdirSync(join(repository, 'bench/questions'))
  .filter((name) => name.endsWith('.ts'))
  .map((name) => name.slice(0, -3));
const programs = ['nginx', 'haproxy', 'caddy', 'wrk', 'h2load'];
const path = `${process.env['PATH'] ?? ''}:/usr/local/sbin:/usr/sbin:/sbin`;
const missing = programs.filter(
  (name) => spawnSync('sh', ['-c', `command -v ${name}`], { env: { PATH: path } }).status !== 0,
);

describe.skipIf(missing.length > 0 && process.env['CI'] !== 'true')('npm run bench', () => {
  it.each(questions)('-- %s --smoke', { timeout: 120_000 }, async (question) => {
    const { code, output } = await new Promise<{ code: number | null; output: string }>((resolve, reject) => {
      const child = spawn(process.execPath, [join(repository, 'bench/run.ts'), question, '--smoke'], {
        env: { ...process.env, PATH: path },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let text = '';
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding('utf8').on('data', (part: string) => {
          text += part;
        });
      }
      child.once('error', reject);
      child.once('close', (exit) => resolve({ code: exit, output: text }));
    });
    expect(code, output).toBe(0);
    expect(output).toMatch(/^turnpike[a-z ]* +\d/m);
  });
});
