// Origins (RFC 6454), compared as browsers mean them. Pure.
// Invariant: equal exactly when scheme, host and port are; `null` and what is no origin equal nothing.

/** `scheme://host[:port]` in one spelling; null: this is no http(s) origin. */
export function canonicalOrigin(text: string): string | null {
  if (!/^https?:\/\/[^/?#@\\\s]+$/i.test(text)) return null;
  const url = URL.parse(text);
  return url === null || url.username !== '' || url.pathname !== '/' ? null : url.origin;
}

/** @param port  as the client wrote it; null: the scheme's own */
export function originOf(secure: boolean, host: string, port: number | null): string {
  const usual = secure ? 443 : 80;
  const scheme = secure ? 'https' : 'http';
  return port === null || port === usual ? `${scheme}://${host}` : `${scheme}://${host}:${port}`;
}
