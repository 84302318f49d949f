// The scalar forms of the configuration: numbers, durations, sizes, addresses, CIDRs, names and paths.
// Invariant: what is read is canonical (parsed, lower case, compressed), so that equal things compare equal.
import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { formatDuration, parseDuration, parseSize, unlimited } from '../base/units.ts';
import { canonicalHost, canonicalPattern } from '../model/host.ts';
import type { Backend, BackendProtocol } from '../model/snapshot.ts';
import { choice, either, type Form, list, quote, Refusal, scalar, text } from './form.ts';

// ---- numbers, durations, sizes ---------------------------------------------------------------------------------

export function count(least: number, most: number): Form<number> {
  return scalar(
    'integer',
    `a whole number from ${least} to ${most}`,
    (value) =>
      value < BigInt(least) || value > BigInt(most) ? new Refusal(`${value} is out of range`) : Number(value),
    { minimum: least, maximum: most },
  );
}

export const port: Form<number> = count(1, 65535);

/** A count, or the word "unlimited". */
export function cap(least: number, most: number): Form<number> {
  const counted = count(least, most);
  const accepts = `${counted.accepts}, or "unlimited"`;
  const word = text(accepts, (value) =>
    value === 'unlimited' ? unlimited : new Refusal(`${quote(value)} is no number`),
  );
  return either(accepts, { integer: counted, string: word, float: counted });
}

export interface Range {
  /** Milliseconds or bytes. */
  readonly least: number;
  readonly most: number;
  /** The word "unlimited" is taken too. */
  readonly unlimited?: boolean;
}

export function duration(range: Range): Form<number> {
  const bounds = `from ${formatDuration(range.least)} to ${formatDuration(range.most)}`;
  return measure('a duration with a unit', 'a duration like "30s" or "1h30m"', bounds, parseDuration, range);
}

export function size(range: Range): Form<number> {
  const bounds = `from ${formatSize(range.least)} to ${formatSize(range.most)}`;
  return measure('a size with a unit', 'a size like "32KiB" or "10MB"', bounds, parseSize, range);
}

function measure(
  what: string,
  like: string,
  bounds: string,
  parse: (value: string) => number | null,
  range: Range,
): Form<number> {
  const accepts = `${like}, ${bounds}${range.unlimited === true ? ', or "unlimited"' : ''}`;
  return text(accepts, (value) => {
    if (value === 'unlimited' && range.unlimited === true) return unlimited;
    const amount = parse(value);
    if (amount === null) return new Refusal(`${quote(value)} is not ${what}`);
    return amount < range.least || amount > range.most ? new Refusal(`${quote(value)} is out of range`) : amount;
  });
}

/** The largest binary unit that is exact: 65536 → "64KiB". */
export function formatSize(bytes: number): string {
  for (const [unit, factor] of [
    ['TiB', 1024 ** 4],
    ['GiB', 1024 ** 3],
    ['MiB', 1024 ** 2],
    ['KiB', 1024],
  ] as const) {
    if (bytes >= factor && bytes % factor === 0) return `${bytes / factor}${unit}`;
  }
  return `${bytes}B`;
}

// ---- addresses -------------------------------------------------------------------------------------------------

/** Where to listen. `host` is '' for every address (`:80`, `0.0.0.0:80`, `[::]:80`), else an IP literal. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

const listenAccepts = '":8080" for every address, "127.0.0.1:8080", "[::1]:8080"';

export const listenAddress: Form<ListenAddress> = text(listenAccepts, (value) => {
  if (/^\d+$/.test(value)) return new Refusal(`${quote(value)} has no colon`, `":${value}"`);
  const parts = splitPort(value);
  if (parts === null) return new Refusal(`${quote(value)} is not an address to listen on`);
  const port = parsePort(parts.port);
  if (port === null) return new Refusal(`${quote(parts.port)} is not a port`, 'a port from 1 to 65535');
  if (parts.host === '' || parts.host === '*') return { host: '', port };
  const address = canonicalAddress(parts.host.replace(/^\[(.*)\]$/, '$1'));
  if (address === null) {
    const hint = parts.host === 'localhost' ? `"127.0.0.1:${port}" or "[::1]:${port}"` : null;
    return new Refusal(`${quote(parts.host)} is not an IP address`, hint);
  }
  if (parts.host.includes(':') && !parts.host.startsWith('[')) {
    return new Refusal('an IPv6 address needs brackets before the port', `"[${parts.host}]:${port}"`);
  }
  return { host: address === '0.0.0.0' || address === '::' ? '' : address, port };
});

/** An address of a backend, with the protocol that a scheme before it asks for. */
export interface WrittenBackend extends Backend {
  readonly scheme: BackendProtocol | null;
}

