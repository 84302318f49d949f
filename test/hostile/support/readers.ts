// How requests and answers are read off a byte stream: once strictly, in the only form that we write, and then as all kinds
// of lenient servers and clients do it.
// Invariant: independent of the code under test; a lenient reader never throws, it reads on as well as it can.

export interface ReadMessage {
  /** `GET /path`, or the status of an answer. */
  readonly start: string;
  readonly lines: readonly (readonly [name: string, value: string])[];
  /** It ended as its framing says. */
  readonly whole: boolean;
}

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/**
 * The requests in these bytes, every one in canonical form: our start line, `name: value` lines, one Host, one framing of
 * ours, chunks of plain lower-case hexadecimal, and nothing before, between or behind. Throws at the first byte of another form.
 */
export function canonicalRequests(bytes: string): ReadMessage[] {
  const messages: ReadMessage[] = [];
  let at = 0;
  const line = (): string | null => {
    const end = bytes.indexOf('\n', at);
    if (end < 0) return null;
    const text = bytes.slice(at, end + 1);
    if (!/^[\t\x20-\x7e\x80-\xff]*\r\n$/.test(text)) throw new Error(`not a line of ours: ${JSON.stringify(text)}`);
    at = end + 1;
    return text.slice(0, -2);
  };
  while (at < bytes.length) {
    const first = line();
    if (first === null) throw new Error(`half a start line: ${JSON.stringify(bytes.slice(at))}`);
    const match = /^([^ ]+) ([\x21-\x7e]+) HTTP\/1\.1$/.exec(first);
    if (match === null || !token.test(match[1]!))
      throw new Error(`not a request line of ours: ${JSON.stringify(first)}`);
    const lines = fieldLines(line);
    const start = `${match[1]} ${match[2]}`;
    if (lines === null) throw new Error(`half a head: ${first}`);
    const values = (name: string): string[] =>
      lines.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);
    if (values('host').length !== 1) throw new Error(`${values('host').length} Host lines: ${first}`);
    const codings = values('transfer-encoding');
    const lengths = values('content-length');
    if (codings.length + lengths.length > 1) throw new Error(`two framings: ${first}`);
    if (codings.length === 1 && codings[0] !== 'chunked') throw new Error(`coding ${codings[0]}`);
    if (lengths.length === 1 && !/^(?:0|[1-9][0-9]*)$/.test(lengths[0]!)) throw new Error(`length ${lengths[0]}`);
    let whole = true;
    if (codings.length === 1)
      whole = canonicalChunks(
        line,
        bytes,
        () => at,
        (next) => (at = next),
      );
    else if (lengths.length === 1) {
      const length = Number(lengths[0]);
      whole = bytes.length - at >= length;
      at = Math.min(bytes.length, at + length);
    }
    messages.push({ start, lines, whole });
    if (!whole && at < bytes.length) throw new Error(`bytes behind a request that is not whole: ${first}`);
  }
  return messages;
}

/** Chunks as we write them, up to the blank line behind the trailers; false when they are not all there. */
function canonicalChunks(
  next: () => string | null,
  bytes: string,
  position: () => number,
  moveTo: (at: number) => void,
): boolean {
  const cut = (): boolean => {
    moveTo(bytes.length);
    return false;
  };
  for (;;) {
    const size = next();
    if (size === null) return cut();
    if (!/^(?:0|[1-9a-f][0-9a-f]*)$/.test(size)) throw new Error(`not a chunk size of ours: ${JSON.stringify(size)}`);
    const length = Number.parseInt(size, 16);
    if (length === 0) return fieldLines(next) === null ? cut() : true;
    const end = position() + length;
    if (bytes.length < end + 2) return cut();
    if (bytes.slice(end, end + 2) !== '\r\n') throw new Error('a chunk without its end');
    moveTo(end + 2);
  }
}

function fieldLines(next: () => string | null): [string, string][] | null {
  const lines: [string, string][] = [];
  for (;;) {
    const text = next();
    if (text === null) return null;
    if (text === '') return lines;
    const colon = text.indexOf(': ');
    const name = text.slice(0, colon);
    const value = text.slice(colon + 2);
    if (colon < 0 || !token.test(name) || /^[ \t]|[ \t]$/.test(value)) {
      // An empty value is `name: `.
      throw new Error(`not a field line of ours: ${JSON.stringify(text)}`);
    }
    lines.push([name, value]);
  }
}

