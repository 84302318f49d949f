import { createServer } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ClientHelloReader, type HelloResult } from '../../src/tls/client-hello.ts';

/** The first flight of a real client. */
function capture(options: ConnectionOptions): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      const chunks: Buffer[] = [];
      socket.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        const all = Buffer.concat(chunks);
        if (all.length < 5 || all.length < 5 + all.readUInt16BE(3)) return;
        resolve(all);
        socket.destroy();
        server.close();
      });
      socket.on('error', () => {});
    });
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options }).on('error', () => {});
    });
    server.on('error', reject);
  });
}

function read(...chunks: readonly Buffer[]): HelloResult | null {
  const reader = new ClientHelloReader();
  for (const chunk of chunks) {
    const result = reader.push(chunk);
    if (result !== null) return result;
  }
  return null;
}

function record(payload: Buffer, type = 22): Buffer {
  const header = Buffer.of(type, 3, 1, 0, 0);
  header.writeUInt16BE(payload.length, 3);
  return Buffer.concat([header, payload]);
}

const u16 = (value: number): Buffer => Buffer.of(value >> 8, value & 0xff);
const vector8 = (bytes: Buffer): Buffer => Buffer.concat([Buffer.of(bytes.length), bytes]);
const vector16 = (bytes: Buffer): Buffer => Buffer.concat([u16(bytes.length), bytes]);
const extension = (type: number, data: Buffer): Buffer => Buffer.concat([u16(type), vector16(data)]);
const serverName = (name: string): Buffer =>
  extension(0, vector16(Buffer.concat([Buffer.of(0), vector16(Buffer.from(name, 'latin1'))])));
const versions = (...list: readonly number[]): Buffer => extension(43, vector8(Buffer.concat(list.map(u16))));
const alpn = (...names: readonly string[]): Buffer =>
  extension(16, vector16(Buffer.concat(names.map((name) => vector8(Buffer.from(name))))));
const padding = (length: number): Buffer => extension(21, Buffer.alloc(length));

interface HelloParts {
  legacyVersion?: number;
  sessionId?: Buffer;
  suites?: Buffer;
  compression?: Buffer;
  extensions?: readonly Buffer[];
  after?: Buffer;
}

/** A handshake message: type, length, body. */
function message(parts: HelloParts = {}, type = 1): Buffer {
  const { legacyVersion = 0x0303, sessionId = Buffer.alloc(0), suites = u16(0x1301), after = Buffer.alloc(0) } = parts;
  const body = Buffer.concat([
    u16(legacyVersion),
    Buffer.alloc(32, 7),
    vector8(sessionId),
    vector16(suites),
    vector8(parts.compression ?? Buffer.of(0)),
    ...(parts.extensions === undefined ? [] : [vector16(Buffer.concat(parts.extensions))]),
    after,
  ]);
  const header = Buffer.of(type, 0, 0, 0);
  header.writeUIntBE(body.length, 1, 3);
  return Buffer.concat([header, body]);
}

/** The message cut into records of at most `size` bytes. */
function inRecords(bytes: Buffer, size: number): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) parts.push(record(bytes.subarray(at, at + size)));
  return Buffer.concat(parts);
}

function helloOf(result: HelloResult | null) {
  expect(result?.kind).toBe('hello');
  return result?.kind === 'hello' ? result.hello : null;
}

function alertOf(result: HelloResult | null): number | null {
  expect(result?.kind).toBe('refused');
  return result?.kind === 'refused' ? result.refusal.alert : null;
}

describe('a ClientHello of a real client', () => {
  it('gives name, protocols and version', async () => {
    const bytes = await capture({ servername: 'App.Example.test', ALPNProtocols: ['h2', 'http/1.1'] });
    expect(helloOf(read(bytes))).toEqual({
      serverName: 'App.Example.test',
      alpn: ['h2', 'http/1.1'],
      maxVersion: 0x0304,
    });
  });

  it('tells a TLS 1.2 client without a name', async () => {
    const bytes = await capture({ maxVersion: 'TLSv1.2' });
    expect(helloOf(read(bytes))).toEqual({ serverName: null, alpn: null, maxVersion: 0x0303 });
  });

  it('is read the same wherever it is cut in two, and byte by byte', async () => {
    const bytes = await capture({ servername: 'cut.test', ALPNProtocols: ['h2'] });
    const whole = read(bytes);
    for (let at = 1; at < bytes.length; at++) {
      expect(read(bytes.subarray(0, at))).toBeNull();
      expect(read(bytes.subarray(0, at), bytes.subarray(at))).toEqual(whole);
    }
    expect(read(...Array.from(bytes, (byte) => Buffer.of(byte)))).toEqual(whole);
  });

  it('is read the same over records of any size, and handed on unchanged', async () => {
    const bytes = await capture({ servername: 'records.test' });
    const whole = read(bytes);
    for (const size of [1, 2, 3, 4, 5, 17, 100]) {
      const cut = inRecords(bytes.subarray(5), size);
      const reader = new ClientHelloReader();
      let result: HelloResult | null = null;
      for (let at = 0; at < cut.length && result === null; at += 7) result = reader.push(cut.subarray(at, at + 7));
      expect(result).toEqual(whole);
      expect(reader.received()).toEqual(cut);
    }
  });
});

