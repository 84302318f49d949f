// The table and the charts of docs/performance.md, made anew from the results that are there.
// Invariant: a figure on the page is the median of a run whose JSON is in bench/results; what was not asked says so.
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Result } from './question.ts';
import { markdown } from './report.ts';
import { Figures, type Limit, type Row, rows } from './targets.ts';

const page = join(import.meta.dirname, '../docs/performance.md');
const charts = join(import.meta.dirname, '../docs/performance');
const results = join(import.meta.dirname, 'results');
/** They have no target, and are told as well. */
const further = ['tcp-connections', 'gate', 'flows', 'generator'];
/** Questions whose chart is on the page. */
const drawn = ['http1', 'h2', 'https1', 'bodies', 'tcp', 'websocket', 'udp'];

export function fillPage(): void {
  const names = [...new Set([...rows.map(({ question }) => question), ...further])];
  const seen = new Map(names.map((name) => [name, read(name)]));
  let text = readFileSync(page, 'utf8');
  text = fill(text, 'targets', targets(seen));
  text = fill(text, 'questions', names.map((name) => details(name, seen.get(name) ?? null)).join('\n\n'));
  writeFileSync(page, text);
  mkdirSync(charts, { recursive: true });
  for (const name of drawn) {
    const file = join(results, `${name}.svg`);
    if (existsSync(file)) copyFileSync(file, join(charts, `${name}.svg`));
  }
}

function read(name: string): Measured | null {
  const file = join(results, `${name}.json`);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Measured) : null;
}

interface Measured extends Result {
  readonly rounds: number;
  readonly seconds: number;
}

/** Puts `content` between the two marks of a part of the page. */
export function fill(text: string, part: string, content: string): string {
  const [begin, end] = [`<!-- ${part} -->`, `<!-- /${part} -->`];
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from < 0 || to < from) throw new Error(`the page has no part "${part}"`);
  return `${text.slice(0, from + begin.length)}\n${content}\n${text.slice(to)}`;
}

function targets(seen: ReadonlyMap<string, Measured | null>): string {
  const lines = rows.flatMap((row) => {
    const result = seen.get(row.question) ?? null;
    return result === null ? [`| ${row.work} | not measured | | | | |`] : targetLines(row, new Figures(result));
  });
  return ['| work | Turnpike | others | target | seen | |', '| --- | ---: | --- | --- | ---: | --- |', ...lines].join(
    '\n',
  );
}

function targetLines(row: Row, figures: Figures): string[] {
  const shown = (contestant: string): string => number(figures.of(row.key, contestant), row.digits);
  const others = figures.result.contestants.map(({ name }) => name).filter((name) => name !== 'turnpike');
  const peers = others.map((name) => `${name} ${shown(name)}`).filter((peer) => !peer.endsWith('–'));
  return row.limits.map((limit, i) => {
    const cells = i === 0 ? [row.work, `**${shown('turnpike')}**`, peers.join(', ')] : ['', '', ''];
    const value = limit.seen(figures);
    return `| ${[...cells, limit.target, number(value, limit.digits) + limit.unit, verdict(value, limit)].join(' | ')} |`;
  });
}

function verdict(value: number, { most }: Limit): string {
  if (Number.isNaN(value)) return 'not measured';
  if (value <= most) return 'met';
  return most === 0 ? '**missed**' : `**missed by ${Math.max(1, Math.round((value / most - 1) * 100))} %**`;
}

const number = (value: number, digits: number): string => (Number.isFinite(value) ? value.toFixed(digits) : '–');

function details(name: string, result: Measured | null): string {
  if (result === null) return `### ${name}\n\nNot measured.`;
  const chart = drawn.includes(name) ? `\n\n![${result.asks}](performance/${name}.svg)` : '';
  const how = `\`npm run bench -- ${name} --rounds ${result.rounds} --seconds ${result.seconds}\``;
  return `### ${name}\n\n${result.asks[0]!.toUpperCase()}${result.asks.slice(1)}. ${how}\n\n${markdown(result)}${chart}`;
}
