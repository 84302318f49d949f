// Names and addresses that mean something else, or nothing, elsewhere: no public CA signs for them.
// Invariant: pure; canonical names in.
import { BlockList, isIPv4 } from 'node:net';

/** RFC 6761, RFC 6762, RFC 7686, RFC 8375, and `internal` as ICANN reserved it. */
const privateSuffixes = ['localhost', 'local', 'test', 'invalid', 'example', 'onion', 'home.arpa', 'internal', 'alt'];

const privateAddresses = new BlockList();
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
] as const) {
  privateAddresses.addSubnet(network, bits, 'ipv4');
}
for (const [network, bits] of [
  ['::', 127],
  ['fc00::', 7],
  ['fe80::', 10],
] as const) {
  privateAddresses.addSubnet(network, bits, 'ipv6');
}

export function isPrivateName(name: string): boolean {
  if (name.startsWith('[')) return privateAddresses.check(name.slice(1, -1), 'ipv6');
  if (isIPv4(name)) return privateAddresses.check(name, 'ipv4');
  const host = name.startsWith('*.') ? name.slice(2) : name;
  return !host.includes('.') || privateSuffixes.some((suffix) => host === suffix || host.endsWith(`.${suffix}`));
}
