// Reads a ClientHello (RFC 8446 §4.1.2) off the wire without consuming it: which name, which versions, which protocols.
// Invariant: pure and incremental; however the bytes are cut, the outcome is the same; at most 64 KiB of handshake are
// kept; what is malformed is refused with the alert that RFC 8446 §6.2 names for it, never guessed at.
import { Alert, type AlertDescription } from './alert.ts';

export interface ClientHello {
  /** As sent, not canonical; null when there was no server_name extension. */
  readonly serverName: string | null;
  /** Null when the extension is absent. */
  readonly alpn: readonly string[] | null;
  /** Highest known version offered (0x0300 … 0x0304). */
  readonly maxVersion: number;
}

export interface HelloRefusal {
  readonly alert: AlertDescription;
  readonly maxVersion: number;
  readonly detail: string;
  /** Within its grammar it may be right: there is only too much of it. */
  readonly tooLarge: boolean;
}

export type HelloResult =
  | { readonly kind: 'hello'; readonly hello: ClientHello }
  | { readonly kind: 'refused'; readonly refusal: HelloRefusal }
  /** Not a TLS record at all. */
  | { readonly kind: 'not-tls' };

const handshakeContentType = 22;
const clientHelloType = 1;
const maxRecordLength = 16_384;
const maxHandshakeLength = 65_536;
/** The record headers included. A client that needs more of them than that is not in earnest. */
const maxReceivedLength = 2 * maxHandshakeLength;

const ExtensionType = { ServerName: 0, Alpn: 16, SupportedVersions: 43 } as const;

export class ClientHelloReader {
  readonly #received = new Bytes();
  // The record header being read, and how much of the record's payload is still to come.
  readonly #header = Buffer.alloc(5);
  #headerLength = 0;
  #payloadLeft = 0;
  #records = 0;
  // The handshake message, its four header bytes included.
  readonly #message = new Bytes();
  #expectedLength = 0;
  #recordVersion = 0;

  /** Everything pushed so far, unchanged, for whoever reads the connection next. */
  received(): Buffer {
    return this.#received.all();
  }

