// Message heads as both protocol versions deliver them, framing already judged.
// Invariant: a head in these types came through a strict parser; its framing members are the only truth about the body.
// The field lines still hold what the peer sent (hop-by-hop included); serialisers never emit the framing or connection
// fields found there (Connection, Content-Length, Transfer-Encoding, Keep-Alive, Proxy-Connection, Upgrade, TE, Trailer,
// HTTP2-Settings): they write their own from the members below.
import type { Fields } from './fields.ts';

/** Length of a body: bytes, `unknown` (chunked, until close, or h2 without content-length), 0 for none. */
export type BodyLength = number | typeof unknownLength;
export const unknownLength = -1;

export interface RequestHead {
  /** An opaque token (RFC 9110 §9.1); case matters. `CONNECT` only ever with `protocol` 'websocket' (RFC 8441). */
  method: string;
  /** Origin-form target, byte for byte as sent (`/path?query`), or `*`. Absolute-form is already reduced to this. */
  target: string;
  /** 10, 11 or 20. */
  version: number;
  /** Host field or `:authority` as sent, not yet canonical; null when absent (HTTP/1.0 only). */
  authority: string | null;
  /** Authority of an absolute-form target, or the Host beside an `:authority`; must agree with `authority`. */
  otherAuthority: string | null;
  fields: Fields;
  /** Body length; `unknownLength` when framed by chunks or by the h2 stream; 0 when there is no body. */
  bodyLength: number;
  /** The upgrade asked for: only 'websocket' is recognised, by token list and with a Connection token; else ''. */
  upgrade: '' | 'websocket';
  /** `Expect: 100-continue` was sent. */
  expectContinue: boolean;
  /** The client accepts trailers (`TE: trailers`, or h2). */
  acceptsTrailers: boolean;
}

export interface ResponseHead {
  /** 200–999; interim (1xx) heads travel on their own path, 101 by `upgraded`. */
  status: number;
  /** Reason phrase, latin-1, may be empty. */
  reason: string;
  fields: Fields;
  /** Body length after the rules of RFC 9112 §6.3 (0 for HEAD, 204, 304), `unknownLength` for chunked / until close. */
  bodyLength: number;
  /** For HEAD and 304: the Content-Length the backend declared for the body that is not sent; -1 when none. */
  declaredLength: number;
}
