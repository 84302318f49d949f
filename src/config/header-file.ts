// A file of headers that are sent along: "Name: value", one a line; empty lines and lines that begin with # are skipped.
// Invariant: what is wrong is said by the number of its line; no part of a value is ever repeated.

const line = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\x20-\x7e\t]*?)[ \t]*$/;
/** Framing and the kind of content are the sender's own. */
const reserved = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'te',
  'transfer-encoding',
  'upgrade',
]);

/** By lower-case name. Throws an Error that names the line. */
export function parseHeaderFile(text: string): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (const [index, each] of text.split(/\r?\n/).entries()) {
    if (each.trim() === '' || each.startsWith('#')) continue;
    const found = line.exec(each);
    if (found === null) throw new Error(`line ${index + 1} is not "Name: value"`);
    const name = found[1]!.toLowerCase();
    if (reserved.has(name)) throw new Error(`line ${index + 1} sets ${name}, which is not for this file`);
    if (Object.hasOwn(headers, name)) throw new Error(`line ${index + 1} repeats ${name}`);
    headers[name] = found[2]!;
  }
  return headers;
}
