// Transaction signatures (RFC 8945): both ends of a DNS message prove to know one key.
// Invariant: pure; signatures are compared in constant time; a reply counts only if it was signed for this very request.
import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  nameBytes,
  RecordClass,
  RecordType,
  type Reply,
  readName,
  record,
  uint16,
  uint32,
  uint48,
} from './dns-message.ts';

export type TsigAlgorithm = 'hmac-sha256' | 'hmac-sha384' | 'hmac-sha512';

export interface TsigKey {
  readonly name: string;
  readonly algorithm: TsigAlgorithm;
  readonly secret: Buffer;
}

export interface SignedMessage {
  readonly bytes: Buffer;
  readonly mac: Buffer;
}

const fudgeSeconds = 300;
const hashes: Readonly<Record<TsigAlgorithm, string>> = {
  'hmac-sha256': 'sha256',
  'hmac-sha384': 'sha384',
  'hmac-sha512': 'sha512',
};

/** RFC 8945 §5.3. @param message  without a TSIG, its additional section empty */
export function signMessage(message: Buffer, key: TsigKey, now: number): SignedMessage {
  const time = uint48(Math.floor(now / 1000));
  const fudge = uint16(fudgeSeconds);
  const mac = hmac(key, [message, variables(key, time, fudge, 0, Buffer.alloc(0))]);
  const data = Buffer.concat([
    nameBytes(key.algorithm),
    time,
    fudge,
    uint16(mac.length),
    mac,
    message.subarray(0, 2),
    uint16(0),
    uint16(0),
  ]);
  const bytes = Buffer.concat([message, record(key.name, RecordType.TSIG, RecordClass.ANY, 0, data)]);
  bytes.writeUInt16BE(1, 10);
  return { bytes, mac };
}

export type ReplyVerdict =
  | { readonly kind: 'signed' }
  /** The server did not accept our signature (RFC 8945 §5.2), and says why. */
  | { readonly kind: 'refused'; readonly why: string }
  | { readonly kind: 'unsigned' };

const errors: Readonly<Record<number, string>> = {
  16: 'the key is wrong (BADSIG)',
  17: 'the server does not know a key of this name (BADKEY)',
  18: 'the clocks of both ends differ too much (BADTIME)',
  22: 'the signature is too short for the server (BADTRUNC)',
};

export function judgeReply(bytes: Buffer, { tsig }: Reply, key: TsigKey, requestMac: Buffer): ReplyVerdict {
  if (tsig === null || tsig.name !== key.name.toLowerCase().replace(/\.$/, '')) return { kind: 'unsigned' };
  try {
    const { data } = tsig;
    const { name: algorithm, end } = readName(data, 0);
    const time = data.subarray(end, end + 6);
    const fudge = data.subarray(end + 6, end + 8);
    const macLength = data.readUInt16BE(end + 8);
    const mac = data.subarray(end + 10, end + 10 + macLength);
    const after = end + 10 + macLength;
    const error = data.readUInt16BE(after + 2);
    const other = data.subarray(after + 6, after + 6 + data.readUInt16BE(after + 4));
    // BADSIG and BADKEY come unsigned (§5.3.2), for lack of a common key.
    if (error !== 0) return { kind: 'refused', why: errors[error] ?? `TSIG error ${error}` };
    if (algorithm !== key.algorithm) return { kind: 'unsigned' };
    // As it was before the TSIG was put on it: one additional record fewer, and the id that was signed.
    const message = Buffer.from(bytes.subarray(0, tsig.offset));
    message.writeUInt16BE(message.readUInt16BE(10) - 1, 10);
    data.copy(message, 0, after, after + 2);
    const expected = hmac(key, [
      uint16(requestMac.length),
      requestMac,
      message,
      variables(key, time, fudge, error, other),
    ]);
    return mac.length === expected.length && timingSafeEqual(mac, expected) ? { kind: 'signed' } : { kind: 'unsigned' };
  } catch {
    return { kind: 'unsigned' };
  }
}

/** RFC 8945 §4.3.3 */
function variables(key: TsigKey, time: Buffer, fudge: Buffer, error: number, other: Buffer): Buffer {
  return Buffer.concat([
    nameBytes(key.name),
    uint16(RecordClass.ANY),
    uint32(0),
    nameBytes(key.algorithm),
    time,
    fudge,
    uint16(error),
    uint16(other.length),
    other,
  ]);
}

function hmac({ algorithm, secret }: TsigKey, parts: readonly Buffer[]): Buffer {
  const digest = createHmac(hashes[algorithm], secret);
  for (const part of parts) digest.update(part);
  return digest.digest();
}
