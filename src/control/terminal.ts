// Where a command writes: answers to stdout, everything else to stderr, colours and progress only for people.
// Invariant: without a terminal (or with NO_COLOR) the output holds no escape sequence.
import { styleText } from 'node:util';

export type Style = 'bold' | 'dim' | 'green' | 'red' | 'yellow' | 'cyan';

export interface Terminal {
  /** One answer line. */
  line(text?: string): void;
  /** Something of somebody else's, as it is. */
  text(text: string): void;
  json(value: unknown): void;
  error(text: string): void;
  style(style: Style, text: string): string;
  /** What is going on right now, on stderr: replaced in place on a terminal, a line of its own elsewhere. */
  progress(text: string): void;
  /** Ends a progress line that was replaced in place. */
  progressDone(): void;
}

export interface TerminalStreams {
  readonly out: { write(text: string): unknown; readonly isTTY?: boolean };
  readonly err: { write(text: string): unknown; readonly isTTY?: boolean };
  readonly env: Readonly<Record<string, string | undefined>>;
}

export function createTerminal({ out, err, env }: TerminalStreams): Terminal {
  const plain = env['NO_COLOR'] !== undefined && env['NO_COLOR'] !== '';
  const colours = !plain && out.isTTY === true && env['TERM'] !== 'dumb';
  const inPlace = err.isTTY === true && env['TERM'] !== 'dumb';
  let open = false;
  let last = '';
  const endLine = (): void => {
    if (open) err.write('\n');
    open = false;
  };
  return {
    line: (text = '') => {
      endLine();
      out.write(`${text}\n`);
    },
    text: (text) => {
      endLine();
      out.write(text);
    },
    json: (value) => {
      endLine();
      out.write(`${JSON.stringify(value, null, 2)}\n`);
    },
    error: (text) => {
      endLine();
      err.write(`${text}\n`);
    },
    style: (style, text) => (colours ? styleText(style, text, { validateStream: false }) : text),
    progress: (text) => {
      if (text === last) return;
      last = text;
      err.write(inPlace ? `\r\u001b[2K${text}` : `${text}\n`);
      open = inPlace;
    },
    progressDone: endLine,
  };
}

/** Columns padded to their widest cell, two spaces between; trailing spaces dropped. Cells may hold colours. */
export function formatTable(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, visibleLength(cell));
  }
  return rows.map((row) =>
    row
      .map((cell, i) => cell + ' '.repeat(widths[i]! - visibleLength(cell)))
      .join('  ')
      .trimEnd(),
  );
}

/** The same with a dim heading. */
export function formatTableWithHeading(
  terminal: Terminal,
  heading: readonly string[],
  rows: readonly (readonly string[])[],
): string[] {
  const [first, ...rest] = formatTable([heading, ...rows]);
  return [terminal.style('dim', first!), ...rest];
}

function visibleLength(text: string): number {
  return text.replace(/\u001b\[[0-9;]*m/g, '').length;
}

/** "12 s ago", "3 h ago": one unit is enough to orient oneself. */
export function formatAge(ms: number): string {
  if (ms < 1000) return 'just now';
  if (ms < 120_000) return `${Math.floor(ms / 1000)} s ago`;
  if (ms < 7_200_000) return `${Math.floor(ms / 60_000)} min ago`;
  if (ms < 172_800_000) return `${Math.floor(ms / 3_600_000)} h ago`;
  return `${Math.floor(ms / 86_400_000)} days ago`;
}

/** The place of an origin without its key path: 'config.toml:12 external_routes."app.test"' → "config.toml:12". */
export function formatOrigin(origin: string): string {
  return /^(\S+:\d+) /.exec(origin)?.[1] ?? origin;
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
