// One behaviour over every way a client can reach the proxy: HTTP/1.1, HTTP/1.1 over TLS, HTTP/2 over TLS, and h2c.
// Invariant: a test written against `Requester` sees the same Answer whatever the transport.
import type { ConnectionOptions } from 'node:tls';
import { describe } from 'vitest';
import { ErrorCode, H2Connection, type H2Stream } from './h2-frames.ts';
import { type Answer, RawClient, requestHead } from './raw-client.ts';
import type { Line } from './recorder.ts';
import { until } from './wait.ts';
import { extendedConnect, H1Tunnel, H2Tunnel, handshake, type Tunnel } from './websocket-frames.ts';

export type Transport = 'h1' | 'h1+tls' | 'h2' | 'h2c';
export const allTransports: readonly Transport[] = ['h1', 'h1+tls', 'h2', 'h2c'];
export const isH2 = (transport: Transport): boolean => transport === 'h2' || transport === 'h2c';
export const isTls = (transport: Transport): boolean => transport === 'h1+tls' || transport === 'h2';

/** Declares the tests of `body` once for each transport. */
export function overTransports(
  title: string,
  body: (transport: Transport) => void,
  transports: readonly Transport[] = allTransports,
): void {
  for (const transport of transports) describe(`${title} [${transport}]`, () => body(transport));
}

/** Where the proxy listens. */
export interface Target {
  readonly plainPort: number;
  readonly tlsPort: number;
  /** Issuer of the certificates it serves. */
  readonly ca: string;
}

export interface Ask {
  readonly method?: string;
  readonly host?: string;
  readonly path?: string;
  readonly lines?: readonly Line[];
  readonly body?: string | Buffer;
  /** Frame the body by chunks (h1) or leave the length out (h2). */
  readonly unknownLength?: boolean;
  readonly timeoutMs?: number;
}

/** A request whose body is sent, and whose answer is read, step by step. */
export interface Live {
  send(data: Buffer | string): Promise<void>;
  end(trailers?: readonly Line[]): void;
  /** Resolves once `text` is part of what has been received (framing of h1 included). */
  seen(text: string, timeoutMs?: number): Promise<void>;
  /** Size of what was received so far behind the head, h1 framing included. */
  readonly size: number;
  /** Status of the final head; 0 before it came. */
  readonly status: number;
  head(timeoutMs?: number): Promise<void>;
  answer(timeoutMs?: number): Promise<Answer>;
  /** Leaves with a reset: RST on h1, RST_STREAM(CANCEL) on h2. */
  abort(): void;
}

/** A client of one transport; keeps its connection as a browser would. */
export class Requester {
  readonly transport: Transport;
  readonly #target: Target;
  readonly #localAddress: string | undefined;
  #h1: RawClient | null = null;
  #h2: Promise<H2Connection> | null = null;

  constructor(transport: Transport, target: Target, options: { localAddress?: string } = {}) {
    this.transport = transport;
    this.#target = target;
    this.#localAddress = options.localAddress;
  }

  get scheme(): string {
    return isTls(this.transport) ? 'https' : 'http';
  }

  get port(): number {
    return isTls(this.transport) ? this.#target.tlsPort : this.#target.plainPort;
  }

  #options(host: string): { port: number; localAddress?: string; tls?: ConnectionOptions } {
    const tls: ConnectionOptions = {
      servername: host,
      ca: this.#target.ca,
      // Without a name there is none to check.
      ...(host === '' ? { checkServerIdentity: () => undefined } : {}),
    };
    return {
      port: this.port,
      ...(this.#localAddress === undefined ? {} : { localAddress: this.#localAddress }),
      ...(isTls(this.transport) ? { tls } : {}),
    };
  }

