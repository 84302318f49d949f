// Whom one address stands for when attempts are counted. Pure.
// Invariant: whoever has a whole IPv6 network of their own (a /64, RFC 6177) counts once.
import { isIPv6 } from 'node:net';

export function addressKey(address: string): string {
  if (!isIPv6(address)) return address;
  const [head, tail] = address.split('%', 1)[0]!.split('::') as [string, string?];
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const rest = tail === '' ? [] : tail.split(':');
    while (groups.length + rest.length < 8) groups.push('0');
    groups.push(...rest);
  }
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}
