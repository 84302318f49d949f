// The rules of the house, executed: layers, cycles, first lines, docs and example against the code, lint and types.
// A failure prints what is wrong and why the rule exists.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'smol-toml';
import { describe, expect, it } from 'vitest';
import { faultKinds } from '../src/base/fault.ts';
import type { Form } from '../src/config/form.ts';
import { loadConfig } from '../src/config/load.ts';
import { schema } from '../src/config/schema.ts';
import { reasons } from '../src/model/reason.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const src = join(root, 'src');

// Bottom first. A file imports only from its own folder and from folders before it.
const layers = [
  'base',
  'message',
  'model',
  'config',
  'manifest',
  'traffic',
  'http1',
  'upstream',
  'tls',
  'gate',
  'http',
  'tcp',
  'udp',
  'entrypoint',
  'certificates',
  'switchover',
  'runtime',
  'apps',
  'telemetry',
  'process',
  'load',
  'control',
  'main.ts',
];
const dataPlane = ['traffic', 'http1', 'upstream', 'tls', 'gate', 'http', 'tcp', 'udp', 'entrypoint'];
const controlPlane = ['certificates', 'switchover', 'runtime', 'apps', 'telemetry'];

interface SourceFile {
  /** Relative to src/, with slashes. */
  readonly name: string;
  readonly layer: string;
  readonly text: string;
  /** Files of src/ that it imports, types included. */
  readonly imports: readonly string[];
}

