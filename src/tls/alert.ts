// Fatal TLS alerts written by hand, for refusals that come before a TLS engine is chosen (node:tls has no API for them).
// Invariant: a record here is complete and unencrypted, so it is only valid before ServerHello.

/** Alert descriptions, RFC 8446 §6. */
export const Alert = {
  UnexpectedMessage: 10,
  HandshakeFailure: 40,
  IllegalParameter: 47,
  DecodeError: 50,
  ProtocolVersion: 70,
  InternalError: 80,
  MissingExtension: 109,
  UnrecognizedName: 112,
  NoApplicationProtocol: 120,
} as const;

export type AlertDescription = (typeof Alert)[keyof typeof Alert];

const alertContentType = 21;
const fatalLevel = 2;
const tls12 = 0x0303;

/** @param version  what the client speaks at most: old clients refuse a record of a later version than their own */
export function alertRecord(description: AlertDescription, version: number = tls12): Buffer {
  const recordVersion = version >= 0x0301 && version < tls12 ? version : tls12;
  return Buffer.of(alertContentType, recordVersion >> 8, recordVersion & 0xff, 0, 2, fatalLevel, description);
}