/**
 * The answers in these bytes, in the only form that we write; `methods` are those of the requests. Throws at the first byte
 * of another form. `closed`: the connection ended behind them.
 */
export function canonicalAnswers(bytes: string, methods: readonly string[], closed: boolean): ReadMessage[] {
  const messages: ReadMessage[] = [];
  let at = 0;
  const line = (): string | null => {
    const end = bytes.indexOf('\n', at);
    if (end < 0) return null;
    const text = bytes.slice(at, end + 1);
    if (!/^[\t\x20-\x7e\x80-\xff]*\r\n$/.test(text)) throw new Error(`not a line of ours: ${JSON.stringify(text)}`);
    at = end + 1;
    return text.slice(0, -2);
  };
  for (let answered = 0; at < bytes.length; ) {
    const first = line();
    const match = /^HTTP\/1\.1 ([1-9][0-9][0-9]) .*$/.exec(first ?? '');
    if (match === null) throw new Error(`not a status line of ours: ${JSON.stringify(first)}`);
    const start = match[1]!;
    const lines = fieldLines(line);
    if (lines === null) throw new Error(`half a head: ${first}`);
    if (start.startsWith('1')) continue;
    const values = (name: string): string[] =>
      lines.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);
    const codings = values('transfer-encoding');
    const lengths = values('content-length');
    if (codings.length + lengths.length > 1) throw new Error(`two framings: ${first}`);
    if (codings.length === 1 && codings[0] !== 'chunked') throw new Error(`coding ${codings[0]}`);
    if (lengths.length === 1 && !/^(?:0|[1-9][0-9]*)$/.test(lengths[0]!)) throw new Error(`length ${lengths[0]}`);
    const method = methods[answered++];
    if (method === undefined) throw new Error(`an answer that nobody asked for: ${first}`);
    let whole = true;
    if (method !== 'HEAD' && start !== '204' && start !== '304') {
      if (codings.length === 1)
        whole = canonicalChunks(
          line,
          bytes,
          () => at,
          (next) => (at = next),
        );
      else if (lengths.length === 1) {
        whole = bytes.length - at >= Number(lengths[0]);
        at = Math.min(bytes.length, at + Number(lengths[0]));
      } else {
        if (!closed) throw new Error(`no framing, and no end: ${first}`);
        at = bytes.length;
      }
    }
    messages.push({ start, lines, whole });
  }
  return messages;
}

// ---- lenient reading -------------------------------------------------------------------------------------------

/** What some server, cache, proxy or client tolerates. */
export interface Leniency {
  readonly name: string;
  /** What ends a line. */
  readonly lineEnd: RegExp;
  /** A line that begins with a blank goes on the one before. */
  readonly folds: boolean;
  /** Which of several lengths holds. */
  readonly length: 'first' | 'last';
  /** Which of both framings holds. */
  readonly both: 'coding' | 'length';
  /** What counts as chunked. */
  readonly chunked: (value: string) => boolean;
  /** Blanks and control bytes around a name are dropped. */
  readonly trimsNames: boolean;
  /** `_` is `-`. */
  readonly underscores: boolean;
  /** How a number is read off the front of a text. */
  readonly decimal: (text: string) => number;
  readonly hexadecimal: (text: string) => number;
  /** The bytes behind a chunk's data are passed over, whatever they are. */
  readonly looseChunkEnd: boolean;
}

const strictest: Leniency = {
  name: 'strict',
  lineEnd: /\r\n/g,
  folds: false,
  length: 'first',
  both: 'coding',
  chunked: (value) => value.toLowerCase() === 'chunked',
  trimsNames: false,
  underscores: false,
  decimal: (text) => (/^\d+$/.test(text) ? Number(text) : 0),
  hexadecimal: (text) => (/^[0-9a-f]+$/i.test(text) ? Number.parseInt(text, 16) : Number.NaN),
  looseChunkEnd: false,
};

const numberAnywhere = (text: string): number => Number(/\d+/.exec(text)?.[0] ?? 0);
const hexAtFront = (text: string): number => Number.parseInt(text.trim().replace(/^0x/i, ''), 16);

