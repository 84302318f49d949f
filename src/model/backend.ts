// Addresses of backends as they are written: `host:port`, IPv6 in brackets.
// Invariant: the address is canonical, so that two spellings of one backend are the same backend.
import { canonicalAuthority } from './host.ts';
import type { Backend } from './snapshot.ts';

/** Null when it is not one. */
export function parseBackend(text: string): Backend | null {
  const authority = canonicalAuthority(text);
  if (authority === null || authority.port === null) return null;
  const { host, port } = authority;
  return {
    address: `${host}:${port}`,
    host: host.startsWith('[') ? host.slice(1, -1) : host,
    port,
  };
}
