// Results for people: a table on the terminal and a chart; JSON for machines.
// Invariant: every figure is a median over rounds, and its spread stands beside it.
import type { Result, Round } from './question.ts';

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

const of = (rounds: readonly Round[], key: keyof Round): number => median(rounds.map((round) => round[key]));

export function table(result: Result): string {
  const ours = result.contestants.find(({ name }) => name === 'turnpike');
  const base = ours === undefined ? Number.NaN : of(ours.rounds, 'cpuMicros');
  const rows = result.contestants.map(({ name, rounds }) => {
    const cpu = rounds.map((round) => round.cpuMicros);
    const rate = of(rounds, 'perSecond');
    return [
      name,
      of(rounds, 'cpuMicros').toFixed(1),
      `${Math.min(...cpu).toFixed(1)}–${Math.max(...cpu).toFixed(1)}`,
      `${(base / of(rounds, 'cpuMicros')).toFixed(2)} ×`,
      result.bodyBytes === 0 ? rate.toFixed(0) : `${((rate * result.bodyBytes) / 1e6).toFixed(0)} MB/s`,
      (of(rounds, 'p50') / 1000).toFixed(2),
      (of(rounds, 'p99') / 1000).toFixed(2),
      (of(rounds, 'residentBytes') / 1e6).toFixed(0),
    ];
  });
  const head = ['', 'CPU µs / request', 'spread', 'turnpike ÷ this', 'per second', 'p50 ms', 'p99 ms', 'RSS MB'];
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]!.length)));
  const line = (cells: readonly string[]) =>
    cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  ');
  return [`${result.question}: ${result.asks}`, line(head), ...rows.map(line)].join('\n');
}

/** Horizontal bars of CPU time per request; text colours follow the reader's theme. */
export function chart(result: Result): string {
  const bars = result.contestants.map(({ name, rounds }) => ({ name, value: of(rounds, 'cpuMicros') }));
  const most = Math.max(...bars.map(({ value }) => value));
  const height = 34 + bars.length * 26;
  const rows = bars.map(({ name, value }, i) => {
    const y = 34 + i * 26;
    const width = Math.max(2, (value / most) * 360);
    const colour = name === 'turnpike' ? '#2563eb' : '#94a3b8';
    return `<text x="110" y="${y + 13}" text-anchor="end">${name}</text><rect x="120" y="${y}" width="${width.toFixed(1)}" height="18" rx="3" fill="${colour}"/><text x="${(126 + width).toFixed(1)}" y="${y + 13}">${value.toFixed(1)} µs</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 ${height}" width="560" height="${height}" role="img" aria-label="CPU time per request, ${result.asks}"><style>text{font:12px system-ui,sans-serif;fill:#334155}@media (prefers-color-scheme:dark){text{fill:#cbd5e1}}</style><text x="10" y="18" font-weight="600">CPU per request: ${result.asks}</text>${rows.join('')}</svg>\n`;
}
