// The few DNS messages that a dynamic update takes (RFC 1035 §4, RFC 2136), written and read as bytes.
// Invariant: names are written without compression and in lower case, as TSIG digests them (RFC 8945 §4.3.3); reading never
// goes past the end, and a compression pointer only goes back.

export const RecordType = { SOA: 6, TXT: 16, TSIG: 250 } as const;
export const RecordClass = { IN: 1, NONE: 254, ANY: 255 } as const;
const updateOpcode = 5;

export interface UpdateRecord {
  readonly name: string;
  readonly value: string;
}

export interface Update {
  readonly id: number;
  readonly zone: string;
  readonly action: 'add' | 'delete';
  readonly records: readonly UpdateRecord[];
  readonly ttlSeconds: number;
}

/** RFC 2136 §2: zone section, no prerequisites, one change for each record. */
export function updateMessage({ id, zone, action, records, ttlSeconds }: Update): Buffer {
  const adds = action === 'add';
  return Buffer.concat([
    header(id, updateOpcode << 11, [1, 0, records.length, 0]),
    nameBytes(zone),
    uint16(RecordType.SOA),
    uint16(RecordClass.IN),
    // RFC 2136 §2.5.1 adds to a set; §2.5.4 deletes one value from it and leaves the others.
    ...records.map(({ name, value }) =>
      record(
        name,
        RecordType.TXT,
        adds ? RecordClass.IN : RecordClass.NONE,
        adds ? ttlSeconds : 0,
        characterString(value),
      ),
    ),
  ]);
}

export function header(id: number, flags: number, counts: readonly [number, number, number, number]): Buffer {
  return Buffer.concat([id, flags, ...counts].map(uint16));
}

export function record(name: string, type: number, recordClass: number, ttl: number, data: Buffer): Buffer {
  return Buffer.concat([nameBytes(name), uint16(type), uint16(recordClass), uint32(ttl), uint16(data.length), data]);
}

/** RFC 1035 §3.1. Throws when it is none: a label of 1 to 63 bytes, 255 in all. */
export function nameBytes(name: string): Buffer {
  const parts: Buffer[] = [];
  for (const label of name.toLowerCase().replace(/\.$/, '').split('.')) {
    const bytes = Buffer.from(label, 'latin1');
    if (bytes.length === 0 || bytes.length > 63) throw new Error(`${name} is no domain name`);
    parts.push(Buffer.of(bytes.length), bytes);
  }
  const all = Buffer.concat([...parts, Buffer.of(0)]);
  if (all.length > 255) throw new Error(`${name} is no domain name`);
  return all;
}

export function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

export function uint48(value: number): Buffer {
  const bytes = Buffer.alloc(6);
  bytes.writeUIntBE(value, 0, 6);
  return bytes;
}

function characterString(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  if (bytes.length > 255) throw new Error('a TXT value of more than 255 bytes');
  return Buffer.concat([Buffer.of(bytes.length), bytes]);
}

// ---- reading ---------------------------------------------------------------------------------------------------

export interface Reply {
  readonly id: number;
  readonly isResponse: boolean;
  readonly truncated: boolean;
  readonly rcode: number;
  /** The last record, if it is a TSIG: where it begins, its name and data. */
  readonly tsig: { readonly offset: number; readonly name: string; readonly data: Buffer } | null;
}

/** Null: malformed. */
export function readReply(bytes: Buffer): Reply | null {
  try {
    return readMessage(bytes);
  } catch {
    return null;
  }
}

function readMessage(bytes: Buffer): Reply {
  const flags = bytes.readUInt16BE(2);
  const [questions = 0, ...others] = [4, 6, 8, 10].map((at) => bytes.readUInt16BE(at));
  let at = 12;
  for (let i = 0; i < questions; i++) at = readName(bytes, at).end + 4;
  let tsig: Reply['tsig'] = null;
  const records = others.reduce((sum, count) => sum + count, 0);
  for (let i = 0; i < records; i++) {
    const offset = at;
    const { name, end } = readName(bytes, at);
    const type = bytes.readUInt16BE(end);
    const length = bytes.readUInt16BE(end + 8);
    const data = bytes.subarray(end + 10, end + 10 + length);
    if (data.length < length) throw new Error('cut off');
    at = end + 10 + length;
    tsig = type === RecordType.TSIG && i === records - 1 ? { offset, name, data } : null;
  }
  return {
    id: bytes.readUInt16BE(0),
    isResponse: (flags & 0x8000) !== 0,
    truncated: (flags & 0x0200) !== 0,
    rcode: flags & 0x000f,
    tsig,
  };
}

export function readName(bytes: Buffer, start: number): { readonly name: string; readonly end: number } {
  const labels: string[] = [];
  let at = start;
  let end = -1;
  for (;;) {
    const length = bytes.readUInt8(at);
    if ((length & 0xc0) === 0xc0) {
      const target = bytes.readUInt16BE(at) & 0x3fff;
      if (end < 0) end = at + 2;
      if (target >= at) throw new Error('a pointer that does not go back');
      at = target;
      continue;
    }
    if (length > 63) throw new Error('a label of an unknown kind');
    if (length === 0) return { name: labels.join('.').toLowerCase(), end: end < 0 ? at + 1 : end };
    labels.push(bytes.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
}