  /** The HTTP/1.1 connection, opened when there is none; `host` is the SNI. */
  async h1(host = 'app1.test'): Promise<RawClient> {
    if (this.#h1 === null || this.#h1.ended) this.#h1 = await RawClient.connect(this.#options(host));
    return this.#h1;
  }

  /** The HTTP/2 connection, opened when there is none. */
  async h2(host = 'app1.test'): Promise<H2Connection> {
    this.#h2 ??= H2Connection.connect(this.#options(host));
    const current = this.#h2;
    const connection = await current;
    if (!connection.closed && connection.goaway === null) return connection;
    // Whoever finds it ended first opens the next one, for all.
    if (this.#h2 === current) this.#h2 = H2Connection.connect(this.#options(host));
    return this.#h2;
  }

  async request(ask: Ask = {}): Promise<Answer> {
    const { method = 'GET', host = 'app1.test', path = '/', lines = [], body, timeoutMs } = ask;
    if (isH2(this.transport)) {
      const connection = await this.h2(host);
      const length: Line[] =
        body === undefined || ask.unknownLength === true ? [] : [['content-length', String(Buffer.byteLength(body))]];
      const stream = connection.open(
        H2Connection.request(method, host, path, [...lines.map(lower), ...length], this.scheme),
        {
          endStream: body === undefined,
        },
      );
      if (body !== undefined) void stream.send(typeof body === 'string' ? Buffer.from(body) : body, true);
      return stream.answer(timeoutMs);
    }
    const client = await this.h1(host);
    const content = body === undefined ? null : Buffer.from(body);
    const framing: Line[] =
      content === null
        ? []
        : ask.unknownLength === true
          ? [['Transfer-Encoding', 'chunked']]
          : [['Content-Length', String(content.length)]];
    client.write(requestHead(method, path, [['Host', host], ...lines, ...framing]));
    if (content !== null) client.write(ask.unknownLength === true ? chunked(content) : content);
    const answer = await client.readAnswer({ method, ...(timeoutMs === undefined ? {} : { timeoutMs }) });
    if (!answer.complete) client.destroy();
    return answer;
  }

  /** Sends a head; the body (chunked on h1, unless a length is among the lines) and the answer are the test's. */
  async open(ask: Omit<Ask, 'body'> & { readonly endStream?: boolean } = {}): Promise<Live> {
    const { method = 'GET', host = 'app1.test', path = '/', lines = [] } = ask;
    if (isH2(this.transport)) {
      const connection = await this.h2(host);
      const fields = H2Connection.request(method, host, path, lines.map(lower), this.scheme);
      return new H2Live(connection.open(fields, { endStream: ask.endStream ?? false }));
    }
    const client = await RawClient.connect(this.#options(host));
    const sized = lines.some(([name]) => name.toLowerCase() === 'content-length');
    const framing: Line[] = ask.endStream === true || sized ? [] : [['Transfer-Encoding', 'chunked']];
    client.write(requestHead(method, path, [['Host', host], ...lines, ...framing]));
    return new H1Live(client, method, ask.endStream !== true && !sized);
  }

  /** A WebSocket handshake on a connection of its own (h1) or a stream (h2). */
  async webSocket(
    ask: { host?: string; path?: string; lines?: readonly Line[]; timeoutMs?: number } = {},
  ): Promise<{ answer: Answer; tunnel: Tunnel }> {
    const { host = 'app1.test', path = '/ws', lines = [], timeoutMs = 8000 } = ask;
    if (isH2(this.transport)) {
      const connection = await this.h2(host);
      const stream = connection.open(extendedConnect(host, path, lines.map(lower)), { endStream: false });
      await stream.head(timeoutMs);
      const refused = stream.status !== 200;
      return {
        answer: refused ? await stream.answer() : headOnly(stream),
        tunnel: new H2Tunnel(stream),
      };
    }
    const client = await RawClient.connect(this.#options(host));
    client.write(handshake(host, path, lines));
    const answer = await client.readAnswer({ timeoutMs });
    return { answer, tunnel: new H1Tunnel(client) };
  }

  close(): void {
    this.#h1?.destroy();
    void this.#h2?.then((connection) => connection.destroy()).catch(() => {});
    this.#h1 = null;
    this.#h2 = null;
  }
}

/** Status of an accepted WebSocket: 101, or 200 on HTTP/2. */
export function upgradeStatus(transport: Transport): number {
  return isH2(transport) ? 200 : 101;
}

function lower([name, value]: Line): Line {
  return [name.toLowerCase(), value];
}

export function chunked(content: Buffer): Buffer {
  if (content.length === 0) return Buffer.from('0\r\n\r\n');
  return Buffer.concat([Buffer.from(`${content.length.toString(16)}\r\n`), content, Buffer.from('\r\n0\r\n\r\n')]);
}

function headOnly(stream: H2Stream): Answer {
  const lines = (stream.lines ?? []).filter(([name]) => name !== ':status');
  const { status, interim, headAt } = stream;
  return {
    status,
    reason: '',
    lines,
    interim,
    body: Buffer.alloc(0),
    trailers: [],
    complete: true,
    headAt,
    endAt: headAt,
    head: '',
    resetCode: null,
  };
}

class H1Live implements Live {
  readonly client: RawClient;
  readonly #method: string;
  readonly #chunked: boolean;

  constructor(client: RawClient, method: string, isChunked: boolean) {
    this.client = client;
    this.#method = method;
    this.#chunked = isChunked;
  }

  async send(data: Buffer | string): Promise<void> {
    const bytes = typeof data === 'string' ? Buffer.from(data, 'latin1') : data;
    const framed = this.#chunked
      ? Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
      : bytes;
    if (this.client.write(framed)) return;
    await new Promise<void>((resolve) => {
      this.client.socket.once('drain', resolve);
      this.client.socket.once('close', resolve);
    });
  }

  end(trailers: readonly Line[] = []): void {
    if (!this.#chunked) return;
    this.client.write(`0\r\n${trailers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`);
  }

  async seen(text: string, timeoutMs?: number): Promise<void> {
    await this.client.waitForText(text, timeoutMs);
  }

  get size(): number {
    const end = this.client.received.indexOf('\r\n\r\n');
    return end < 0 ? 0 : this.client.received.length - end - 4;
  }

  get status(): number {
    return Number(/^HTTP\/1\.1 (\d{3})/.exec(this.client.text)?.[1] ?? 0);
  }

  async head(timeoutMs = 8000): Promise<void> {
    await this.client.waitForText('\r\n\r\n', timeoutMs);
  }

  answer(timeoutMs = 8000): Promise<Answer> {
    return this.client.readAnswer({ method: this.#method, timeoutMs });
  }

  abort(): void {
    this.client.reset();
  }
}

class H2Live implements Live {
  readonly stream: H2Stream;

  constructor(stream: H2Stream) {
    this.stream = stream;
  }

  send(data: Buffer | string): Promise<void> {
    return this.stream.send(data);
  }

  end(trailers: readonly Line[] = []): void {
    if (trailers.length > 0) this.stream.sendTrailers(trailers.map(lower));
    else void this.stream.send(Buffer.alloc(0), true);
  }

  async seen(text: string, timeoutMs = 5000): Promise<void> {
    await until(`"${text}" on the stream`, () => this.stream.body.includes(Buffer.from(text, 'latin1')), {
      timeoutMs,
      seen: () => this.stream.body.toString('latin1').slice(-300),
    });
  }

  get size(): number {
    return this.stream.size;
  }

  get status(): number {
    return this.stream.status;
  }

  async head(timeoutMs?: number): Promise<void> {
    await this.stream.head(timeoutMs);
  }

  answer(timeoutMs?: number): Promise<Answer> {
    return this.stream.answer(timeoutMs);
  }

  abort(): void {
    this.stream.reset(ErrorCode.Cancel);
  }
}
