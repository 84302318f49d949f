// Why a socket could not be bound, in words that tell what to do about it. Pure.
// Invariant: names the entrypoint, where it was declared, and the address.
import { Fault } from '../base/fault.ts';
import { formatBind } from '../model/changes.ts';
import type { Entrypoint } from '../model/snapshot.ts';

export function bindFault(entrypoint: Entrypoint, error: unknown): Fault {
  const { name, origin, host, port, protocol } = entrypoint;
  const where = `entrypoint ${name} (${origin}) cannot listen on ${formatBind(host, port)}`;
  return new Fault('bind-failed', `${where}: ${reasonOf(error, protocol === 'udp' ? 'u' : 't', port)}`, {
    cause: error,
  });
}

/** Whether it is another socket's port: that may pass. */
export function isTaken(error: unknown): boolean {
  return codeOf(error) === 'EADDRINUSE';
}

/** Whether the machine lacks what the address belongs to, IPv6 for instance. */
export function isUnknownFamily(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'EAFNOSUPPORT' || code === 'EADDRNOTAVAIL';
}

function reasonOf(error: unknown, transport: 't' | 'u', port: number): string {
  switch (codeOf(error)) {
    case 'EADDRINUSE':
      return `another socket holds the port; "ss -l${transport}np sport = :${port}" shows which process`;
    case 'EACCES':
    case 'EPERM':
      return 'not allowed; ports below 1024 need root, CAP_NET_BIND_SERVICE or socket activation';
    case 'EADDRNOTAVAIL':
      return 'this machine has no such address';
    default:
      return error instanceof Error ? error.message : String(error);
  }
}

const codeOf = (error: unknown): string => String((error as { code?: unknown }).code ?? '');