/** One habit each, and some that go together. */
export const leniencies: readonly Leniency[] = [
  strictest,
  { ...strictest, name: 'LF ends a line', lineEnd: /\r?\n/g },
  { ...strictest, name: 'CR ends a line', lineEnd: /\r\n?|\n/g },
  { ...strictest, name: 'NUL ends a line', lineEnd: /\r\n|\0/g },
  { ...strictest, name: 'lines fold', folds: true },
  { ...strictest, name: 'lines fold, LF ends them', folds: true, lineEnd: /\r?\n/g },
  { ...strictest, name: 'the last length holds', length: 'last', decimal: numberAnywhere },
  { ...strictest, name: 'the length holds', both: 'length', decimal: numberAnywhere },
  { ...strictest, name: 'chunked is anywhere', chunked: (value) => /chunked/i.test(value) },
  { ...strictest, name: 'any coding is chunked', chunked: () => true },
  { ...strictest, name: 'the last coding counts', chunked: (value) => /(?:^|,)\s*chunked\s*,?\s*$/i.test(value) },
  { ...strictest, name: 'names are trimmed', trimsNames: true, chunked: (value) => /chunked/i.test(value) },
  { ...strictest, name: 'names are trimmed, lines fold', trimsNames: true, folds: true, lineEnd: /\r?\n/g },
  { ...strictest, name: 'underscores are hyphens', underscores: true, decimal: numberAnywhere, both: 'length' },
  { ...strictest, name: 'numbers with garbage', decimal: numberAnywhere, hexadecimal: hexAtFront },
  { ...strictest, name: 'loose chunks', hexadecimal: hexAtFront, looseChunkEnd: true, lineEnd: /\r?\n/g },
  {
    ...strictest,
    name: 'loose chunks, CR ends a line',
    hexadecimal: hexAtFront,
    looseChunkEnd: true,
    lineEnd: /\r\n?|\n/g,
  },
];

/** The messages that such a reader finds: `start` of each, as far as it can tell. */
export function lenientStarts(
  bytes: string,
  how: Leniency,
  kind: 'request' | 'answer',
  methods: readonly string[] = [],
): string[] {
  const starts: string[] = [];
  let answered = 0;
  let at = 0;
  const line = (): string | null => {
    how.lineEnd.lastIndex = at;
    const match = how.lineEnd.exec(bytes);
    if (match === null) return null;
    const text = bytes.slice(at, match.index);
    at = match.index + match[0].length;
    return text;
  };
  while (at < bytes.length) {
    let first = line();
    while (first === '') first = line();
    if (first === null) break;
    const words = first.trim().split(/[ \t\x0b\x0c]+/);
    const start = kind === 'request' ? `${words[0]} ${words[1] ?? ''}` : (words[1] ?? '');
    const lines: [string, string][] = [];
    for (;;) {
      const text = line();
      if (text === null || text === '') break;
      const previous = lines.at(-1);
      if (how.folds && /^[ \t]/.test(text) && previous !== undefined) {
        previous[1] += ` ${text.trim()}`;
        continue;
      }
      const colon = text.indexOf(':');
      if (colon < 0) continue;
      let name = text.slice(0, colon).toLowerCase();
      if (how.trimsNames) name = name.replace(/^[\0-\x20\x7f-\xff]+|[\0-\x20\x7f-\xff]+$/g, '');
      if (how.underscores) name = name.replaceAll('_', '-');
      lines.push([name, text.slice(colon + 1).trim()]);
    }
    starts.push(start);
    const values = (name: string): string[] => lines.filter(([each]) => each === name).map(([, value]) => value);
    const lengths = values('content-length');
    const isChunked = values('transfer-encoding').some((value) => how.chunked(value));
    const length = how.decimal((how.length === 'first' ? lengths[0] : lengths.at(-1)) ?? '');
    if (kind === 'answer' && start.startsWith('1')) continue;
    const bodiless = kind === 'answer' && (methods[answered++] === 'HEAD' || /^(?:204|304)$/.test(start));
    if (bodiless) continue;
    if (isChunked && (how.both === 'coding' || lengths.length === 0)) readChunks(line);
    else if (kind === 'answer' && lengths.length === 0 && !isChunked) at = bytes.length;
    else at = Math.min(bytes.length, at + length);
  }
  return starts;

  function readChunks(next: () => string | null): void {
    for (;;) {
      const text = next();
      if (text === null) {
        at = bytes.length;
        return;
      }
      const size = how.hexadecimal(text.split(';')[0]!);
      if (Number.isNaN(size)) return;
      if (size === 0) {
        for (let trailer = next(); trailer !== null && trailer !== ''; ) trailer = next();
        return;
      }
      at = Math.min(bytes.length, at + size);
      if (how.looseChunkEnd) {
        if (next() === null) at = bytes.length;
      } else if (bytes.slice(at, at + 2) === '\r\n') at += 2;
    }
  }
}
