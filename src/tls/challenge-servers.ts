// Answers a CA that looks by TLS handshake whether a name is ours (RFC 8737): one tls.Server for each published challenge.
// Invariant: such a server speaks `acme-tls/1` and nothing else, and presents nothing but the challenge's certificate.
import { createServer, type Server } from 'node:tls';
import { Fault } from '../base/fault.ts';
import type { ChallengesPart } from '../model/snapshot.ts';
import type { ClientHello } from './client-hello.ts';
import type { ServerEvents } from './profile-servers.ts';

export const challengeProtocol = 'acme-tls/1';

/** By canonical name. */
export type ChallengeServers = ReadonlyMap<string, Server>;

export const noChallengeServers: ChallengeServers = new Map();

/** RFC 8737 §3: the validator offers this protocol alone. Whoever offers others too is an ordinary client. */
export function asksForProof({ alpn }: ClientHello): boolean {
  return alpn !== null && alpn.length === 1 && alpn[0] === challengeProtocol;
}

/** Throws a Fault when OpenSSL refuses a certificate. */
export function challengeServers({ alpn }: ChallengesPart, events: ServerEvents): ChallengeServers {
  const servers = new Map<string, Server>();
  for (const { name, chain, key } of alpn) {
    try {
      const server = createServer({ cert: chain, key, ALPNProtocols: [challengeProtocol], minVersion: 'TLSv1.2' });
      server.on('secureConnection', events.secure);
      server.on('tlsClientError', events.failed);
      servers.set(name, server);
    } catch (error) {
      throw new Fault('publish-refused', `the challenge certificate for ${name} is unusable`, { cause: error });
    }
  }
  return servers;
}
