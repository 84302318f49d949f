// What the upstream tests share: a receiver that writes down what it hears, heads, deadlines that can be moved by hand,
// and an HTTP/2 backend that says exactly the frames a test wants.
import { createServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createServer as createTlsServer } from 'node:tls';
import type { Clock, Timer } from '../../src/base/clock.ts';
import { Deadlines } from '../../src/base/deadlines.ts';
import type { Fault } from '../../src/base/fault.ts';
import { silentLog } from '../../src/base/log.ts';
import { Metrics } from '../../src/base/metrics.ts';
import { Fields } from '../../src/message/fields.ts';
import type { RequestHead, ResponseHead } from '../../src/message/head.ts';
import type { BackendReceiver, BackendStream } from '../../src/message/stream.ts';
import type { Ask, UpstreamDeps } from '../../src/upstream/ask.ts';
import { encodeFrame, encodeSettings, Flag, type Frame, FrameType, preface } from '../support/h2-frames.ts';
import { encodeBlock, HpackDecoder } from '../support/hpack.ts';
import type { Line } from '../support/recorder.ts';
import { limits } from '../support/routing.ts';
import { until } from '../support/wait.ts';

/** Time that only moves when told. */
export class HandClock implements Clock {
  #now = 1_000_000;
  readonly #timers = new Set<{ at: number; every: number; fn: () => void }>();

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#now;
  }

  after(ms: number, fn: () => void): Timer {
    return this.#add(ms, 0, fn);
  }

  every(ms: number, fn: () => void): Timer {
    return this.#add(ms, ms, fn);
  }

  advance(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const due = [...this.#timers].filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#now = due.at;
      if (due.every === 0) this.#timers.delete(due);
      else due.at += due.every;
      due.fn();
    }
    this.#now = end;
  }

  #add(ms: number, every: number, fn: () => void): Timer {
    const timer = { at: this.#now + ms, every, fn };
    this.#timers.add(timer);
    return { cancel: () => void this.#timers.delete(timer) };
  }
}

/** A receiver that keeps everything and, unless told otherwise, sends a whole bodiless request as soon as it can. */
export class Heard implements BackendReceiver {
  stream: BackendStream | null = null;
  readonly interims: { status: number; fields: Fields }[] = [];
  head: ResponseHead | null = null;
  readonly chunks: Buffer[] = [];
  ended = false;
  trailers: Fields | null = null;
  fault: Fault | null = null;
  tunnel: Duplex | null = null;
  writables = 0;
  flushes = 0;
  /** Names of the events in order. */
  readonly events: string[] = [];
  onReady: (stream: BackendStream) => void;

  constructor(onReady: (stream: BackendStream) => void = (stream) => stream.sendHead(requestHead(), true)) {
    this.onReady = onReady;
  }

  get body(): string {
    return Buffer.concat(this.chunks).toString('latin1');
  }

  get over(): boolean {
    return this.ended || this.fault !== null || this.tunnel !== null;
  }

  backendReady(stream: BackendStream): void {
    this.#event('ready');
    this.stream = stream;
    this.onReady(stream);
  }

  responseInformation(status: number, fields: Fields): void {
    this.#event('information');
    this.interims.push({ status, fields });
  }

  responseHead(head: ResponseHead): void {
    this.#event('head');
    this.head = head;
  }

  responseData(chunk: Buffer): void {
    this.#event('data');
    this.chunks.push(chunk);
  }

  responseEnd(trailers: Fields | null): void {
    this.#event('end');
    this.ended = true;
    this.trailers = trailers;
  }

  responseFailed(fault: Fault): void {
    this.#event('failed');
    this.fault = fault;
  }

  upgraded(head: ResponseHead, stream: Duplex): void {
    this.#event('upgraded');
    this.head = head;
    this.tunnel = stream;
  }

  backendWritable(): void {
    this.writables++;
  }

  responseFlush(): void {
    this.flushes++;
  }

  /** Resolves when the last event came. */
  async end(): Promise<this> {
    await until('the exchange to be over', () => this.over, { seen: () => this.events });
    return this;
  }

  #event(name: string): void {
    if (this.over) throw new Error(`${name} after ${this.events.at(-1)}`);
    this.events.push(name);
  }
}

export function requestHead(change: Partial<RequestHead> = {}): RequestHead {
  return {
    method: 'GET',
    target: '/',
    version: 11,
    authority: 'app.test',
    otherAuthority: null,
    fields: Fields.of(['Host', 'app.test']),
    bodyLength: 0,
    upgrade: '',
    expectContinue: false,
    acceptsTrailers: false,
    ...change,
  };
}

export function ask(change: Partial<Ask> = {}): Ask {
  return { head: requestHead(), clientAddress: '192.0.2.1', avoid: null, replay: false, ...change };
}

/** Deps with a real clock, unless one is given; the deadlines must be closed by the test. */
export function upstreamDeps(clock?: Clock, change: Partial<UpstreamDeps> = {}): UpstreamDeps {
  const deadlines = clock === undefined ? new Deadlines() : new Deadlines(clock, 10);
  const cookieKey = Buffer.alloc(32, 7);
  return {
    clock: clock ?? { now: Date.now, monotonic: () => performance.now(), after: never, every: never },
    deadlines,
    log: silentLog,
    metrics: new Metrics(),
    limits: () => limits,
    cookieKey: () => cookieKey,
    ...change,
  };
}

