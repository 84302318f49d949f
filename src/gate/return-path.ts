// Where a login leads back to. Pure.
// Invariant: judged on what the URL parser makes of the final value; anything but a place of ours becomes '/'.

export const reservedPath = '/.turnpike/';
const lengthMax = 2048;

/** Path and query on the origin where the login is; `/` for anything else, the gate's own pages included. */
export function returnPath(wanted: string | null, origin: string): string {
  const url = parse(wanted, origin);
  if (url === null || url.origin !== origin) return '/';
  return pathOfUrl(url);
}

/**
 * The same for a login that serves other names: a whole URL whose origin `isOurs`; null for anything else.
 */
export function returnUrl(wanted: string | null, isOurs: (url: URL) => boolean): URL | null {
  if (wanted === null || !/^https?:\/\//i.test(wanted)) return null;
  const url = parse(wanted, undefined);
  if (url === null || url.username !== '' || url.password !== '' || !isOurs(url)) return null;
  return new URL(pathOfUrl(url), url.origin);
}

function parse(wanted: string | null, base: string | undefined): URL | null {
  if (wanted === null || wanted.length > lengthMax) return null;
  // Parsers drop tabs and line ends, and read a backslash as a slash: others read them otherwise.
  if (/[\x00-\x20\x7f\\]|[^\x00-\x7f]/.test(wanted)) return null;
  if (base !== undefined && !/^\/(?!\/)/.test(wanted)) return null;
  return base === undefined ? URL.parse(wanted) : URL.parse(wanted, base);
}

function pathOfUrl({ pathname, search }: URL): string {
  const path = pathname + search;
  // Back to a page of ours would be a loop; two slashes at the front would be another host to the browser.
  if (pathname.startsWith('//') || pathname.startsWith(reservedPath) || /%0[ad]/i.test(path)) return '/';
  return path;
}
