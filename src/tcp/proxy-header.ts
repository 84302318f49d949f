// The PROXY protocol header, versions 1 and 2: read from load balancers, written for backends.
// Invariant: pure and incremental; however the bytes are cut, the outcome is the same. What is malformed is refused, never
// repaired, and not one byte of a header is left for whoever reads the connection next.
import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Both ends of a connection as its first proxy saw them. */
export interface ProxiedEnds {
  readonly sourceAddress: string;
  readonly sourcePort: number;
  readonly destinationAddress: string;
  readonly destinationPort: number;
}

export type ProxyResult =
  | {
      readonly kind: 'header';
      /** Null: the header says nothing about the ends (LOCAL, UNKNOWN, a family that is not IP): the real ones count. */
      readonly ends: ProxiedEnds | null;
      /** What followed the header. */
      readonly rest: Buffer;
    }
  | { readonly kind: 'refused'; readonly detail: string };

const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const v1Prefix = Buffer.from('PROXY ', 'latin1');
/** CRLF included (specification, section 2.1). */
const v1MaxLength = 107;
const v2HeadLength = 16;
/** Addresses and TLVs. What load balancers send is a few hundred bytes. */
const v2MaxLength = 4096;

export class ProxyHeaderReader {
  #bytes: Buffer = Buffer.alloc(0);

  /** Null: more bytes are needed. */
  push(chunk: Buffer): ProxyResult | null {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
    const bytes = this.#bytes;
    if (startsAs(bytes, signature)) return bytes.length < signature.length ? null : readV2(bytes);
    if (startsAs(bytes, v1Prefix)) return bytes.length < v1Prefix.length ? null : readV1(bytes);
    return refused('no PROXY header');
  }
}

/** What the first bytes of a connection have to do with a PROXY header; null: too few of them to tell. */
export function looksProxied(bytes: Buffer): boolean | null {
  for (const start of [signature, v1Prefix]) {
    if (startsAs(bytes, start)) return bytes.length < start.length ? null : true;
  }
  return false;
}

/** One is the beginning of the other. */
function startsAs(bytes: Buffer, start: Buffer): boolean {
  const length = Math.min(bytes.length, start.length);
  return bytes.compare(start, 0, length, 0, length) === 0;
}

function readV1(bytes: Buffer): ProxyResult | null {
  const end = bytes.subarray(0, v1MaxLength).indexOf('\r\n', 0, 'latin1');
  if (end < 0) return bytes.length < v1MaxLength ? null : refused('a version 1 header longer than 107 bytes');
  const line = bytes.toString('latin1', 0, end);
  const rest = bytes.subarray(end + 2);
  if (/^PROXY UNKNOWN(?: [^\r\n]*)?$/.test(line)) return { kind: 'header', ends: null, rest };
  const [, family, sourceAddress = '', destinationAddress = '', ...ports] =
    /^PROXY TCP([46]) (\S+) (\S+) (\d{1,5}) (\d{1,5})$/.exec(line) ?? [];
  const isAddress = family === '4' ? isIPv4 : isIPv6;
  const [sourcePort, destinationPort] = ports.map(parsePort);
  if (family === undefined || !isAddress(sourceAddress) || !isAddress(destinationAddress)) {
    return refused('a malformed version 1 header');
  }
  if (sourcePort == null || destinationPort == null) return refused('a version 1 header with a malformed port');
  return { kind: 'header', ends: endsOf(sourceAddress, sourcePort, destinationAddress, destinationPort), rest };
}

/** Leading zeros could mean octal to somebody. */
function parsePort(text: string): number | null {
  const port = Number(text);
  return port <= 65535 && String(port) === text ? port : null;
}

function readV2(bytes: Buffer): ProxyResult | null {
  if (bytes.length < v2HeadLength) return null;
  const command = bytes[12]!;
  const family = bytes[13]!;
  const length = bytes.readUInt16BE(14);
  if (command !== 0x20 && command !== 0x21) return refused(`version and command 0x${command.toString(16)}`);
  if (family >> 4 > 3 || (family & 0xf) > 2) return refused(`address family 0x${family.toString(16)}`);
  if (length > v2MaxLength) return refused(`a version 2 header of ${length} bytes`);
  const end = v2HeadLength + length;
  if (bytes.length < end) return null;
  const rest = bytes.subarray(end);
  const body = bytes.subarray(v2HeadLength, end);
  // LOCAL: a health check of the proxy itself. Whatever addresses it carries mean nothing (section 2.2).
  if (command === 0x20) return { kind: 'header', ends: null, rest };
  const size = family === 0x11 ? 4 : family === 0x21 ? 16 : 0;
  if (size === 0) return { kind: 'header', ends: null, rest };
  if (length < 2 * size + 4) return refused('a version 2 header shorter than its addresses');
  const ends = endsOf(
    formatAddress(body.subarray(0, size)),
    body.readUInt16BE(2 * size),
    formatAddress(body.subarray(size, 2 * size)),
    body.readUInt16BE(2 * size + 2),
  );
  return { kind: 'header', ends, rest };
}

function formatAddress(bytes: Buffer): string {
  return ipaddr.fromByteArray([...bytes]).toString();
}

function endsOf(source: string, sourcePort: number, destination: string, destinationPort: number): ProxiedEnds {
  return {
    sourceAddress: plain(source),
    sourcePort,
    destinationAddress: plain(destination),
    destinationPort,
  };
}

/** Compressed, and IPv4 as IPv4: one client has one spelling. */
function plain(address: string): string {
  return ipaddr.process(address).toString();
}

const refused = (detail: string): ProxyResult => ({ kind: 'refused', detail });

// ---- for backends --------------------------------------------------------------------------------------------------

/** The header that tells a backend who is connected with whom. Ends of two families are told as IPv6. */
export function proxyHeader(version: 1 | 2, ends: ProxiedEnds): Buffer {
  return version === 1 ? v1Header(ends) : v2Header(ends);
}

function v1Header({ sourceAddress, sourcePort, destinationAddress, destinationPort }: ProxiedEnds): Buffer {
  const four = isIPv4(sourceAddress) && isIPv4(destinationAddress);
  const address = (each: string): string => (four || isIPv6(each) ? each : `::ffff:${each}`);
  return Buffer.from(
    `PROXY TCP${four ? 4 : 6} ${address(sourceAddress)} ${address(destinationAddress)} ${sourcePort} ${destinationPort}\r\n`,
    'latin1',
  );
}

function v2Header({ sourceAddress, sourcePort, destinationAddress, destinationPort }: ProxiedEnds): Buffer {
  const four = isIPv4(sourceAddress) && isIPv4(destinationAddress);
  const size = four ? 4 : 16;
  const header = Buffer.alloc(v2HeadLength + 2 * size + 4);
  signature.copy(header);
  header[12] = 0x21;
  header[13] = four ? 0x11 : 0x21;
  header.writeUInt16BE(2 * size + 4, 14);
  header.set(addressBytes(sourceAddress, four), v2HeadLength);
  header.set(addressBytes(destinationAddress, four), v2HeadLength + size);
  header.writeUInt16BE(sourcePort, v2HeadLength + 2 * size);
  header.writeUInt16BE(destinationPort, v2HeadLength + 2 * size + 2);
  return header;
}

function addressBytes(address: string, four: boolean): number[] {
  const parsed = ipaddr.parse(address);
  return parsed instanceof ipaddr.IPv4 && !four ? parsed.toIPv4MappedAddress().toByteArray() : parsed.toByteArray();
}
