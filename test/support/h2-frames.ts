// H2: an HTTP/2 client made of raw frames (RFC 9113), for malformed cases as well as for ordinary requests.
// Invariant: it sends what it is told; only SETTINGS and PING are acknowledged and windows refilled by itself, and each
// of these can be switched off.
import { connect as connectTcp, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { encodeBlock, HpackDecoder } from './hpack.ts';
import type { Answer, Interim } from './raw-client.ts';
import type { Line } from './recorder.ts';
import { until, within } from './wait.ts';

export const FrameType = {
  Data: 0,
  Headers: 1,
  Priority: 2,
  RstStream: 3,
  Settings: 4,
  PushPromise: 5,
  Ping: 6,
  Goaway: 7,
  WindowUpdate: 8,
  Continuation: 9,
} as const;

export const Flag = { EndStream: 1, Ack: 1, EndHeaders: 4, Padded: 8 } as const;

export const ErrorCode = {
  NoError: 0,
  ProtocolError: 1,
  InternalError: 2,
  FlowControl: 3,
  RefusedStream: 7,
  Cancel: 8,
  EnhanceYourCalm: 11,
} as const;

export const Setting = {
  HeaderTableSize: 1,
  EnablePush: 2,
  MaxConcurrentStreams: 3,
  InitialWindowSize: 4,
  MaxFrameSize: 5,
  MaxHeaderListSize: 6,
  EnableConnectProtocol: 8,
} as const;

export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
  readonly at: number;
}