const files: readonly SourceFile[] = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .sort()
  .map((name) => {
    const path = join(src, name);
    const text = readFileSync(path, 'utf8');
    const imports = [...text.matchAll(/(?:^|\n)(?:import|export)\b[^;'"]*?from\s*['"](\.[^'"]+)['"]/g)]
      .concat([...text.matchAll(/\bimport\(\s*['"](\.[^'"]+)['"]\s*\)/g)])
      .map((match) => relative(src, resolve(dirname(path), match[1]!)))
      // package.json is data: it may be read from anywhere.
      .filter((imported) => imported !== '../package.json');
    return { name, layer: name.split('/')[0]!, text, imports };
  });

const exampleFiles = existsSync(join(root, 'docs/examples'))
  ? readdirSync(join(root, 'docs/examples')).filter((name) => name.endsWith('.toml'))
  : [];

/** Every key below a form, tables with free names written as "*". */
function schemaKeys(form: Form<unknown>, path = ''): Set<string> {
  const keys = new Set<string>();
  if (form.keys !== null) {
    for (const [name, key] of Object.entries(form.keys)) {
      if (key.kind !== 'key') continue;
      const below = path === '' ? name : `${path}.${name}`;
      keys.add(below);
      for (const each of schemaKeys(key.form, below)) keys.add(each);
    }
  }
  if (form.members !== null) for (const each of schemaKeys(form.members, `${path}.*`)) keys.add(each);
  return keys;
}

/** The keys that a document uses, spelled as `schemaKeys` spells them; unknown ones too. */
function exampleKeys(form: Form<unknown>, value: unknown, path = ''): Set<string> {
  const keys = new Set<string>();
  if (typeof value !== 'object' || value === null) return keys;
  const add = (more: Set<string>): void => {
    for (const each of more) keys.add(each);
  };
  if (form.keys !== null) {
    for (const table of Array.isArray(value) ? value : [value]) {
      for (const [name, member] of Object.entries(table as object)) {
        const key = form.keys[name];
        if (key === undefined && form.members !== null) {
          add(exampleKeys(form.members, member, `${path}.*`));
          continue;
        }
        const below = path === '' ? name : `${path}.${name}`;
        keys.add(below);
        if (key?.kind === 'key') add(exampleKeys(key.form, member, below));
      }
    }
  } else if (form.members !== null) {
    for (const member of Object.values(value)) add(exampleKeys(form.members, member, `${path}.*`));
  }
  return keys;
}

describe('layers', () => {
  it('every folder of src/ has a place in the order', () => {
    const unknown = [...new Set(files.map((file) => file.layer))].filter((layer) => !layers.includes(layer));
    expect(unknown, 'a folder without a place could import anything; add it to the order here').toEqual([]);
  });

  it('a file imports only from its own folder and from the ones below', () => {
    const wrong = files.flatMap((file) =>
      file.imports
        .map((imported) => imported.split('/')[0]!)
        .filter((layer) => layers.indexOf(layer) > layers.indexOf(file.layer) || layer === '..')
        .map((layer) => `src/${file.name} imports upwards from ${layer}`),
    );
    expect(wrong, 'knowledge flows down: what a lower folder needs from a higher one is handed to it').toEqual([]);
  });

  it('data plane and control plane meet in process/ only', () => {
    const wrong = files.flatMap((file) =>
      file.imports
        .map((imported) => imported.split('/')[0]!)
        .filter((layer) => controlPlane.includes(file.layer) && dataPlane.includes(layer))
        .map((layer) => `src/${file.name} imports ${layer}`),
    );
    expect(wrong, 'the supervisor carries no traffic, and workers decide nothing').toEqual([]);
  });

  it('there are no import cycles', () => {
    const byName = new Map(files.map((file) => [file.name, file]));
    const done = new Set<string>();
    const cycles: string[] = [];
    const visit = (name: string, trail: readonly string[]): void => {
      if (trail.includes(name)) {
        cycles.push([...trail.slice(trail.indexOf(name)), name].join(' → '));
        return;
      }
      if (done.has(name)) return;
      for (const next of byName.get(name)?.imports ?? []) visit(next, [...trail, name]);
      done.add(name);
    };
    for (const file of files) visit(file.name, []);
    expect(cycles, 'files that need each other are one noun, or lack the one below both').toEqual([]);
  });

  it('imports name existing files with their extension', () => {
    const wrong = files.flatMap((file) =>
      file.imports.filter((imported) => !existsSync(join(src, imported))).map((i) => `src/${file.name}: ${i}`),
    );
    expect(wrong, 'type stripping resolves nothing by itself').toEqual([]);
  });
});

describe('files', () => {
  it('begin with a comment that says their duty and their invariant', () => {
    const wrong = files
      .filter((file) => {
        const first = /^(?:#!.*\n)?((?:\/\/.*\n)+)/.exec(file.text)?.[1] ?? '';
        return !/^\/\/ \S/.test(first) || (file.name !== 'main.ts' && !/Invariant: /.test(first));
      })
      .map((file) => `src/${file.name}`);
    expect(wrong, 'a reader learns from the first lines whether this is the file they look for').toEqual([]);
  });

  it('have no default export and re-export no folder', () => {
    const wrong = files
      .filter((file) => /^export default\b|^export \* from\b/m.test(file.text))
      .map((file) => `src/${file.name}`);
    expect(wrong, 'one name for one thing, findable by search').toEqual([]);
  });

  it('leave no note for later', () => {
    const wrong = files.filter((file) => /\b(?:TODO|FIXME|XXX)\b|@ts-ignore|biome-ignore/.test(file.text));
    expect(
      wrong.map((file) => `src/${file.name}`),
      'what is missing belongs into an issue',
    ).toEqual([]);
  });

  it('are small: 500 lines at most', () => {
    const wrong = files
      .map((file) => ({ name: file.name, lines: file.text.split('\n').length - 1 }))
      .filter(({ lines }) => lines > 500)
      .map(({ name, lines }) => `src/${name}: ${lines} lines`);
    expect(wrong, 'a longer file hides a second noun').toEqual([]);
  });
});

describe('documents', () => {
  /** Codes that begin a row, a heading or an item. */
  const codesIn = (text: string): string[] =>
    [...text.matchAll(/^(?:\|\s*|#+\s*|- )`([a-z0-9-]+)`/gm)].map((match) => match[1]!).toSorted();

  it('docs/faults.md describes every fault code, and no other', () => {
    const [faults] = readFileSync(join(root, 'docs/faults.md'), 'utf8').split('\n## Reasons\n');
    expect(codesIn(faults!), 'an operator meets a code in the log and looks it up there').toEqual(
      Object.keys(faultKinds).toSorted(),
    );
  });

  it('docs/faults.md gives side, status and retry as the code has them', () => {
    const [faults] = readFileSync(join(root, 'docs/faults.md'), 'utf8').split('\n## Reasons\n');
    const rows = faults!.split('\n### ').flatMap((section) => {
      const side = section.slice(0, section.indexOf('\n')).toLowerCase();
      return [...section.matchAll(/^\| `([a-z0-9-]+)` \| (\S+) \| (\S+) \|/gm)].map(([, code, status, retry]) => [
        code,
        { side, status: status === '—' ? 0 : Number(status), retry },
      ]);
    });
    expect(Object.fromEntries(rows)).toEqual(faultKinds);
  });

  it('docs/faults.md describes every reason code, and no other', () => {
    const [, reasonTable] = readFileSync(join(root, 'docs/faults.md'), 'utf8').split('\n## Reasons\n');
    expect(codesIn(reasonTable ?? ''), 'the access log and `explain` use these words').toEqual(
      Object.keys(reasons).toSorted(),
    );
  });

  it('config.example.toml names every key of the schema, and no other', () => {
    const text = readFileSync(join(root, 'config.example.toml'), 'utf8');
    // "#key = …" and "#[table]" show what is not in use; "# words" are words.
    const shown = text.replaceAll(/^#(?=[[a-z_"])/gm, '');
    const inSchema = schemaKeys(schema);
    const inExample = exampleKeys(schema, parse(shown));
    // The keys of a path's route are those of its host; they are shown once.
    const once = (key: string): string => key.replace('external_routes.*.routes.*', 'external_routes.*');
    expect([...new Set([...inExample].map(once))].toSorted(), 'who copies the example must not miss a key').toEqual(
      [...new Set([...inSchema].map(once))].toSorted(),
    );
  });

  it('config.example.toml is valid as it is', async () => {
    const result = await loadConfig(join(root, 'config.example.toml'));
    expect(result.ok ? [] : result.problems).toEqual([]);
  });

  it.each(exampleFiles)('docs/examples/%s is valid as it is', async (name) => {
    const result = await loadConfig(join(root, 'docs/examples', name));
    // Files that an operator brings along are not there.
    const problems = result.ok ? [] : result.problems.filter(({ message }) => !/does not exist$/.test(message));
    expect(problems).toEqual([]);
  });

  it('relative links lead somewhere', () => {
    const documents = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md']
      .concat(
        readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
          .filter((name) => name.endsWith('.md'))
          .map((name) => join('docs', name)),
      )
      .filter((name) => existsSync(join(root, name)));
    const broken = documents.flatMap((name) =>
      [...readFileSync(join(root, name), 'utf8').matchAll(/\]\((?!https?:|mailto:|#)([^)\s#]+)(?:#[^)]*)?\)/g)]
        .map((match) => match[1]!)
        .filter((link) => !existsSync(resolve(root, dirname(name), link)))
        .map((link) => `${name}: ${link}`),
    );
    expect(broken).toEqual([]);
  });
});

describe('tools', () => {
  const run = (command: string, args: readonly string[]): { status: number | null; output: string } => {
    const result = spawnSync(join(root, 'node_modules/.bin', command), args, { cwd: root, encoding: 'utf8' });
    return { status: result.status, output: `${result.stdout}${result.stderr}` };
  };

  it('Biome has nothing to say', () => {
    const { status, output } = run('biome', ['check', '--error-on-warnings', '.']);
    expect(status, output).toBe(0);
  });

  it('the types are right', () => {
    const { status, output } = run('tsc', ['-p', '.']);
    expect(status, output).toBe(0);
  });
});
