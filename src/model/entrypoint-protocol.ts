// What the protocols of entrypoints have in common.
// Invariant: pure, and one answer for each protocol: configuration, traffic and status mean the same by it.
import type { EntrypointProtocol, Transport } from './snapshot.ts';

/** Serves hosts over plaintext connections. */
export const takesPlainHttp = (protocol: EntrypointProtocol): boolean =>
  protocol === 'http' || protocol === 'smart_tcp';

/** Ends TLS, and serves hosts inside. */
export const endsTls = (protocol: EntrypointProtocol): boolean =>
  protocol === 'https' || protocol === 'smart_tcp' || protocol === 'tls_mux';

/** Serves hosts. */
export const takesHttp = (protocol: EntrypointProtocol): boolean => takesPlainHttp(protocol) || endsTls(protocol);

/** Looks at the server name before it decides who gets the connection. */
export const passesTls = (protocol: EntrypointProtocol): boolean => protocol === 'smart_tcp' || protocol === 'tls_mux';

export const transportOf = (protocol: EntrypointProtocol): Transport => (protocol === 'udp' ? 'udp' : 'tcp');
