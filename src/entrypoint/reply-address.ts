// From which address a machine answers datagrams that came to a wildcard socket. The kernel chooses by its routes, since
// nothing tells us which address was asked (IP_PKTINFO, which Node does not have).
// Invariant: pure; names only addresses between which that choice may be wrong.
import type { NetworkInterfaceInfo } from 'node:os';

/** Addresses that share an interface and a family with another one: each is asked, one of them answers. */
export function ambiguousAddresses(
  interfaces: Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>,
): readonly string[] {
  return Object.values(interfaces).flatMap((infos = []) => {
    const usable = infos.filter(({ internal, address }) => !internal && !isLinkLocal(address));
    return usable
      .filter((each) => usable.some((other) => other !== each && other.family === each.family))
      .map(addressOf);
  });
}

const addressOf = ({ address }: NetworkInterfaceInfo): string => address;

/** RFC 4291 §2.5.6, RFC 3927: used by neighbours alone, and a reply to one goes out the way it came. */
const isLinkLocal = (address: string): boolean => /^fe[89ab]/i.test(address) || address.startsWith('169.254.');
