// Results for people: a table on the terminal or in Markdown, and a chart; JSON for machines.
// Invariant: every figure is a median over rounds, and the spread of what is compared stands beside it.
import type { Result, Round } from './question.ts';

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** The median of a figure over the rounds of a contestant. */
export const figureOf = (rounds: readonly Round[], key: string): number =>
  median(rounds.map((round) => round[key] ?? Number.NaN));

/** Head and rows, as text. */
function cells(result: Result): readonly (readonly string[])[] {
  const [first, ...others] = result.figures;
  const { key, title, digits } = first!;
  const base = result.contestants[0]!;
  const ours = figureOf(base.rounds, key);
  const text = (value: number, places: number): string => (Number.isFinite(value) ? value.toFixed(places) : '–');
  return [
    ['', title, 'spread', `${base.name} ÷ this`, ...others.map((figure) => figure.title)],
    ...result.contestants.map(({ name, rounds }) => {
      const all = rounds.map((round) => round[key] ?? Number.NaN);
      const value = figureOf(rounds, key);
      return [
        name,
        text(value, digits),
        `${text(Math.min(...all), digits)}–${text(Math.max(...all), digits)}`,
        `${text(ours / value, 2)} ×`,
        ...others.map((figure) => text(figureOf(rounds, figure.key), figure.digits)),
      ];
    }),
  ];
}

export function table(result: Result): string {
  const rows = cells(result);
  const widths = rows[0]!.map((_title, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (row: readonly string[]): string =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  ');
  return [`${result.question}: ${result.asks}`, ...rows.map(line)].join('\n');
}

export function markdown(result: Result): string {
  const [head, ...rows] = cells(result);
  const line = (row: readonly string[]): string => `| ${row.join(' | ')} |`;
  const rule = head!.map((_title, i) => (i === 0 ? '---' : '---:'));
  return [line(head!), line(rule), ...rows.map(line)].join('\n');
}

/** Horizontal bars of what is compared; text colours follow the reader's theme. */
export function chart(result: Result): string {
  const { key, title, digits } = result.figures[0]!;
  const bars = result.contestants.map(({ name, rounds }) => ({ name, value: figureOf(rounds, key) }));
  const most = Math.max(...bars.map(({ value }) => value), Number.MIN_VALUE);
  const height = 34 + bars.length * 26;
  const rows = bars.map(({ name, value }, i) => {
    const y = 34 + i * 26;
    const width = Math.max(2, (value / most) * 340);
    const colour = name.startsWith('turnpike') ? '#2563eb' : '#94a3b8';
    return `<text x="150" y="${y + 13}" text-anchor="end">${name}</text><rect x="160" y="${y}" width="${width.toFixed(1)}" height="18" rx="3" fill="${colour}"/><text x="${(166 + width).toFixed(1)}" y="${y + 13}">${value.toFixed(digits)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 580 ${height}" width="580" height="${height}" role="img" aria-label="${title}: ${result.asks}"><style>text{font:12px system-ui,sans-serif;fill:#334155}@media (prefers-color-scheme:dark){text{fill:#cbd5e1}}</style><text x="10" y="18" font-weight="600">${title}: ${result.asks}</text>${rows.join('')}</svg>\n`;
}
