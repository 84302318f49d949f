// Who the client is when trusted proxies stand between it and us. Pure.
// Invariant: an address counts as the client's only when every hop nearer to us is trusted; nobody else can choose it.
import { BlockList, isIP } from 'node:net';

export type TrustedAddresses = (address: string) => boolean;

/** Compiles CIDRs once; empty trusts nobody. */
export function trustedAddresses(cidrs: readonly string[]): TrustedAddresses {
  if (cidrs.length === 0) return () => false;
  const list = new BlockList();
  for (const cidr of cidrs) {
    const slash = cidr.indexOf('/');
    const address = slash < 0 ? cidr : cidr.slice(0, slash);
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (slash < 0) list.addAddress(address, family);
    else list.addSubnet(address, Number(cidr.slice(slash + 1)), family);
  }
  return (address) => list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

/**
 * The right-most address of `chain` (X-Forwarded-For as the trusted peer sent it) that is not trusted itself; the
 * left-most one when all are. An element that is no address ends the walk: what stands left of it cannot be judged.
 */
export function clientAddress(peer: string, chain: string | null, trusted: TrustedAddresses): string {
  if (chain === null) return peer;
  const hops = chain.split(',');
  let client = peer;
  for (let i = hops.length - 1; i >= 0; i--) {
    const address = addressOf(hops[i]!.trim());
    if (address === null) return client;
    client = address;
    if (!trusted(address)) return client;
  }
  return client;
}

/** `1.2.3.4`, `1.2.3.4:567`, `::1`, `[::1]`, `[::1]:567`. */
function addressOf(node: string): string | null {
  if (isIP(node) !== 0) return node;
  const bracketed = /^\[([0-9a-fA-F:.]+)\](?::\d+)?$/.exec(node);
  if (bracketed !== null) return isIP(bracketed[1]!) === 6 ? bracketed[1]! : null;
  const colon = node.indexOf(':');
  return colon > 0 && isIP(node.slice(0, colon)) === 4 ? node.slice(0, colon) : null;
}