describe('a ClientHello by the book', () => {
  it('may be 64 KiB long, and not longer', () => {
    const overhead = message({ extensions: [serverName('long.test'), padding(0)] }).length;
    const full = message({ extensions: [serverName('long.test'), padding(65_536 - overhead)] });
    // One vector holds 65 535 bytes at most, so this is as long as a well-formed one gets.
    expect(full.length).toBe(65_536);
    expect(helloOf(read(inRecords(full, 16_384)))?.serverName).toBe('long.test');
    const longer = Buffer.concat([Buffer.of(1, 1, 0, 0), Buffer.alloc(100)]);
    expect(alertOf(read(record(longer)))).toBe(47);
  });

  it('passes over versions that do not exist', () => {
    const extensions = [versions(0x7a7a, 0x0303, 0x0305, 0x0304)];
    expect(helloOf(read(record(message({ extensions }))))?.maxVersion).toBe(0x0304);
  });

  it('believes supported_versions and not the old field', () => {
    const extensions = [versions(0x0302, 0x0301)];
    expect(helloOf(read(record(message({ legacyVersion: 0x0303, extensions }))))?.maxVersion).toBe(0x0302);
    expect(helloOf(read(record(message({ legacyVersion: 0x0304 }))))?.maxVersion).toBe(0x0303);
    expect(helloOf(read(record(message({ legacyVersion: 0x0301 }))))?.maxVersion).toBe(0x0301);
  });

  it('may do without extensions', () => {
    expect(helloOf(read(record(message())))).toEqual({ serverName: null, alpn: null, maxVersion: 0x0303 });
  });

  it('leaves what follows it in the stream alone', () => {
    const bytes = Buffer.concat([record(message()), record(Buffer.of(1), 20)]);
    const reader = new ClientHelloReader();
    expect(reader.push(bytes)?.kind).toBe('hello');
    expect(reader.received()).toEqual(bytes);
  });
});

describe('what is not a ClientHello', () => {
  it('is told from TLS by its first byte', () => {
    for (const text of ['GET / HTTP/1.1\r\n', 'PRI * HTTP/2.0\r\n', '\x80\x2e\x01', '\0']) {
      expect(read(Buffer.from(text, 'latin1'))).toEqual({ kind: 'not-tls' });
    }
  });

  const extended = (...extensions: readonly Buffer[]) => record(message({ extensions }));
  const table: readonly (readonly [string, Buffer, number])[] = [
    ['a record of SSL 2', Buffer.of(22, 2, 0, 0, 1, 1), 70],
    ['an empty record', Buffer.of(22, 3, 1, 0, 0), 10],
    ['a record longer than 2^14', Buffer.of(22, 3, 1, 0x40, 0x01), 50],
    ['another message', record(message({}, 2)), 10],
    [
      'an alert between two records of it',
      Buffer.concat([record(message().subarray(0, 9)), record(Buffer.of(1, 0), 21)]),
      10,
    ],
    ['a second message in the same record', record(Buffer.concat([message(), message()])), 10],
    ['bytes of the record after it', record(Buffer.concat([message(), Buffer.of(0)])), 10],
    ['a session id of 33 bytes', record(message({ sessionId: Buffer.alloc(33) })), 50],
    ['no cipher suite', record(message({ suites: Buffer.alloc(0) })), 50],
    ['half a cipher suite', record(message({ suites: Buffer.alloc(3) })), 50],
    ['no compression method', record(message({ compression: Buffer.alloc(0) })), 50],
    ['bytes after the extensions', record(message({ extensions: [], after: Buffer.of(0) })), 50],
    ['an extension twice', extended(padding(1), padding(1)), 47],
    ['an extension that is cut', record(message({ after: Buffer.from([0, 5, 0, 0, 0, 9, 1]) })), 50],
    ['two server names', extended(extension(0, vector16(Buffer.from('000001610000016200', 'hex')))), 50],
    ['an empty server name', extended(serverName('')), 50],
    ['an empty server name list', extended(extension(0, vector16(Buffer.alloc(0)))), 50],
    ['a server name of another type', extended(extension(0, vector16(Buffer.from('01000161', 'hex')))), 50],
    ['bytes after the server name list', extended(extension(0, Buffer.from('000400000161ff', 'hex'))), 50],
    ['an empty protocol list', extended(alpn()), 50],
    ['an empty protocol name', extended(alpn('h2', '')), 50],
    ['an empty version list', extended(versions()), 50],
    ['half a version', extended(extension(43, vector8(Buffer.of(3)))), 50],
  ];
  for (const [what, bytes, alert] of table) {
    it(`is refused with alert ${alert}: ${what}`, () => {
      expect(alertOf(read(bytes))).toBe(alert);
      expect(alertOf(read(...Array.from(bytes, (byte) => Buffer.of(byte))))).toBe(alert);
    });
  }

  it('is refused when it comes in more records than a client has a use for', () => {
    expect(alertOf(read(inRecords(message({ extensions: [padding(30_000)] }), 1)))).toBe(50);
  });

  it('never throws, and is judged the same however it is cut', () => {
    const valid = record(message({ extensions: [serverName('a.test'), versions(0x0304), alpn('h2')] }));
    const mutated = fc
      .array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { minLength: 1, maxLength: 6 })
      .map((changes) => {
        const bytes = Buffer.from(valid);
        for (const [at, value] of changes) bytes[at] = value;
        return bytes;
      });
    const random = fc.uint8Array({ minLength: 1, maxLength: 300 }).map((bytes) => Buffer.from(bytes));
    fc.assert(
      fc.property(fc.oneof(mutated, random), fc.nat(300), (bytes, at) => {
        const cut = Math.min(at, bytes.length);
        expect(read(bytes.subarray(0, cut), bytes.subarray(cut))).toEqual(read(bytes));
      }),
      { numRuns: 3000 },
    );
  });
});
