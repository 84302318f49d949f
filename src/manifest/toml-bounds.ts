// Bounds of a TOML text that are judged before any parser sees it: parts, depth of dotted keys, length of values.
// Invariant: one pass, no memory; what it lets through is parsed in time and space that the text's size bounds.
import type { SyntaxFault } from '../config/syntax.ts';
import { deepest } from './depth.ts';

/** Dots, brackets, commas and equals signs outside strings; a manifest of a thousand lines has a few thousand. */
const mostParts = 10_000;
/** Beyond the largest value that is accepted (64 KiB), so that the form can say so. */
const longestString = 100_000;
const longestWord = 4096;

const newline = 0x0a;
const quote = 0x22;
const apostrophe = 0x27;
const hash = 0x23;
const comma = 0x2c;
const dot = 0x2e;
const equals = 0x3d;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** Why the text is refused as it is, and where; null when it may be parsed. */
export function refuseTomlText(text: string): SyntaxFault | null {
  let line = 1;
  let lineStart = 0;
  let parts = 0;
  let dots = 0;
  let word = 0;
  const at = (i: number, message: string): SyntaxFault => ({ line, column: i - lineStart + 1, message });
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === newline) {
      line++;
      lineStart = i + 1;
      dots = 0;
      word = 0;
    } else if (code === hash) {
      const end = text.indexOf('\n', i);
      i = (end < 0 ? text.length : end) - 1;
    } else if (code === quote || code === apostrophe) {
      const end = endOfString(text, i, code);
      if (end - i > longestString) return at(i, 'is larger than any value of a manifest');
      for (let j = text.indexOf('\n', i); j >= 0 && j < end; j = text.indexOf('\n', j + 1)) {
        line++;
        lineStart = j + 1;
      }
      i = end - 1;
      word = 0;
    } else if (code === dot) {
      word = 0;
      if (++dots > deepest) return at(i, 'is nested too deeply');
      if (++parts > mostParts) return at(i, 'has more parts than any manifest');
    } else if (isDelimiter(code)) {
      word = 0;
      dots = 0;
      if (++parts > mostParts) return at(i, 'has more parts than any manifest');
    } else if (++word > longestWord) return at(i, 'is longer than any word of a manifest');
  }
  return null;
}

function isDelimiter(code: number): boolean {
  return (
    code === comma ||
    code === equals ||
    code === openBracket ||
    code === closeBracket ||
    code === openBrace ||
    code === closeBrace
  );
}

/** The index after the closing quotes, or the end of the text (or line) when there are none: the parser will say so. */
function endOfString(text: string, start: number, code: number): number {
  const mark = code === quote ? '"' : "'";
  const long = text.startsWith(mark.repeat(3), start);
  let i = start + (long ? 3 : 1);
  for (; i < text.length; i++) {
    const each = text.charCodeAt(i);
    if (each === backslash && code === quote) i++;
    else if (!long && (each === code || each === newline)) return each === newline ? i : i + 1;
    else if (long && each === code && text.startsWith(mark.repeat(3), i)) {
      // Up to two quotes may stand before the closing three.
      let end = i + 3;
      while (end < i + 5 && text.charCodeAt(end) === code) end++;
      return end;
    }
  }
  return text.length;
}
