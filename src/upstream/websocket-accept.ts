// The proof that a server understood a WebSocket handshake (RFC 6455 §4.2.2). Pure.
// Invariant: depends on the client's key alone, so whoever ends the HTTP/1.1 side of a tunnel can give it.
import { createHash } from 'node:crypto';

const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

/** Sec-WebSocket-Accept for a Sec-WebSocket-Key. */
export function acceptFor(key: string): string {
  return createHash('sha1')
    .update(key + guid, 'latin1')
    .digest('base64');
}
