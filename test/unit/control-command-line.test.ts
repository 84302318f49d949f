import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createProgram } from '../../src/control/command-line.ts';
import { createTerminal, type TerminalStreams } from '../../src/control/terminal.ts';
import { run } from '../support/command.ts';

const silent: TerminalStreams = { out: { write: () => true }, err: { write: () => true }, env: {} };

function leaves(command: Command, path: readonly string[] = []): { path: readonly string[]; command: Command }[] {
  if (command.commands.length === 0) return [{ path, command }];
  return command.commands.flatMap((each) => leaves(each, [...path, each.name()]));
}

const commands = leaves(
  createProgram(
    { terminal: createTerminal(silent), cwd: '/', systemConfigFile: '/config.toml', exit: () => {} },
    silent,
  ),
);
const readers = [
  'check',
  'reload',
  'diff',
  'status',
  'routes list',
  'traffic status',
  'explain',
  'tls status',
  'tls ca',
];

let empty: string;

beforeAll(() => {
  empty = mkdtempSync(join(tmpdir(), 'turnpike-cli-'));
});
afterAll(() => rmSync(empty, { recursive: true }));

describe('help', () => {
  it.each(commands.map(({ path }) => path.join(' ')))(
    '`%s --help` has an example of itself and exits with 0',
    async (path) => {
      const { code, out, err } = await run([...path.split(' '), '--help'], empty);
      expect(code).toBe(0);
      expect(err).toBe('');
      expect(out).toMatch(new RegExp(`\nExamples?:\n {2}\\$ turnpike ${path}`));
    },
  );

  it('the first screen lists every command and the first steps', async () => {
    const { code, out } = await run(['--help'], empty);
    expect(code).toBe(0);
    for (const { path } of commands) expect(out).toContain(`  ${path[0]}`);
    expect(out).toContain('$ turnpike demo');
  });

  it.each(readers)('`%s` can answer in JSON', (path) => {
    const found = commands.find((each) => each.path.join(' ') === path);
    expect(found?.command.options.map((option) => option.long)).toContain('--json');
  });
});

describe('wrong usage', () => {
  it.each([
    [['no-such-command'], "unknown command 'no-such-command'"],
    [['status', '--no-such-option'], "unknown option '--no-such-option'"],
    [['explain'], "missing required argument 'url'"],
    [['service', 'switch', 'app.test'], 'either --to HOST:PORT[,HOST:PORT] or --to-config'],
    [['service', 'switch', 'app.test', '--to', '127.0.0.1:1', '--to-config'], 'either --to'],
    [['service', 'switch', 'app.test', '--to', '127.0.0.1'], 'HOST:PORT is accepted'],
    [['service', 'switch', 'app.test', '--to', '127.0.0.1:70000'], 'HOST:PORT is accepted'],
    [['service', 'switch', 'app.test', '--to', '127.0.0.1:80,'], 'HOST:PORT is accepted'],
    [['service', 'switch', 'app.test', '--to', '127.0.0.1:80', '--drain', '30'], 'a duration with a unit'],
  ])('%j exits with 2 and says what is right, on stderr', async (argv, text) => {
    const { code, out, err } = await run(argv, empty);
    expect(code).toBe(2);
    expect(out).toBe('');
    expect(err).toContain(text);
  });
});

describe('without a running process', () => {
  it('a command says which files it looked for', async () => {
    const { code, err } = await run(['status'], empty);
    expect(code).toBe(1);
    expect(err).toContain(`looked for ./config.toml and ${join(empty, 'etc/config.toml')}`);
    expect(err).toContain('--config FILE');
  });

  it('a command says how to start it', async () => {
    const config = join(empty, 'other.toml');
    writeFileSync(config, '');
    const { code, err } = await run(['status', '--config', 'other.toml'], empty);
    expect(code).toBe(1);
    expect(err).toContain(`nobody answers at ${join(empty, '.turnpike/turnpike.sock')}`);
    expect(err).toContain(`turnpike serve --config ${config}`);
  });

  it('`serve` without a configuration says where to begin', async () => {
    const { code, err } = await run(['serve'], empty);
    expect(code).toBe(1);
    expect(err).toContain('cp config.example.toml config.toml');
  });

  it('`version` works all the same', async () => {
    const { code, out } = await run(['version'], empty);
    expect(code).toBe(0);
    expect(out).toMatch(/^turnpike \d+\.\d+\.\d+ \(Node\.js \d+\.\d+\.\d+\)\n$/);
  });
});
