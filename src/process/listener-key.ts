// What identifies a listening socket over reloads, in the supervisor and in the workers alike.
// Invariant: pure; two entrypoints have the same key exactly when they would bind the same address.
import { formatBind } from '../model/changes.ts';
import type { Entrypoint } from '../model/snapshot.ts';

/** Transport and address, not the entrypoint's name. */
export function listenerKey({ protocol, host, port }: Pick<Entrypoint, 'protocol' | 'host' | 'port'>): string {
  return `${protocol === 'udp' ? 'udp' : 'tcp'} ${formatBind(host, port)}`;
}
