// Which bytes may stand where in an HTTP/1.1 head, as 256-entry tables over latin-1 character codes.
// Invariant: each table is exactly the grammar cited at it; index them with codes 0–255 only.

export const code = {
  tab: 0x09,
  lf: 0x0a,
  cr: 0x0d,
  space: 0x20,
  quote: 0x22,
  hash: 0x23,
  asterisk: 0x2a,
  dot: 0x2e,
  slash: 0x2f,
  zero: 0x30,
  nine: 0x39,
  colon: 0x3a,
  semicolon: 0x3b,
  question: 0x3f,
  at: 0x40,
} as const;

function table(allows: (code: number) => boolean): Uint8Array {
  const entries = new Uint8Array(256);
  for (let i = 0; i < 256; i++) entries[i] = allows(i) ? 1 : 0;
  return entries;
}

const alphanumeric = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';
const tokenText = "!#$%&'*+-.^_`|~" + alphanumeric;

/** tchar (RFC 9110 §5.6.2): field names, methods. */
export const isTokenCode = table((c) => tokenText.includes(String.fromCharCode(c)));

/** field-vchar, SP and HTAB (RFC 9110 §5.5), obs-text included: field values and reason phrases. */
export const isValueCode = table((c) => c === code.tab || (c >= 0x20 && c !== 0x7f));

/** What may stand in a request target: visible ASCII but `#`, since a fragment never leaves the client (RFC 9112 §3.2). */
export const isTargetCode = table((c) => c > 0x20 && c < 0x7f && c !== code.hash);

/** A host and port as they may be written in a target (RFC 3986 §3.2.2), less the delimiters that no host name has. */
export const isAuthorityCode = table((c) => ('-._~%:[]' + alphanumeric).includes(String.fromCharCode(c)));

/** Value of a hexadecimal digit, 255 for anything else (chunk-size, RFC 9112 §7.1). */
export const hexValue = new Uint8Array(256).fill(255);
for (let i = 0; i < 16; i++) {
  const digit = i.toString(16);
  hexValue[digit.charCodeAt(0)] = i;
  hexValue[digit.toUpperCase().charCodeAt(0)] = i;
}