  /** Null: more bytes are needed. After another answer the reader must not be used any more. */
  push(chunk: Buffer): HelloResult | null {
    this.#received.append(chunk);
    let at = 0;
    while (at < chunk.length) {
      if (this.#payloadLeft === 0) {
        this.#header[this.#headerLength++] = chunk[at++]!;
        const problem = this.#checkHeader();
        if (problem !== null) return problem;
        continue;
      }
      const end = Math.min(at + this.#payloadLeft, chunk.length);
      this.#message.append(at === 0 && end === chunk.length ? chunk : chunk.subarray(at, end));
      this.#payloadLeft -= end - at;
      at = end;
      const outcome = this.#checkMessage();
      if (outcome !== null) return outcome;
    }
    return null;
  }

  /** Judges the record header byte by byte, so that a client that speaks something else is not waited for. */
  #checkHeader(): HelloResult | null {
    const header = this.#header;
    switch (this.#headerLength) {
      case 1:
        if (header[0] === handshakeContentType) return null;
        return this.#records > 0
          ? this.#refuse(Alert.UnexpectedMessage, 'another record inside the ClientHello')
          : { kind: 'not-tls' };
      case 2:
        return header[1] === 3 ? null : this.#refuse(Alert.ProtocolVersion, 'not a TLS record version');
      case 5: {
        const length = header.readUInt16BE(3);
        // RFC 8446 §5.1: zero-length handshake fragments are forbidden, and a plaintext record has at most 2^14 bytes.
        if (length === 0) return this.#refuse(Alert.UnexpectedMessage, 'empty handshake record');
        if (length > maxRecordLength) return this.#refuse(Alert.DecodeError, 'record too long');
        this.#records++;
        if (5 * this.#records + this.#message.length > maxReceivedLength)
          return this.#refuse(Alert.DecodeError, 'too many records', true);
        this.#recordVersion = header.readUInt16BE(1);
        this.#payloadLeft = length;
        this.#headerLength = 0;
        return null;
      }
      default:
        return null;
    }
  }

  #checkMessage(): HelloResult | null {
    const message = this.#message.all();
    if (this.#expectedLength === 0) {
      if (message[0] !== clientHelloType)
        return this.#refuse(Alert.UnexpectedMessage, 'the first message is no ClientHello');
      if (message.length < 4) return null;
      this.#expectedLength = 4 + message.readUIntBE(1, 3);
      if (this.#expectedLength > maxHandshakeLength)
        return this.#refuse(Alert.IllegalParameter, 'ClientHello longer than 64 KiB', true);
    }
    if (message.length < this.#expectedLength) return null;
    // Nothing may follow in the client's first flight: not in this record (RFC 8446 §5.1 wants a record boundary).
    if (message.length > this.#expectedLength || this.#payloadLeft > 0)
      return this.#refuse(Alert.UnexpectedMessage, 'bytes after the ClientHello in its record');
    return parseClientHello(message.subarray(4));
  }

  #refuse(alert: AlertDescription, detail: string, tooLarge = false): HelloResult {
    return { kind: 'refused', refusal: { alert, maxVersion: this.#recordVersion, detail, tooLarge } };
  }
}

/** Bytes that arrive in pieces: the first piece is kept as it is, more are copied into one buffer that doubles. */
class Bytes {
  #bytes: Buffer = Buffer.alloc(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  append(piece: Buffer): void {
    const length = this.#length + piece.length;
    if (this.#length === 0) {
      this.#bytes = piece;
    } else {
      if (length > this.#bytes.length) {
        const larger = Buffer.alloc(Math.max(length, 2 * this.#bytes.length, 512));
        this.#bytes.copy(larger, 0, 0, this.#length);
        this.#bytes = larger;
      }
      piece.copy(this.#bytes, this.#length);
    }
    this.#length = length;
  }

  /** A view, valid until the next `append`. */
  all(): Buffer {
    return this.#bytes.length === this.#length ? this.#bytes : this.#bytes.subarray(0, this.#length);
  }
}

/** Thrown inside this file only. */
class Malformed extends Error {
  readonly alert: AlertDescription;

  constructor(alert: AlertDescription, detail: string) {
    super(detail);
    this.alert = alert;
  }
}

/** The body of a ClientHello, after its four header bytes. */
export function parseClientHello(body: Buffer): HelloResult {
  let legacyVersion = 0;
  try {
    const reader = new Reader(body);
    legacyVersion = reader.uint16();
    reader.skip(32);
    if (reader.vector8().length > 32) throw new Malformed(Alert.DecodeError, 'session id longer than 32 bytes');
    const cipherSuites = reader.vector16();
    if (cipherSuites.length < 2 || cipherSuites.length % 2 !== 0)
      throw new Malformed(Alert.DecodeError, 'odd list of cipher suites');
    if (reader.vector8().length === 0) throw new Malformed(Alert.DecodeError, 'no compression method');
    const extensions = reader.done ? new Map<number, Buffer>() : parseExtensions(reader.vector16());
    if (!reader.done) throw new Malformed(Alert.DecodeError, 'bytes after the extensions');
    const supported = extensions.get(ExtensionType.SupportedVersions);
    const names = extensions.get(ExtensionType.ServerName);
    const protocols = extensions.get(ExtensionType.Alpn);
    return {
      kind: 'hello',
      hello: {
        serverName: names === undefined ? null : parseServerName(names),
        alpn: protocols === undefined ? null : parseAlpn(protocols),
        // RFC 8446 §4.2.1: the extension, when there is one, is the only thing that counts.
        maxVersion: supported === undefined ? Math.min(legacyVersion, 0x0303) : highestVersion(supported),
      },
    };
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    const refusal = { alert: error.alert, maxVersion: legacyVersion, detail: error.message, tooLarge: false };
    return { kind: 'refused', refusal };
  }
}

function parseExtensions(bytes: Buffer): ReadonlyMap<number, Buffer> {
  const extensions = new Map<number, Buffer>();
  const reader = new Reader(bytes);
  while (!reader.done) {
    const type = reader.uint16();
    const data = reader.vector16();
    if (extensions.has(type)) throw new Malformed(Alert.IllegalParameter, `extension ${type} twice`);
    extensions.set(type, data);
  }
  return extensions;
}

/** RFC 6066 §3: a list with at most one name of each type; the only type there is is 0, host_name. */
function parseServerName(data: Buffer): string {
  const outer = new Reader(data);
  const list = new Reader(outer.vector16());
  if (!outer.done) throw new Malformed(Alert.DecodeError, 'bytes after the server name list');
  const type = list.uint8();
  const name = list.vector16();
  if (type !== 0 || name.length === 0 || !list.done) throw new Malformed(Alert.DecodeError, 'not one host name');
  return name.toString('latin1');
}

/** RFC 7301 §3.1: a non-empty list of non-empty names. */
function parseAlpn(data: Buffer): readonly string[] {
  const outer = new Reader(data);
  const list = new Reader(outer.vector16());
  if (!outer.done || list.done) throw new Malformed(Alert.DecodeError, 'malformed protocol list');
  const protocols: string[] = [];
  while (!list.done) {
    const name = list.vector8();
    if (name.length === 0) throw new Malformed(Alert.DecodeError, 'empty protocol name');
    protocols.push(name.toString('latin1'));
  }
  return protocols;
}

/** The highest version that exists; GREASE values (RFC 8701) and drafts are passed over. */
function highestVersion(data: Buffer): number {
  const outer = new Reader(data);
  const list = new Reader(outer.vector8());
  if (!outer.done || list.done) throw new Malformed(Alert.DecodeError, 'malformed version list');
  let highest = 0;
  while (!list.done) {
    const version = list.uint16();
    if (version <= 0x0304 && version > highest) highest = version;
  }
  return highest;
}

/** Big-endian fields with length checks (RFC 8446 §3). */
class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#at === this.#bytes.length;
  }

  uint8(): number {
    return this.#take(1)[0]!;
  }

  uint16(): number {
    return this.#take(2).readUInt16BE(0);
  }

  skip(length: number): void {
    this.#take(length);
  }

  vector8(): Buffer {
    return this.#take(this.uint8());
  }

  vector16(): Buffer {
    return this.#take(this.uint16());
  }

  #take(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new Malformed(Alert.DecodeError, 'a length points past the end');
    const part = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return part;
  }
}