export function encodeFrame(type: number, flags: number, streamId: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

export function encodeSettings(settings: readonly (readonly [number, number])[]): Buffer {
  const payload = Buffer.alloc(settings.length * 6);
  for (const [i, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, i * 6);
    payload.writeUInt32BE(value, i * 6 + 2);
  }
  return encodeFrame(FrameType.Settings, 0, 0, payload);
}

/** One stream as the client sees it. */
export class H2Stream {
  readonly id: number;
  readonly connection: H2Connection;
  readonly interim: Interim[] = [];
  lines: readonly Line[] | null = null;
  trailers: readonly Line[] = [];
  chunks: Buffer[] = [];
  size = 0;
  readonly arrivals: { readonly at: number; readonly size: number }[] = [];
  headAt = 0;
  endAt = 0;
  ended = false;
  resetCode: number | null = null;
  /** Bytes the peer lets us send. */
  sendWindow: number;
  /** Our direction is done. */
  sent = false;

  constructor(connection: H2Connection, id: number) {
    this.connection = connection;
    this.id = id;
    this.sendWindow = connection.settings.get(Setting.InitialWindowSize) ?? 65_535;
  }

  get status(): number {
    return Number(this.lines?.find(([name]) => name === ':status')?.[1] ?? 0);
  }

  get body(): Buffer {
    return Buffer.concat(this.chunks);
  }

  /** No more will come: END_STREAM, RST_STREAM, or the connection is gone. */
  get over(): boolean {
    return this.ended || this.resetCode !== null || this.connection.closed || this.unprocessed;
  }

  /** The peer said goodbye before this stream (RFC 9113 §6.8). */
  get unprocessed(): boolean {
    const { goaway } = this.connection;
    return goaway !== null && this.id > goaway.lastStreamId;
  }

  /** Sends content as the windows allow. */
  async send(data: Buffer | string, end = false): Promise<void> {
    let rest = typeof data === 'string' ? Buffer.from(data, 'latin1') : data;
    do {
      const room = Math.min(this.sendWindow, this.connection.sendWindow, 16_384, rest.length);
      if (room === 0 && rest.length > 0) {
        if (this.over) return;
        await this.connection.change();
        continue;
      }
      const part = rest.subarray(0, room);
      rest = rest.subarray(room);
      this.sendWindow -= room;
      this.connection.sendWindow -= room;
      const flags = end && rest.length === 0 ? Flag.EndStream : 0;
      if (flags !== 0) this.sent = true;
      this.connection.frame(FrameType.Data, flags, this.id, part);
      if (this.connection.backlogged) await this.connection.drained();
    } while (rest.length > 0);
  }

  /** Request trailers; they end the stream. */
  sendTrailers(lines: readonly Line[]): void {
    this.sent = true;
    this.connection.headers(this.id, lines, { endStream: true });
  }

  /** Gives the stream up from our side. */
  reset(code: number = ErrorCode.Cancel): void {
    this.resetCode ??= code;
    const payload = Buffer.alloc(4);
    payload.writeUInt32BE(code);
    this.connection.frame(FrameType.RstStream, 0, this.id, payload);
    this.connection.wake();
  }

  /** Resolves with the final head. */
  async head(timeoutMs = 8000): Promise<readonly Line[]> {
    const arrived = async (): Promise<readonly Line[]> => {
      while (this.lines === null) {
        if (this.over) throw new Error(`stream ${this.id} ended without a head (reset ${this.resetCode})`);
        await this.connection.change();
      }
      return this.lines;
    };
    return within(timeoutMs, `the head of stream ${this.id}`, arrived());
  }

  /** Resolves when the stream is over; without a final head it is an error. */
  async answer(timeoutMs = 8000): Promise<Answer> {
    const whole = async (): Promise<void> => {
      while (!this.over) await this.connection.change();
    };
    await within(timeoutMs, `the end of stream ${this.id} (status ${this.status})`, whole());
    if (this.lines === null) {
      throw new Error(`stream ${this.id} ended without a head (reset ${this.resetCode}, ${this.connection.state})`);
    }
    return {
      status: this.status,
      reason: '',
      lines: this.lines.filter(([name]) => name !== ':status'),
      interim: this.interim,
      body: this.body,
      trailers: this.trailers,
      // RFC 9113 §8.1: after a whole answer a server may reset the rest of the request with NO_ERROR.
      complete: this.ended,
      headAt: this.headAt,
      endAt: this.endAt,
      head: '',
      resetCode: this.resetCode,
    };
  }
}

export interface H2Options {
  readonly port: number;
  readonly host?: string;
  readonly localAddress?: string;
  /** Present: TLS with ALPN h2 and these options; absent: prior knowledge over TCP. */
  readonly tls?: ConnectionOptions | undefined;
  readonly settings?: readonly (readonly [number, number])[];
  /** Refill flow-control windows (default). */
  readonly refill?: boolean;
  /** Send preface and SETTINGS (default). */
  readonly greet?: boolean;
}

export class H2Connection {
  readonly socket: Socket | TLSSocket;
  readonly frames: Frame[] = [];
  readonly settings = new Map<number, number>();
  settingsSeen = false;
  goaway: { readonly lastStreamId: number; readonly code: number } | null = null;
  closed = false;
  error: Error | null = null;
  sendWindow = 65_535;
  refill: boolean;
  readonly #tcp: Socket;
  readonly #streams = new Map<number, H2Stream>();
  readonly #decoder = new HpackDecoder();
  #buffer: Buffer = Buffer.alloc(0);
  #block: { streamId: number; parts: Buffer[]; endStream: boolean } | null = null;
  #nextId = 1;
  #waiters: (() => void)[] = [];

  private constructor(socket: Socket | TLSSocket, tcp: Socket, refill: boolean) {
    this.socket = socket;
    this.#tcp = tcp;
    this.refill = refill;
    // One waiter for each stream that is sending.
    socket.setMaxListeners(1000);
    if (socket !== tcp) tcp.on('error', () => {});
    socket.on('data', (chunk: Buffer) => this.#data(chunk));
    socket.on('error', (error: Error) => {
      this.error = error;
    });
    const over = (): void => {
      this.closed = true;
      this.wake();
    };
    socket.on('end', over);
    socket.on('close', over);
  }

  static async connect(options: H2Options): Promise<H2Connection> {
    const { port, host = '127.0.0.1', tls } = options;
    const tcp = connectTcp({
      port,
      host,
      noDelay: true,
      ...(options.localAddress === undefined ? {} : { localAddress: options.localAddress }),
    });
    const socket = tls === undefined ? tcp : connectTls({ ALPNProtocols: ['h2'], ...tls, socket: tcp });
    const connection = new H2Connection(socket, tcp, options.refill ?? true);
    open.add(connection);
    await new Promise<void>((resolve, reject) => {
      socket.once(tls === undefined ? 'connect' : 'secureConnect', resolve);
      socket.once('error', reject);
      socket.once('close', () => reject(new Error('closed before the connection was ready')));
    });
    if (options.greet ?? true) {
      connection.write(Buffer.concat([preface, encodeSettings(options.settings ?? [])]));
      await until('the SETTINGS of the server', () => connection.settingsSeen || connection.closed);
    }
    return connection;
  }

  get state(): string {
    const goaway = this.goaway === null ? 'no GOAWAY' : `GOAWAY ${this.goaway.code}`;
    return `${this.closed ? 'closed' : 'open'}, ${goaway}${this.error === null ? '' : `, ${this.error.message}`}`;
  }

  get backlogged(): boolean {
    return this.socket.writableNeedDrain;
  }

  drained(): Promise<void> {
    if (!this.socket.writableNeedDrain || this.closed) return Promise.resolve();
    return new Promise((resolve) => {
      this.socket.once('drain', resolve);
      this.socket.once('close', resolve);
    });
  }

  write(bytes: Buffer): void {
    if (!this.closed) this.socket.write(bytes);
  }

  frame(type: number, flags: number, streamId: number, payload: Buffer = Buffer.alloc(0)): void {
    this.write(encodeFrame(type, flags, streamId, payload));
  }

  /** A HEADERS frame (and CONTINUATION frames when the block is long). */
  headers(streamId: number, lines: readonly Line[], options: { endStream?: boolean } = {}): void {
    const block = encodeBlock(lines);
    const first = block.subarray(0, 16_384);
    const end = options.endStream === true ? Flag.EndStream : 0;
    this.frame(FrameType.Headers, end | (block.length <= 16_384 ? Flag.EndHeaders : 0), streamId, first);
    for (let at = 16_384; at < block.length; at += 16_384) {
      const last = at + 16_384 >= block.length;
      this.frame(FrameType.Continuation, last ? Flag.EndHeaders : 0, streamId, block.subarray(at, at + 16_384));
    }
  }

  /** Opens a stream with exactly these header lines (pseudo-header fields included). */
  open(lines: readonly Line[], options: { endStream?: boolean } = {}): H2Stream {
    const stream = new H2Stream(this, this.#nextId);
    this.#nextId += 2;
    this.#streams.set(stream.id, stream);
    stream.sent = options.endStream ?? true;
    this.headers(stream.id, lines, { endStream: stream.sent });
    return stream;
  }

  /** The header lines of an ordinary request. */
  static request(
    method: string,
    authority: string,
    path: string,
    lines: readonly Line[] = [],
    scheme = 'https',
  ): Line[] {
    return [[':method', method], [':scheme', scheme], [':authority', authority], [':path', path], ...lines];
  }

  windowUpdate(streamId: number, increment: number): void {
    const payload = Buffer.alloc(4);
    payload.writeUInt32BE(increment);
    this.frame(FrameType.WindowUpdate, 0, streamId, payload);
  }

  destroy(): void {
    this.socket.destroy();
    open.delete(this);
  }

  /** RST; over TLS an end without close_notify: Node 26 crashes when the socket under TLS is reset. */
  reset(): void {
    if (this.socket === this.#tcp) this.#tcp.resetAndDestroy();
    else this.socket.destroy();
  }

  async waitForEnd(timeoutMs = 5000): Promise<void> {
    await until('the HTTP/2 connection to end', () => this.closed, { timeoutMs });
  }

  /** Resolves at the next event of the connection. */
  change(): Promise<void> {
    if (this.closed) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  /** Lets everyone who waits for a change look again. */
  wake(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }

  #data(chunk: Buffer): void {
    this.#buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk]);
    while (this.#buffer.length >= 9) {
      const length = this.#buffer.readUIntBE(0, 3);
      if (this.#buffer.length < 9 + length) break;
      const frame: Frame = {
        type: this.#buffer[3]!,
        flags: this.#buffer[4]!,
        streamId: this.#buffer.readUInt32BE(5) & 0x7fffffff,
        payload: Buffer.from(this.#buffer.subarray(9, 9 + length)),
        at: performance.now(),
      };
      this.#buffer = this.#buffer.subarray(9 + length);
      // Content is kept by the streams; keeping its frames too would double the memory of long downloads.
      if (frame.type !== FrameType.Data && this.frames.length < 10_000) this.frames.push(frame);
      this.#frame(frame);
    }
    this.wake();
  }

  #frame(frame: Frame): void {
    const { type, flags, payload } = frame;
    const stream = this.#streams.get(frame.streamId);
    switch (type) {
      case FrameType.Settings:
        if ((flags & Flag.Ack) !== 0) return;
        for (let at = 0; at + 6 <= payload.length; at += 6) {
          this.settings.set(payload.readUInt16BE(at), payload.readUInt32BE(at + 2));
        }
        this.settingsSeen = true;
        this.frame(FrameType.Settings, Flag.Ack, 0);
        return;
      case FrameType.Ping:
        if ((flags & Flag.Ack) === 0) this.frame(FrameType.Ping, Flag.Ack, 0, payload);
        return;
      case FrameType.Goaway:
        this.goaway = { lastStreamId: payload.readUInt32BE(0), code: payload.readUInt32BE(4) };
        return;
      case FrameType.WindowUpdate: {
        const increment = payload.readUInt32BE(0);
        if (frame.streamId === 0) this.sendWindow += increment;
        else if (stream !== undefined) stream.sendWindow += increment;
        return;
      }
      case FrameType.RstStream:
        if (stream !== undefined) {
          stream.resetCode = payload.readUInt32BE(0);
          stream.endAt = frame.at;
          this.#streams.delete(frame.streamId);
        }
        return;
      case FrameType.Headers:
        this.#block = { streamId: frame.streamId, parts: [payload], endStream: (flags & Flag.EndStream) !== 0 };
        if ((flags & Flag.EndHeaders) !== 0) this.#endBlock(frame.at);
        return;
      case FrameType.Continuation:
        this.#block?.parts.push(payload);
        if ((flags & Flag.EndHeaders) !== 0) this.#endBlock(frame.at);
        return;
      case FrameType.Data: {
        if (this.refill && payload.length > 0) {
          this.windowUpdate(0, payload.length);
          if ((flags & Flag.EndStream) === 0) this.windowUpdate(frame.streamId, payload.length);
        }
        if (stream === undefined) return;
        stream.chunks.push(payload);
        stream.size += payload.length;
        stream.arrivals.push({ at: frame.at, size: payload.length });
        if ((flags & Flag.EndStream) !== 0) this.#ended(stream, frame.at);
      }
    }
  }

  #endBlock(at: number): void {
    const block = this.#block!;
    this.#block = null;
    const lines = this.#decoder.decode(Buffer.concat(block.parts));
    const stream = this.#streams.get(block.streamId);
    if (stream === undefined) return;
    const status = Number(lines.find(([name]) => name === ':status')?.[1] ?? 0);
    if (status >= 100 && status < 200) {
      stream.interim.push({ status, lines: lines.filter(([name]) => name !== ':status'), at });
    } else if (stream.lines === null) {
      stream.lines = lines;
      stream.headAt = at;
    } else {
      stream.trailers = lines;
    }
    if (block.endStream) this.#ended(stream, at);
  }

  /** The peer is done. A RST_STREAM that follows (RFC 9113 §8.1) is still the stream's, until it is done itself. */
  #ended(stream: H2Stream, at: number): void {
    stream.ended = true;
    stream.endAt = at;
    if (stream.sent) this.#streams.delete(stream.id);
  }
}

const open = new Set<H2Connection>();

/** Destroys every connection that a test left open. */
export function closeH2Connections(): void {
  for (const connection of [...open]) connection.destroy();
}
