// The forwarded fields that are the same for every request of a connection to one host.
// Invariant: only for a peer whose own word about them does not count.
import { FieldId } from '../message/field-id.ts';
import { FieldBlock } from '../message/fields.ts';
import type { ConnectionFacts } from '../message/stream.ts';

/** @param hostHeader  canonical `host[:port]`; @param port  the one that clients reach us on */
export function forwardedBlock(
  connection: ConnectionFacts,
  proto: string,
  hostHeader: string,
  port: number,
): FieldBlock {
  const { peerAddress } = connection;
  return new FieldBlock([
    ['X-Forwarded-For', peerAddress, FieldId.XForwardedFor],
    ['X-Forwarded-Proto', proto, FieldId.XForwardedProto],
    ['X-Forwarded-Host', hostHeader, FieldId.XForwardedHost],
    ['X-Forwarded-Port', String(port), FieldId.XForwardedPort],
    ['X-Real-IP', peerAddress, FieldId.XRealIp],
  ]);
}
