// Header compression for the frame client (RFC 7541): literals on the way out, everything on the way in.
// Invariant: what is encoded is sent byte for byte as given, however malformed; the decoder keeps its own dynamic table.
import type { Line } from './recorder.ts';

// RFC 7541 appendix A.
const staticTable: readonly Line[] = [
  [':authority', ''],
  [':method', 'GET'],
  [':method', 'POST'],
  [':path', '/'],
  [':path', '/index.html'],
  [':scheme', 'http'],
  [':scheme', 'https'],
  [':status', '200'],
  [':status', '204'],
  [':status', '206'],
  [':status', '304'],
  [':status', '400'],
  [':status', '404'],
  [':status', '500'],
  ['accept-charset', ''],
  ['accept-encoding', 'gzip, deflate'],
  ['accept-language', ''],
  ['accept-ranges', ''],
  ['accept', ''],
  ['access-control-allow-origin', ''],
  ['age', ''],
  ['allow', ''],
  ['authorization', ''],
  ['cache-control', ''],
  ['content-disposition', ''],
  ['content-encoding', ''],
  ['content-language', ''],
  ['content-length', ''],
  ['content-location', ''],
  ['content-range', ''],
  ['content-type', ''],
  ['cookie', ''],
  ['date', ''],
  ['etag', ''],
  ['expect', ''],
  ['expires', ''],
  ['from', ''],
  ['host', ''],
  ['if-match', ''],
  ['if-modified-since', ''],
  ['if-none-match', ''],
  ['if-range', ''],
  ['if-unmodified-since', ''],
  ['last-modified', ''],
  ['link', ''],
  ['location', ''],
  ['max-forwards', ''],
  ['proxy-authenticate', ''],
  ['proxy-authorization', ''],
  ['range', ''],
  ['referer', ''],
  ['refresh', ''],
  ['retry-after', ''],
  ['server', ''],
  ['set-cookie', ''],
  ['strict-transport-security', ''],
  ['transfer-encoding', ''],
  ['user-agent', ''],
  ['vary', ''],
  ['via', ''],
  ['www-authenticate', ''],
];

// RFC 7541 appendix B is a canonical code: the length of each symbol's code determines the code. Symbol 256 is the end.
const codeLengths: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
  28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6,
  5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23,
  22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22,
  23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26,
  20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27,
  27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27,
  27, 27, 27, 26, 30,
];

/** Code → symbol, keyed by `length * 2^30 + code`. */
const symbols = new Map<number, number>();
{
  let code = 0;
  for (let length = 1; length <= 30; length++) {
    code *= 2;
    for (let symbol = 0; symbol < codeLengths.length; symbol++) {
      if (codeLengths[symbol] === length) symbols.set(length * 2 ** 30 + code++, symbol);
    }
  }
}

function decodeHuffman(bytes: Buffer): string {
  const out: number[] = [];
  let code = 0;
  let length = 0;
  for (const byte of bytes) {
    for (let bit = 7; bit >= 0; bit--) {
      code = code * 2 + ((byte >> bit) & 1);
      length++;
      const symbol = symbols.get(length * 2 ** 30 + code);
      if (symbol === undefined) continue;
      if (symbol === 256) throw new Error('end-of-string symbol in a Huffman string');
      out.push(symbol);
      code = 0;
      length = 0;
    }
  }
  if (length > 7 || code !== 2 ** length - 1) throw new Error('bad Huffman padding');
  return Buffer.from(out).toString('latin1');
}

function encodeInteger(value: number, prefixBits: number, flags: number): Buffer {
  const max = 2 ** prefixBits - 1;
  if (value < max) return Buffer.of(flags | value);
  const bytes = [flags | max];
  let rest = value - max;
  while (rest >= 128) {
    bytes.push((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}

/** A header block of literals without indexing and without Huffman coding. */
export function encodeBlock(lines: readonly Line[]): Buffer {
  const parts: Buffer[] = [];
  for (const [name, value] of lines) {
    const nameBytes = Buffer.from(name, 'latin1');
    const valueBytes = Buffer.from(value, 'latin1');
    parts.push(
      Buffer.of(0),
      encodeInteger(nameBytes.length, 7, 0),
      nameBytes,
      encodeInteger(valueBytes.length, 7, 0),
      valueBytes,
    );
  }
  return Buffer.concat(parts);
}

export class HpackDecoder {
  readonly #dynamic: Line[] = [];
  #maxSize = 4096;

  decode(block: Buffer): Line[] {
    const lines: Line[] = [];
    let at = 0;
    const integer = (prefixBits: number): number => {
      const max = 2 ** prefixBits - 1;
      let value = block[at++]! & max;
      if (value < max) return value;
      for (let shift = 1; ; shift *= 128) {
        const byte = block[at++]!;
        value += (byte & 127) * shift;
        if (byte < 128) return value;
      }
    };
    const text = (): string => {
      const huffman = (block[at]! & 128) !== 0;
      const length = integer(7);
      const bytes = block.subarray(at, at + length);
      at += length;
      return huffman ? decodeHuffman(bytes) : bytes.toString('latin1');
    };
    while (at < block.length) {
      const first = block[at]!;
      if (first >= 128) {
        lines.push(this.#entry(integer(7)));
      } else if (first >= 64 || first < 32) {
        const index = integer(first >= 64 ? 6 : 4);
        const name = index === 0 ? text() : this.#entry(index)[0];
        const line: Line = [name, text()];
        if (first >= 64) this.#dynamic.unshift(line);
        this.#evict();
        lines.push(line);
      } else {
        this.#maxSize = integer(5);
        this.#evict();
      }
    }
    return lines;
  }

  #entry(index: number): Line {
    const entry = index <= staticTable.length ? staticTable[index - 1] : this.#dynamic[index - staticTable.length - 1];
    if (entry === undefined) throw new Error(`no header table entry ${index}`);
    return entry;
  }

  #evict(): void {
    let size = 0;
    for (const [i, [name, value]] of this.#dynamic.entries()) {
      size += name.length + value.length + 32;
      if (size > this.#maxSize) this.#dynamic.length = Math.min(this.#dynamic.length, i);
    }
  }
}