function never(): Timer {
  throw new Error('the upstream layer waits by deadlines only');
}

// ---- frames ------------------------------------------------------------------------------------------------------

export const headersFrame = (id: number, end: boolean, ...lines: readonly Line[]): Buffer =>
  encodeFrame(FrameType.Headers, Flag.EndHeaders | (end ? Flag.EndStream : 0), id, encodeBlock(lines));

export const dataFrame = (id: number, end: boolean, text: string): Buffer =>
  encodeFrame(FrameType.Data, end ? Flag.EndStream : 0, id, Buffer.from(text, 'latin1'));

export const resetFrame = (id: number, code: number): Buffer => encodeFrame(FrameType.RstStream, 0, id, word(code));

export const goawayFrame = (lastId: number, code: number): Buffer =>
  encodeFrame(FrameType.Goaway, 0, 0, Buffer.concat([word(lastId), word(code)]));

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

export class FrameConnection {
  readonly socket: Socket;
  readonly frames: Frame[] = [];
  /** Request lines by stream. */
  readonly requests = new Map<number, Line[]>();
  /** Lines of a second HEADERS frame by stream. */
  readonly trailers = new Map<number, Line[]>();
  readonly #decoder = new HpackDecoder();

  constructor(socket: Socket) {
    this.socket = socket;
  }

  write(...frames: readonly Buffer[]): void {
    if (!this.socket.destroyed) this.socket.write(Buffer.concat(frames));
  }

  take(frame: Frame): void {
    this.frames.push(frame);
    if (frame.type !== FrameType.Headers) return;
    const lines = this.#decoder.decode(frame.payload);
    (this.requests.has(frame.streamId) ? this.trailers : this.requests).set(frame.streamId, [...lines]);
  }

  /** Code of the first RST_STREAM for this stream, or null. */
  resetOf(id: number): number | null {
    const frame = this.frames.find((each) => each.type === FrameType.RstStream && each.streamId === id);
    return frame === undefined ? null : frame.payload.readUInt32BE(0);
  }

  bodyOf(id: number): string {
    const parts = this.frames.filter((each) => each.type === FrameType.Data && each.streamId === id);
    return Buffer.concat(parts.map((each) => each.payload)).toString('latin1');
  }

  /** END_STREAM came for this stream. */
  endedBy(id: number): boolean {
    return this.frames.some(
      (each) =>
        each.streamId === id &&
        (each.type === FrameType.Data || each.type === FrameType.Headers) &&
        (each.flags & Flag.EndStream) !== 0,
    );
  }
}

export interface FrameBackendOptions {
  /** Sent when a connection is accepted; null: nothing. */
  readonly settings?: readonly (readonly [number, number])[] | null;
  readonly tls?: { readonly key: string; readonly cert: string };
  /** Acknowledge PING (default). */
  readonly pong?: boolean;
}

export class FrameBackend {
  readonly connections: FrameConnection[] = [];
  port = 0;
  readonly #server;

  private constructor(script: (frame: Frame, connection: FrameConnection) => void, options: FrameBackendOptions) {
    const serve = (socket: Socket): void => {
      const connection = new FrameConnection(socket);
      this.connections.push(connection);
      socket.on('error', () => {});
      const { settings = [], pong = true } = options;
      if (settings !== null) socket.write(encodeSettings(settings));
      let rest: Buffer = Buffer.alloc(0);
      let greeted = false;
      socket.on('data', (chunk: Buffer) => {
        rest = Buffer.concat([rest, chunk]);
        if (!greeted) {
          if (rest.length < preface.length) return;
          greeted = true;
          rest = rest.subarray(preface.length);
        }
        while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
          const end = 9 + rest.readUIntBE(0, 3);
          const frame: Frame = {
            type: rest[3]!,
            flags: rest[4]!,
            streamId: rest.readUInt32BE(5) & 0x7fffffff,
            payload: Buffer.from(rest.subarray(9, end)),
            at: performance.now(),
          };
          rest = rest.subarray(end);
          connection.take(frame);
          const ack = (frame.flags & Flag.Ack) !== 0;
          if (frame.type === FrameType.Settings && !ack && settings !== null) {
            connection.write(encodeFrame(FrameType.Settings, Flag.Ack, 0));
          }
          if (frame.type === FrameType.Ping && !ack && pong) {
            connection.write(encodeFrame(FrameType.Ping, Flag.Ack, 0, frame.payload));
          }
          script(frame, connection);
        }
      });
    };
    this.#server =
      options.tls === undefined
        ? createServer({ noDelay: true }, serve)
        : createTlsServer({ ...options.tls, ALPNProtocols: ['h2'] }, serve);
  }

  /** `script` sees every frame that arrives, after SETTINGS and PING were answered. */
  static async start(
    script: (frame: Frame, connection: FrameConnection) => void,
    options: FrameBackendOptions = {},
  ): Promise<FrameBackend> {
    const backend = new FrameBackend(script, options);
    await new Promise<void>((resolve) => backend.#server.listen(0, '127.0.0.1', resolve));
    backend.port = (backend.#server.address() as { port: number }).port;
    return backend;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  close(): void {
    this.#server.close();
    for (const { socket } of this.connections) socket.destroy();
  }
}
