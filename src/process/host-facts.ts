// What this machine is to the templates of YAML manifests.
// Invariant: looked up when a container is made, so that it is true then; every allowed placeholder has a value.
import { mkdirSync, statfsSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';

const gigabyte = 1e9;
const bitcoinApps = ['bitcoin-knots', 'bitcoin-core'];

/** @param running  names of active apps */
export function hostFacts(dataRoot: string, running: readonly string[]): Readonly<Record<string, string>> {
  const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const outside = addresses.find(({ family, internal }) => family === 'IPv4' && !internal);
  mkdirSync(dataRoot, { recursive: true, mode: 0o755 });
  const { blocks, bsize } = statfsSync(dataRoot);
  return {
    HOST_IP: outside?.address ?? '127.0.0.1',
    HOST_MDNS: `${hostname().split('.')[0]}.local`,
    DISK_GB: String(Math.floor((blocks * bsize) / gigabyte)),
    BITCOIN_HOST: bitcoinApps.find((each) => running.includes(each)) ?? bitcoinApps[0]!,
  };
}
