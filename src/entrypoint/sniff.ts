// What a client speaks, by its first bytes: plaintext HTTP, TLS, or something else.
// Invariant: pure; however the bytes are cut, the answer is the same. What begins like HTTP, TLS or a PROXY header is never
// called anything else, however malformed it goes on; and an answer is never given on bytes that could still become
// another.
import { looksProxied } from '../tcp/proxy-header.ts';

export type Sniffed =
  | 'http1'
  | 'h2c'
  | 'tls'
  /** Neither of these, nor a broken one of them. */
  | 'raw'
  | 'proxy'
  /** Begins like HTTP, and is none. */
  | 'malformed';

/** RFC 9113 §3.4. */
export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');
const tlsHandshake = 0x16;
/** Time to show what is spoken, from the first byte on: for everything that is told by its first bytes. */
export const sniffMs = 5000;
/** Words that only HTTP begins with: what follows one of them is for the HTTP engine to judge, however broken it is. */
const methods = 'GET HEAD POST PUT PATCH DELETE CONNECT OPTIONS TRACE PROPFIND MKCOL'
  .split(' ')
  .map((method) => Buffer.from(method, 'latin1'));
/** Other methods are taken for HTTP by the whole request line, which has to come within this. */
const longestLine = 8 * 1024;
const longestMethod = 32;

/**
 * Null: more bytes are needed to tell.
 * @param ended  no more bytes will come
 */
export function sniff(bytes: Buffer, ended: boolean): Sniffed | null {
  if (bytes.length === 0) return null;
  if (bytes[0] === tlsHandshake) return 'tls';
  const proxied = looksProxied(bytes);
  if (proxied === true) return 'proxy';
  const http = proxied === null ? 'begun' : sniffHttp(bytes);
  // What was cut short in a word of HTTP, or of a PROXY header, was meant to be one.
  if (http === 'begun') return ended ? 'malformed' : null;
  if (http === 'open') return ended ? 'raw' : null;
  return http;
}

/** `begun`: inside a word that only HTTP has. `open`: inside a word that could be anything. */
type HttpSniffed = 'http1' | 'h2c' | 'raw' | 'malformed' | 'begun' | 'open';

function sniffHttp(bytes: Buffer): HttpSniffed {
  if (beginsAs(bytes, 0, preface)) return bytes.length >= preface.length ? 'h2c' : 'begun';
  const start = lineStart(bytes);
  const method = methods.find((each) => beginsAs(bytes, start, each));
  if (method === undefined) return sniffLine(bytes, start);
  const next = bytes[start + method.length];
  if (next === undefined) return 'begun';
  // A longer word is another word.
  return isTokenByte(next) ? sniffLine(bytes, start) : 'http1';
}

/** What there is from `start` on and `word` agree, as far as both go. */
export function beginsAs(bytes: Buffer, start: number, word: Buffer): boolean {
  const length = Math.min(bytes.length - start, word.length);
  return bytes.compare(word, 0, length, start, start + length) === 0;
}

/** RFC 9112 §2.2: an empty line may come before a request line. */
function lineStart(bytes: Buffer): number {
  return bytes.length >= 2 && bytes[0] === 0x0d && bytes[1] === 0x0a ? 2 : 0;
}

/** A request line of an unknown method: token SP anything SP "HTTP/". The case of the version is the engine's to judge. */
function sniffLine(bytes: Buffer, start: number): HttpSniffed {
  let at = start;
  while (at < bytes.length && isTokenByte(bytes[at]!)) at++;
  if (at - start > longestMethod) return 'raw';
  if (at === bytes.length) return 'open';
  if (at === start || bytes[at] !== 0x20) return 'raw';
  const targetStart = at + 1;
  at = targetStart;
  while (at < bytes.length && bytes[at]! > 0x20 && bytes[at] !== 0x7f) at++;
  if (at - start > longestLine) return 'malformed';
  if (at === bytes.length) return 'open';
  if (at === targetStart || bytes[at] !== 0x20) return 'raw';
  const version = bytes.toString('latin1', at + 1, at + 6).toUpperCase();
  if (version === 'HTTP/') return 'http1';
  if (!'HTTP/'.startsWith(version)) return 'raw';
  return version === '' ? 'open' : 'begun';
}

/** RFC 9110 §5.6.2. */
function isTokenByte(byte: number): boolean {
  return (
    (byte >= 0x61 && byte <= 0x7a) ||
    (byte >= 0x41 && byte <= 0x5a) ||
    (byte >= 0x30 && byte <= 0x39) ||
    (byte > 0x20 && byte < 0x7f && "!#$%&'*+-.^_`|~".includes(String.fromCharCode(byte)))
  );
}
