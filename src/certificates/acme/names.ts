// Names as we write them and identifiers as a CA writes them (RFC 8555 §7.1.3, RFC 8738).
// Invariant: `nameOf(identifierOf(name))` is `name`; a wildcard is told by a flag of its own on the CA's side.
import { isIP, isIPv4 } from 'node:net';
import { canonicalHost } from '../../model/host.ts';

export interface Identifier {
  readonly type: 'dns' | 'ip';
  readonly value: string;
}

export function identifierOf(name: string): Identifier {
  const address = bareAddress(name);
  return address === null ? { type: 'dns', value: name } : { type: 'ip', value: address };
}

/** Canonical name; null when it is none. */
export function nameOf(identifier: unknown, wildcard: unknown): string | null {
  const { type, value } = (identifier ?? {}) as Record<string, unknown>;
  if (typeof value !== 'string') return null;
  if (type === 'ip') return canonicalHost(value.includes(':') ? `[${value}]` : value);
  if (type !== 'dns') return null;
  const bare = value.startsWith('*.') ? value.slice(2) : value;
  const host = canonicalHost(bare);
  if (host === null) return null;
  return wildcard === true || bare !== value ? `*.${host}` : host;
}

/** Without the brackets of IPv6; null: not an address. */
export function bareAddress(name: string): string | null {
  const bare = name.startsWith('[') ? name.slice(1, -1) : name;
  return isIP(bare) === 0 ? null : bare;
}

/** The name that stands for an address in a SNI (RFC 8738 §6); of hosts, the host itself. */
export function serverNameOf(name: string): string {
  const address = bareAddress(name);
  if (address === null) return name;
  if (isIPv4(address)) return `${address.split('.').reverse().join('.')}.in-addr.arpa`;
  return `${[...expanded(address)].reverse().join('.')}.ip6.arpa`;
}

/** The 32 digits of an IPv6 address. */
function expanded(address: string): string {
  const [front = '', back] = address.split('::');
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'));
  const head = groups(front);
  const tail = back === undefined ? [] : groups(back);
  const middle = new Array<string>(8 - head.length - tail.length).fill('0');
  return [...head, ...middle, ...tail].map((group) => group.padStart(4, '0')).join('');
}
