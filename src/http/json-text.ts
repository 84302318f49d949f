// Text as a JSON string literal. Pure.
// Invariant: whatever a client put into it, the result is one well-formed literal on one line.

// Everything but printable ASCII, the quote and the backslash.
const unusual = /[^\x20-\x21\x23-\x5b\x5d-\x7e]/;

/** `JSON.stringify` for strings, several times faster for the plain ones, which are nearly all. */
export function jsonText(text: string): string {
  return unusual.test(text) ? JSON.stringify(text) : `"${text}"`;
}

const configured = new Map<string, string>();

/** The same for names out of the configuration: few, and asked for with every line. */
export function configuredJsonText(text: string): string {
  let literal = configured.get(text);
  if (literal === undefined) {
    // Reloads may bring new names for ever.
    if (configured.size > 10_000) configured.clear();
    literal = jsonText(text);
    configured.set(text, literal);
  }
  return literal;
}
