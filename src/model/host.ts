// Host names in one canonical form, everywhere: configuration, Host, :authority, SNI.
// Invariant: `canonicalAuthority` either gives the canonical host and port or null; it never repairs what is ambiguous.
import { isIPv4, isIPv6 } from 'node:net';
import { domainToASCII } from 'node:url';

export interface Authority {
  /** Lower case, no trailing dot, A-labels; IPv6 compressed and in brackets. */
  readonly host: string;
  /** Null when none was written. */
  readonly port: number | null;
}

// The plain case, nearly every request: letters, digits, dots, hyphens, an optional port. Everything else goes the long way.
const plain = /^[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*$/;

/**
 * Canonical form of an authority (Host field, `:authority`, absolute-form target; RFC 3986 §3.2, userinfo refused).
 * One trailing dot is dropped, two are refused; a port must be 1–65535; an empty port ("host:") counts as none.
 */
export function canonicalAuthority(text: string): Authority | null {
  let host = text;
  let port: number | null = null;
  if (text.charCodeAt(0) === 0x5b /* [ */) {
    const close = text.indexOf(']');
    if (close < 0) return null;
    host = text.slice(0, close + 1);
    const rest = text.slice(close + 1);
    if (rest !== '') {
      if (rest.charCodeAt(0) !== 0x3a) return null;
      if (rest.length > 1) {
        port = parsePort(rest.slice(1));
        if (port === null) return null;
      }
    }
  } else {
    const colon = text.indexOf(':');
    if (colon >= 0) {
      host = text.slice(0, colon);
      if (colon + 1 < text.length) {
        port = parsePort(text.slice(colon + 1));
        if (port === null) return null;
      }
    }
  }
  const canonical = canonicalHost(host);
  return canonical === null ? null : { host: canonical, port };
}

/** Canonical form of a host without a port, or null when it is not one. */
export function canonicalHost(text: string): string | null {
  if (text.length === 0 || text.length > 255) return null;
  if (text.charCodeAt(0) === 0x5b) {
    if (text.charCodeAt(text.length - 1) !== 0x5d) return null;
    const address = text.slice(1, -1);
    // A zone index (fe80::1%eth0) names an interface of the client, not a host.
    return isIPv6(address) && !address.includes('%') ? `[${compressIPv6(address)}]` : null;
  }
  let host = text;
  if (host.charCodeAt(host.length - 1) === 0x2e) host = host.slice(0, -1);
  if (!plain.test(host)) {
    host = host.toLowerCase();
    if (!plain.test(host)) {
      // Only names with characters beyond ASCII are worth IDNA; any other oddity is refused rather than repaired.
      if (/^[\x00-\x7f]*$/.test(host) || /[\x00-\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]/.test(host)) return null;
      host = domainToASCII(host);
      if (!plain.test(host)) return null;
    }
  }
  if (host.length > 253) return null;
  if (host.length > 63 && host.split('.').some((label) => label.length > 63)) return null;
  return host;
}

/** True for IPv4 literals and bracketed IPv6 literals in canonical form. */
export function isAddressLiteral(host: string): boolean {
  return host.charCodeAt(0) === 0x5b || isIPv4(host);
}

/**
 * Canonical form of a host pattern in the configuration: a host, `*.suffix` for exactly one label, or `*`.
 * Null when it is none of these.
 */
export function canonicalPattern(text: string): string | null {
  if (text === '*') return '*';
  if (text.startsWith('*.')) {
    const suffix = canonicalHost(text.slice(2));
    return suffix === null || isAddressLiteral(suffix) ? null : `*.${suffix}`;
  }
  return canonicalHost(text);
}

/** True when certificate or route name `pattern` covers canonical `host`: exact, or one label under `*.`. */
export function patternCovers(pattern: string, host: string): boolean {
  if (pattern === host) return true;
  if (!pattern.startsWith('*.')) return false;
  const dot = host.indexOf('.');
  return (
    dot > 0 && host.length - dot === pattern.length - 1 && host.endsWith(pattern.slice(1)) && !isAddressLiteral(host)
  );
}

function parsePort(text: string): number | null {
  if (!/^[0-9]{1,5}$/.test(text)) return null;
  const port = Number(text);
  return port >= 1 && port <= 65535 ? port : null;
}

/** RFC 5952 form, by the URL parser. */
function compressIPv6(address: string): string {
  return new URL(`http://[${address}]/`).hostname.slice(1, -1);
}
