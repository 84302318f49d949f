// One spelling for each path, where a path decides whether a login is asked for. Pure.
// Invariant: what is decided on is what is forwarded, and a path that two servers could read differently has no spelling
// here at all.

/** Never needs an escape (RFC 3986 §2.3). */
const unreserved = /[A-Za-z0-9._~-]/;

/**
 * The target with needless escapes undone. Null for what is ambiguous: dot segments, empty segments, backslashes, path
 * parameters, fragments, control bytes, and escapes that hide a slash, a dot segment, another escape or nothing sensible.
 */
export function canonicalTarget(target: string): string | null {
  const query = target.indexOf('?');
  const path = query < 0 ? target : target.slice(0, query);
  const canonical = isPlain(path) ? path : canonicalPath(path);
  if (canonical === null) return null;
  return query < 0 ? canonical : canonical + target.slice(query);
}

/** The path without the query. */
export function pathOf(target: string): string {
  const query = target.indexOf('?');
  return query < 0 ? target : target.slice(0, query);
}

/** `/p` is one path, `/p/*` everything below it, by whole segments and in this case of letters. */
export function coversPath(rules: readonly string[], path: string): boolean {
  for (let i = 0; i < rules.length; i++) {
    const rule = rules[i]!;
    if (rule.endsWith('/*') ? path.startsWith(rule.slice(0, -1)) : path === rule) return true;
  }
  return false;
}

/** Most paths: letters, digits and single slashes. */
function isPlain(path: string): boolean {
  let last = 0;
  for (let i = 0; i < path.length; i++) {
    const c = path.charCodeAt(i);
    const letter = (c >= 0x61 && c <= 0x7a) || (c >= 0x41 && c <= 0x5a) || (c >= 0x30 && c <= 0x39);
    if (!letter && c !== 0x2d && c !== 0x5f && !(c === 0x2f && last !== 0x2f)) return false;
    last = c;
  }
  return path.length > 0 && path.charCodeAt(0) === 0x2f;
}

function canonicalPath(path: string): string | null {
  if (path === '*') return path;
  if (path.charCodeAt(0) !== 0x2f || /[\\;#\x00-\x20\x7f]/.test(path)) return null;
  let ambiguous = false;
  const canonical = path.replace(/%(.{0,2})/g, (escaped, digits: string) => {
    if (!/^[0-9A-Fa-f]{2}$/.test(digits)) {
      ambiguous = true;
      return escaped;
    }
    const code = Number.parseInt(digits, 16);
    const char = String.fromCharCode(code);
    // Slash, backslash, semicolon, percent, control bytes: read once they are data, read twice they are syntax.
    if (code < 0x20 || code === 0x7f || '/\\;%?#'.includes(char)) ambiguous = true;
    return unreserved.test(char) ? char : escaped.toUpperCase();
  });
  if (ambiguous) return null;
  const segments = canonical.split('/');
  for (let i = 1; i < segments.length; i++) {
    const segment = segments[i]!;
    if (segment === '.' || segment === '..') return null;
    if (segment === '' && i < segments.length - 1) return null;
  }
  return canonical;
}
