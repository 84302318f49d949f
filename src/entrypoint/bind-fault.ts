// Why a socket could not be bound, in words that tell what to do about it. Pure.
// Invariant: names the entrypoint, where it was declared, and the address.
import { Fault } from '../base/fault.ts';
import { formatBind } from '../model/changes.ts';
import type { Entrypoint } from '../model/snapshot.ts';

/** A listening address. */
export type Bind = Pick<Entrypoint, 'host' | 'port'>;

/** @param ours  addresses of the same transport that this program listens on itself */
export function bindFault(entrypoint: Entrypoint, error: unknown, ours: Iterable<Bind>): Fault {
  const { name, origin, host, port, protocol } = entrypoint;
  const where = `entrypoint ${name} (${origin}) cannot listen on ${formatBind(host, port)}`;
  const own = isTaken(error) ? inTheWay(entrypoint, ours) : null;
  const why = own === null ? reasonOf(error, protocol === 'udp' ? 'u' : 't', port) : ownReason(own);
  return new Fault('bind-failed', `${where}: ${why}`, { cause: error });
}

/** Of two addresses on one transport: a port has its wildcard address or specific ones, never both. */
export function excludeEachOther(a: Bind, b: Bind): boolean {
  return a.port === b.port && a.host !== b.host && (a.host === '' || b.host === '');
}

function inTheWay(entrypoint: Bind, ours: Iterable<Bind>): Bind | null {
  for (const each of ours) if (excludeEachOther(entrypoint, each)) return each;
  return null;
}

/** The old one would have to be closed before it is sure that the new one can be had. */
function ownReason({ host, port }: Bind): string {
  return (
    `this program listens on ${formatBind(host, port)}, and no reload can do both; leave the entrypoint out and reload, ` +
    'then put it back in with its new address and reload; clients are refused in between'
  );
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
