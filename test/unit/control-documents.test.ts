import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { createProgram } from '../../src/control/command-line.ts';
import { createTerminal, type TerminalStreams } from '../../src/control/terminal.ts';

const root = join(import.meta.dirname, '../..');
const read = (name: string): string => readFileSync(join(root, name), 'utf8');
const documents = ['README.md', 'CHANGELOG.md', 'packaging/README.md'].concat(
  readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
);

const silent: TerminalStreams = { out: { write: () => true }, err: { write: () => true }, env: {} };
const program = createProgram(
  { terminal: createTerminal(silent), cwd: '/', systemConfigFile: '/config.toml', exit: () => {} },
  silent,
);
const leaves = (command: Command, path: readonly string[] = []): string[] =>
  command.commands.length === 0
    ? [path.join(' ')]
    : command.commands.flatMap((each) => leaves(each, [...path, each.name()]));

describe('the documents', () => {
  it('README lists every command, and no other', () => {
    const table = read('README.md').split('## Commands')[1]!.split('\n## ')[0]!;
    const listed = [...table.matchAll(/^\| (`[^|]+) \|/gm)].flatMap(([, cell]) => {
      let noun = '';
      return [...cell!.matchAll(/`([a-z ]+)(?: [A-Z]+)?`/g)].map(([, name]) => {
        // "`service pause` · `resume`": later verbs of a row share the noun of the first.
        const words = name!.split(' ');
        if (words.length === 2) noun = words[0]!;
        return words.length === 1 && noun !== '' ? `${noun} ${name}` : name!;
      });
    });
    expect(listed.toSorted()).toEqual(leaves(program).toSorted());
  });

  it('show only commands and options that exist', () => {
    const wrong = documents.flatMap((name) =>
      [...read(name).matchAll(/(?:npm run -s turnpike --|(?<![-\w/.])turnpike) ([a-z][^\n`#|&>]*)/g)]
        .map((match) => match[1]!.trim().split(/\s+/))
        .filter((words) => !isCommand(words))
        .map((words) => `${name}: ${words.join(' ')}`),
    );
    expect(wrong).toEqual([]);
  });

  it('name only metrics that are counted', () => {
    const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => read(join('src', name)))
      .join('');
    const named = documents.flatMap((name) =>
      [...read(name).matchAll(/`turnpike_([a-z_]+)/g)].map((match) => match[1]!),
    );
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter((name) => name !== '' && !sources.includes(`'${name}'`))).toEqual([]);
  });
});

/** A known path of verbs whose options are all known. */
function isCommand(words: readonly string[]): boolean {
  let command: Command = program;
  const rest = [...words];
  for (let next = find(command, rest[0]); next !== undefined; next = find(command, rest[0])) {
    command = next;
    rest.shift();
  }
  if (command.commands.length > 0) return false;
  const known = new Set(command.options.map((option) => option.long));
  return rest.every((word) => !word.startsWith('--') || known.has(word));
}

const find = (command: Command, name: string | undefined): Command | undefined =>
  command.commands.find((each) => each.name() === name);