const schemes: Readonly<Record<string, { readonly protocol: BackendProtocol; readonly port: string }>> = {
  'http:': { protocol: 'http1', port: '80' },
  'https:': { protocol: 'https', port: '443' },
  'h2c:': { protocol: 'h2c', port: '80' },
  'h2:': { protocol: 'h2', port: '443' },
};

const backendAccepts =
  '"127.0.0.1:3000", "app.internal:3000", "[::1]:3000", or with http://, https://, h2c:// before it';

export const backend: Form<WrittenBackend> = text(backendAccepts, parseBackend);

export function parseBackend(value: string): WrittenBackend | Refusal {
  const [, prefix = '', rest = ''] = /^(?:([a-z0-9+.-]+:)\/\/)?(.*)$/is.exec(value) ?? [];
  const scheme = Object.hasOwn(schemes, prefix.toLowerCase()) ? schemes[prefix.toLowerCase()]! : null;
  if (prefix !== '' && scheme === null) {
    return new Refusal(`${quote(`${prefix}//`)} is not a protocol of backends`, 'http://, https://, h2c:// or h2://');
  }
  if (/[/?#@]/.test(rest)) {
    return new Refusal(
      `${quote(value)} is more than an address`,
      `${backendAccepts}; for a path in front use replace_prefix`,
    );
  }
  if (rest.includes(',')) return new Refusal(`${quote(value)} holds several addresses`, 'a list of strings');
  const parts = splitPort(rest) ?? (scheme === null ? null : { host: rest, port: scheme.port });
  if (parts === null) return new Refusal(`${quote(value)} has no port`);
  const port = parsePort(parts.port);
  if (port === null) return new Refusal(`${quote(parts.port)} is not a port`, 'a port from 1 to 65535');
  if (isIPv6(parts.host)) {
    return new Refusal('an IPv6 address needs brackets before the port', `"[${parts.host}]:${port}"`);
  }
  const host = canonicalHost(parts.host);
  if (host === null) return new Refusal(`${quote(parts.host)} is not a host`);
  // What looks like an IPv4 address and is none would be asked of the name server.
  if (/^[\d.]+$/.test(host) && !isIPv4(host)) return new Refusal(`${quote(host)} is not an IPv4 address`);
  return {
    address: `${host}:${port}`,
    host: host.replace(/^\[(.*)\]$/, '$1'),
    port,
    scheme: scheme?.protocol ?? null,
  };
}

/** An address of a network service: what is spoken there is nobody's business, so there is no scheme. */
export const rawBackend: Form<Backend> = text('"127.0.0.1:22", "db.internal:5432", "[::1]:22"', (value) => {
  const parsed = parseBackend(value);
  if (parsed instanceof Refusal) return parsed;
  const { address, host, port, scheme } = parsed;
  return scheme === null ? { address, host, port } : new Refusal(`${quote(value)} has a scheme`, `"${address}"`);
});

/** "10.0.0.0/8" or one address, which reads as its /32 or /128. The address must be the network's first. */
export const cidr: Form<string> = text('"10.0.0.0/8", "192.0.2.7", "fd00::/8"', (value) => {
  const [base = '', length, ...more] = value.split('/');
  const bits = isIPv4(base) ? 32 : isIPv6(base) && !base.includes('%') ? 128 : 0;
  if (bits === 0 || more.length > 0) return new Refusal(`${quote(value)} is not a network`);
  if (length !== undefined && (!/^\d{1,3}$/.test(length) || Number(length) > bits)) {
    return new Refusal(`/${length} is not a prefix length`, `/0 to /${bits}`);
  }
  const prefix = length === undefined ? bits : Number(length);
  const network =
    bits === 32
      ? ipaddr.IPv4.networkAddressFromCIDR(`${base}/${prefix}`).toString()
      : ipaddr.IPv6.networkAddressFromCIDR(`${base}/${prefix}`).toRFC5952String();
  const address = bits === 32 ? base : ipaddr.IPv6.parse(base).toRFC5952String();
  if (address !== network) {
    return new Refusal(`${quote(value)} has bits beyond its prefix`, `"${network}/${prefix}" or "${base}"`);
  }
  if (network.startsWith('::ffff:') && prefix >= 96) {
    return new Refusal(`${quote(value)} is an IPv4 network`, 'the IPv4 form');
  }
  return `${network}/${prefix}`;
});

export const cidrs: Form<readonly string[]> = list('a list of networks, like ["10.0.0.0/8", "fd00::/8"]', cidr, {
  identity: (network) => network,
});

function splitPort(value: string): { readonly host: string; readonly port: string } | null {
  const colon = value.lastIndexOf(':');
  // The last colon of "[::1]" is inside the brackets.
  return colon < 0 || value.indexOf(']') > colon ? null : { host: value.slice(0, colon), port: value.slice(colon + 1) };
}

function parsePort(value: string): number | null {
  const number = /^\d{1,5}$/.test(value) ? Number(value) : 0;
  return number >= 1 && number <= 65535 ? number : null;
}

/** IPv4-mapped IPv6 is IPv4; IPv6 is compressed (RFC 5952). */
function canonicalAddress(value: string): string | null {
  if (isIPv4(value)) return value;
  return isIPv6(value) && !value.includes('%') ? ipaddr.process(value).toString() : null;
}

// ---- names and paths -------------------------------------------------------------------------------------------

/** Names of entrypoints and network services. */
export function judgeName(value: string): Refusal | null {
  return /^[A-Za-z0-9_-]{1,64}$/.test(value)
    ? null
    : new Refusal(`${quote(value)} is not a name`, 'letters, digits, "-" and "_", at most 64');
}

/** The name of something declared elsewhere in the file. */
export const name: Form<string> = text('a name', (value) => judgeName(value) ?? value);

const hostAccepts =
  'a host like "app.example.com", "*.example.com" for one label, "*" for all others, or an IP address';

/** The canonical pattern of a route's host, or why it is none. */
export function parsePattern(value: string): string | Refusal {
  if (value === '') return new Refusal('is empty', hostAccepts);
  const bare = value.replace(/^[a-z]+:\/\//i, '').replace(/[/?#].*$/s, '');
  if (bare !== value) return new Refusal(`${quote(value)} is a URL`, `only the host: "${bare}"`);
  if (/[,\s]/.test(value)) return new Refusal(`${quote(value)} is not one host`, 'one key for each host');
  if (isIPv6(value)) return new Refusal('an IPv6 address needs brackets', `"[${value}]"`);
  const pattern = canonicalPattern(value);
  if (pattern !== null) return pattern;
  if (value.includes('*')) {
    return new Refusal(
      `${quote(value)} is not a wildcard`,
      '"*.example.com" for exactly one label, or "*" for all others',
    );
  }
  const portless = value.replace(/:\d*$/, '');
  if (portless !== value && canonicalPattern(portless) !== null) {
    return new Refusal(`${quote(value)} has a port`, `"${portless}"; the entrypoints decide the port`);
  }
  return new Refusal(`${quote(value)} is not a host`, hostAccepts);
}

/** A host as a value: an alias. */
export const hostPattern: Form<string> = text(hostAccepts, parsePattern);

/** A host name without wildcards. */
export const hostName: Form<string> = text('a host name like "app.example.com"', (value) => {
  const host = canonicalHost(value);
  return host ?? new Refusal(`${quote(value)} is not a host name`);
});

/** What is sent as the Host field: a host, and a port if need be. */
export const hostField: Form<string> = text('a host like "app.example.com" or "app.example.com:8080"', (value) => {
  const [, name = '', suffix = ''] = /^(.*?)(:\d+)?$/s.exec(value) ?? [];
  if (canonicalHost(name) === null || (suffix !== '' && parsePort(suffix.slice(1)) === null)) {
    return new Refusal(`${quote(value)} is not a host`);
  }
  return value;
});

/** Token of RFC 9110 §5.6.2. */
export function isToken(value: string): boolean {
  return /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(value);
}

export const token: Form<string> = text('letters, digits and hyphens', (value) =>
  isToken(value) ? value : new Refusal(`${quote(value)} is not a name`),
);

/** Visible characters, spaces and tabs inside (RFC 9110 §5.5); bytes beyond ASCII as latin-1. */
export const fieldValue: Form<string> = text('text without line breaks and control characters', (value) =>
  /^[\t\x20-\x7e\x80-\xff]*$/.test(value) && value.trim() === value
    ? value
    : new Refusal(`${quote(value)} cannot be a header value`),
);

export const routePath: Form<string> = text('a path like "/api": it covers itself and everything below', (value) => {
  const refusal = refusePath(value);
  if (refusal !== null) return refusal;
  if (value.includes('*')) {
    return new Refusal(
      `${quote(value)} has a wildcard`,
      `"${value.replace(/\/?\*.*$/, '') || '/'}" covers everything below`,
    );
  }
  if (value !== '/' && value.endsWith('/')) {
    return new Refusal(`${quote(value)} ends with a slash`, `"${value.replace(/\/+$/, '') || '/'}"`);
  }
  return value;
});

/** What takes the place of a route's path; '/' and no slash at the end mean the same. */
export const pathPrefix: Form<string> = text('a path like "/remote.php/dav"', (value) => {
  const refusal = refusePath(value);
  if (refusal !== null) return refusal;
  return value !== '/' && value.endsWith('/') ? value.slice(0, -1) : value;
});

/** A path with an optional query, as a probe asks for it. */
export const probePath: Form<string> = text('a path like "/healthz"', (value) =>
  /^\/[\x21-\x22\x24-\x7e]*$/.test(value) ? value : new Refusal(`${quote(value)} is not a path`),
);

function refusePath(value: string): Refusal | null {
  if (!value.startsWith('/')) return new Refusal(`${quote(value)} does not begin with "/"`);
  if (/[?#]/.test(value)) return new Refusal(`${quote(value)} has a query or a fragment`);
  if (!/^[\x21-\x7e]*$/.test(value)) {
    return new Refusal(`${quote(value)} has characters that a request cannot carry`, 'them percent-encoded');
  }
  if (/\/\//.test(value) || /\/\.{1,2}(\/|$)/.test(value))
    return new Refusal(`${quote(value)} has empty or dot segments`);
  return null;
}

/** A target of a redirect: an absolute URL or a path; `{host}` and `{uri}` stand for those of the request. */
export const redirectTarget: Form<string> = text(
  '"https://www.example.com{uri}", "https://{host}/login" or "/login"',
  (value) => {
    const unknown = /\{(?!host\}|uri\})[^}]*\}?/.exec(value);
    if (unknown !== null) return new Refusal(`${quote(unknown[0])} stands for nothing`, '{host} and {uri}');
    if (!/^[\x21-\x7e]+$/.test(value)) return new Refusal(`${quote(value)} is not a URL`);
    const filled = value.replaceAll('{host}', 'host.example').replaceAll('{uri}', '/');
    const absolute = /^https?:\/\/[^/]/i.test(filled) && URL.canParse(filled);
    // A target that begins with `{uri}` would let a request for "//elsewhere" choose the host.
    return absolute || (value.startsWith('/') && /^\/(?!\/)/.test(filled))
      ? value
      : new Refusal(`${quote(value)} is neither a URL nor a path`);
  },
);

export const tlsVersion: Form<'1.2' | '1.3'> = choice('a TLS version', ['1.2', '1.3']);

/** Path of a file, as written; made absolute later. */
export const filePath: Form<string> = text('the path of a file, relative to this file or absolute', (value) =>
  value === '' || value.includes('\0') ? new Refusal(`${quote(value)} is not a path`) : value,
);
