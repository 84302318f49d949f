// Who may connect: CIDR lists compiled to sorted ranges.
// Invariant: an IPv4 address is the same peer whether it comes as 1.2.3.4 or as ::ffff:1.2.3.4, in lists and in questions.
import { isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { Logins } from '../gate/logins.ts';
import type { Entrypoint } from '../model/snapshot.ts';

/** Inclusive, sorted, not overlapping: a question is one binary search. */
interface Ranges<T> {
  readonly first: readonly T[];
  readonly last: readonly T[];
}

export class CidrSet {
  readonly #v4: Ranges<number>;
  readonly #v6: Ranges<bigint>;

  /** @param cidrs  "10.0.0.0/8", "::1/128" or a lone address; throws on anything else */
  constructor(cidrs: readonly string[]) {
    const v4: [number, number][] = [];
    const v6: [bigint, bigint][] = [];
    for (const cidr of cidrs) {
      const [address, bits] = parseCidr(cidr);
      const { kind, value } = address;
      if (kind === 4) v4.push(rangeOf4(value, bits));
      else v6.push(rangeOf6(value, bits));
    }
    this.#v4 = merge(v4);
    this.#v6 = merge(v6);
  }

  /** @param address  as node:net gives it */
  has(address: string): boolean {
    const plain = plainAddress(address);
    if (isIPv4(plain)) return this.#v4.first.length > 0 && covers(this.#v4, value4(plain));
    if (this.#v6.first.length === 0) return false;
    const parsed = parseAddress(plain);
    return parsed?.kind === 6 && covers(this.#v6, parsed.value);
  }
}

/** Who may use an entrypoint; an empty list lets everyone in. */
export class SourcePolicy {
  readonly #allowed: CidrSet | null;
  /** Null: no login is asked for. */
  readonly #isLoggedIn: ((address: string) => boolean) | null;

  constructor(trustedCidrs: readonly string[], isLoggedIn: ((address: string) => boolean) | null = null) {
    this.#allowed = trustedCidrs.length === 0 ? null : new CidrSet(trustedCidrs);
    this.#isLoggedIn = isLoggedIn;
  }

  static of(
    { trustedCidrs, requiresSession: app }: Pick<Entrypoint, 'trustedCidrs' | 'requiresSession'>,
    logins: Logins,
  ): SourcePolicy {
    return new SourcePolicy(trustedCidrs, app === null ? null : (address) => logins.isLoggedIn(app, address));
  }

  /** The answer may change with logins; ask again when they end. */
  admits(address: string): boolean {
    if (this.#allowed !== null && !this.#allowed.has(address)) return false;
    return this.#isLoggedIn === null || this.#isLoggedIn(plainAddress(address));
  }
}

/** `::ffff:1.2.3.4` → `1.2.3.4`, a zone index dropped; anything else as it is. */
export function plainAddress(address: string): string {
  if (address.startsWith('::ffff:') && address.indexOf('.') > 0) return address.slice(7);
  const zone = address.indexOf('%');
  return zone < 0 ? address : address.slice(0, zone);
}

type Address = { readonly kind: 4; readonly value: number } | { readonly kind: 6; readonly value: bigint };

function parseCidr(text: string): [Address, number] {
  const slash = text.indexOf('/');
  const written = slash < 0 ? text : text.slice(0, slash);
  const address = parseAddress(written);
  if (address === null) throw new Error(`${JSON.stringify(text)} is not a network`);
  const mapped = address.kind === 4 && written.includes(':');
  const most = address.kind === 4 ? 32 : 128;
  const bits = slash < 0 ? most : Number(text.slice(slash + 1)) - (mapped ? 96 : 0);
  if (!Number.isInteger(bits) || bits < 0 || bits > most) throw new Error(`${JSON.stringify(text)} is not a network`);
  return [address, bits];
}

function parseAddress(text: string): Address | null {
  if (isIPv4(text)) return { kind: 4, value: value4(text) };
  if (!ipaddr.IPv6.isValid(text)) return null;
  const address = ipaddr.IPv6.parse(text);
  if (address.isIPv4MappedAddress()) return { kind: 4, value: value4(address.toIPv4Address().toString()) };
  return { kind: 6, value: address.parts.reduce((sum, part) => (sum << 16n) | BigInt(part), 0n) };
}

function value4(address: string): number {
  let value = 0;
  let octet = 0;
  for (let i = 0; i < address.length; i++) {
    const code = address.charCodeAt(i);
    if (code === 0x2e) {
      value = value * 256 + octet;
      octet = 0;
    } else {
      octet = octet * 10 + code - 0x30;
    }
  }
  return value * 256 + octet;
}

function rangeOf4(value: number, bits: number): [number, number] {
  const size = 2 ** (32 - bits);
  const first = Math.floor(value / size) * size;
  return [first, first + size - 1];
}

function rangeOf6(value: bigint, bits: number): [bigint, bigint] {
  const size = 1n << BigInt(128 - bits);
  const first = (value / size) * size;
  return [first, first + size - 1n];
}

function merge<T extends number | bigint>(ranges: [T, T][]): Ranges<T> {
  ranges.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const first: T[] = [];
  const last: T[] = [];
  for (const [from, to] of ranges) {
    const end = last.at(-1);
    if (end !== undefined && from <= end) {
      if (to > end) last[last.length - 1] = to;
    } else {
      first.push(from);
      last.push(to);
    }
  }
  return { first, last };
}

function covers<T extends number | bigint>({ first, last }: Ranges<T>, value: T): boolean {
  let low = 0;
  let high = first.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (value < first[middle]!) high = middle - 1;
    else if (value > last[middle]!) low = middle + 1;
    else return true;
  }
  return false;
}
