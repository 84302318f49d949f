// Addresses of servers as the configuration writes them: `host`, `host:port`, `[v6]:port`.
// Invariant: pure.

export function addressAndPort(server: string, defaultPort: number): { readonly host: string; readonly port: number } {
  const [, v6, v4 = '', port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(server) ?? [];
  // A bare IPv6 address has colons and no port.
  if (v6 === undefined && v4 === '') return { host: server, port: defaultPort };
  return { host: v6 ?? v4, port: port === undefined ? defaultPort : Number(port) };
}
