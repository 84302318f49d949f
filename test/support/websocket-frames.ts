// WebSocket frames (RFC 6455 §5.2) by hand, and handshakes over HTTP/1.1 and over HTTP/2 (RFC 8441).
// Invariant: nothing is masked, merged or split that the test did not ask for.
import { createHash } from 'node:crypto';
import type { H2Connection, H2Stream } from './h2-frames.ts';
import type { RawClient } from './raw-client.ts';
import type { Exchange, Line } from './recorder.ts';
import { until } from './wait.ts';

export const Opcode = { Continuation: 0, Text: 1, Binary: 2, Close: 8, Ping: 9, Pong: 10 } as const;

export function encodeWsFrame(opcode: number, payload: Buffer | string, options: { mask?: boolean } = {}): Buffer {
  const data = typeof payload === 'string' ? Buffer.from(payload) : payload;
  const head: number[] = [0x80 | opcode];
  const maskBit = options.mask === true ? 0x80 : 0;
  if (data.length < 126) head.push(maskBit | data.length);
  else if (data.length < 65_536) head.push(maskBit | 126, data.length >> 8, data.length & 255);
  else {
    const size = Buffer.alloc(8);
    size.writeBigUInt64BE(BigInt(data.length));
    head.push(maskBit | 127, ...size);
  }
  if (options.mask !== true) return Buffer.concat([Buffer.from(head), data]);
  const key = Buffer.of(0x1a, 0x2b, 0x3c, 0x4d);
  const masked = Buffer.from(data);
  for (let i = 0; i < masked.length; i++) masked[i]! ^= key[i % 4]!;
  return Buffer.concat([Buffer.from(head), key, masked]);
}

export interface WsFrame {
  readonly fin: boolean;
  readonly opcode: number;
  readonly payload: Buffer;
  /** Close code, when this is a close frame that has one. */
  readonly code: number | null;
}

/** The whole frames in these bytes, and what is left over. */
export function decodeWsFrames(bytes: Buffer): { frames: WsFrame[]; rest: Buffer } {
  const frames: WsFrame[] = [];
  let at = 0;
  for (;;) {
    if (bytes.length < at + 2) break;
    const masked = (bytes[at + 1]! & 0x80) !== 0;
    let size = bytes[at + 1]! & 0x7f;
    let head = 2;
    if (size === 126) {
      if (bytes.length < at + 4) break;
      size = bytes.readUInt16BE(at + 2);
      head = 4;
    } else if (size === 127) {
      if (bytes.length < at + 10) break;
      size = Number(bytes.readBigUInt64BE(at + 2));
      head = 10;
    }
    const start = at + head + (masked ? 4 : 0);
    if (bytes.length < start + size) break;
    const payload = Buffer.from(bytes.subarray(start, start + size));
    if (masked) {
      const key = bytes.subarray(at + head, at + head + 4);
      for (let i = 0; i < payload.length; i++) payload[i]! ^= key[i % 4]!;
    }
    const opcode = bytes[at]! & 15;
    const code = opcode === Opcode.Close && payload.length >= 2 ? payload.readUInt16BE(0) : null;
    frames.push({ fin: (bytes[at]! & 0x80) !== 0, opcode, payload, code });
    at = start + size;
  }
  return { frames, rest: bytes.subarray(at) };
}

/** RFC 6455 §4.2.2: the accept value for a key. */
export function acceptFor(key: string): string {
  return createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
}

/** The 101 answer to a handshake as a backend writes it. */
export function acceptHandshake(exchange: Exchange, extra = ''): string {
  return (
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
    `Sec-WebSocket-Accept: ${acceptFor(exchange.value('sec-websocket-key') ?? '')}\r\n${extra}\r\n`
  );
}

/** A recorder script: accepts every handshake and echoes frames unmasked, a close frame too. */
export function echoScript(exchange: Exchange): void {
  exchange.reply(acceptHandshake(exchange));
  let pending: Buffer = Buffer.alloc(0);
  const { connection } = exchange;
  const take = (chunk: Buffer): void => {
    const { frames, rest } = decodeWsFrames(Buffer.concat([pending, chunk]));
    pending = rest;
    for (const frame of frames) connection.send(encodeWsFrame(frame.opcode, frame.payload));
    if (frames.some((frame) => frame.opcode === Opcode.Close)) connection.fin();
  };
  connection.onRaw = take;
}

export const sampleKey = 'dGhlIHNhbXBsZSBub25jZQ==';

export function handshake(host: string, path = '/ws', lines: readonly Line[] = []): string {
  const extra = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return (
    `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${sampleKey}\r\n${extra}\r\n`
  );
}

/** Header lines of an extended CONNECT. */
export function extendedConnect(
  host: string,
  path = '/ws',
  lines: readonly Line[] = [],
  protocol = 'websocket',
): Line[] {
  return [
    [':method', 'CONNECT'],
    [':protocol', protocol],
    [':scheme', 'https'],
    [':path', path],
    [':authority', host],
    ['sec-websocket-version', '13'],
    ...lines,
  ];
}

/** An open WebSocket as bytes, over either protocol version. */
export interface Tunnel {
  send(bytes: Buffer): void;
  /** Half-closes our direction. */
  fin(): void;
  reset(): void;
  /** Bytes received so far. */
  readonly received: Buffer;
  /** The other side ended its direction, or all of it. */
  readonly ended: boolean;
  readonly frames: readonly WsFrame[];
  waitForFrames(count: number, timeoutMs?: number): Promise<readonly WsFrame[]>;
  waitForEnd(timeoutMs?: number): Promise<void>;
}

abstract class FrameReader {
  abstract readonly received: Buffer;
  abstract readonly ended: boolean;

  get frames(): readonly WsFrame[] {
    return decodeWsFrames(this.received).frames;
  }

  async waitForFrames(count: number, timeoutMs = 5000): Promise<readonly WsFrame[]> {
    return until(`${count} frames`, () => (this.frames.length >= count ? this.frames : null), {
      timeoutMs,
      seen: () => this.received.toString('latin1').slice(-200),
    });
  }

  async waitForEnd(timeoutMs = 5000): Promise<void> {
    await until('the tunnel to end', () => this.ended, { timeoutMs });
  }
}

export class H1Tunnel extends FrameReader implements Tunnel {
  readonly client: RawClient;

  /** The client has read the 101 already. */
  constructor(client: RawClient) {
    super();
    this.client = client;
  }

  get received(): Buffer {
    return this.client.received;
  }

  get ended(): boolean {
    return this.client.ended;
  }

  send(bytes: Buffer): void {
    this.client.write(bytes);
  }

  fin(): void {
    this.client.fin();
  }

  reset(): void {
    this.client.reset();
  }
}

export class H2Tunnel extends FrameReader implements Tunnel {
  readonly stream: H2Stream;
  readonly connection: H2Connection;

  constructor(stream: H2Stream) {
    super();
    this.stream = stream;
    this.connection = stream.connection;
  }

  get received(): Buffer {
    return this.stream.body;
  }

  get ended(): boolean {
    return this.stream.over;
  }

  send(bytes: Buffer): void {
    void this.stream.send(bytes);
  }

  fin(): void {
    void this.stream.send(Buffer.alloc(0), true);
  }

  reset(): void {
    this.stream.reset();
  }
}
