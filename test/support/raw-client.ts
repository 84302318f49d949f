// C: a client that writes bytes as given over TCP or TLS and reads HTTP/1.1 answers with a reader of its own.
// Invariant: nothing is sent that the test did not write; an answer cut short is reported as incomplete, never repaired.
import { connect as connectTcp, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { ByteLog } from './byte-log.ts';
import { type Line, splitHead, valuesOf } from './recorder.ts';
import { until, within } from './wait.ts';

export interface Interim {
  readonly status: number;
  readonly lines: readonly Line[];
  readonly at: number;
}

/** An answer as one client saw it, whatever the protocol. */
export interface Answer {
  readonly status: number;
  readonly reason: string;
  readonly lines: readonly Line[];
  readonly interim: readonly Interim[];
  readonly body: Buffer;
  readonly trailers: readonly Line[];
  /** The message ended as its framing says. False: the connection or stream broke off. */
  readonly complete: boolean;
  readonly headAt: number;
  readonly endAt: number;
  /** HTTP/1.1 only: the exact head. */
  readonly head: string;
  /** HTTP/2 only: the RST_STREAM code when the stream was reset, else null. */
  readonly resetCode: number | null;
}

export function fieldValue(answer: { readonly lines: readonly Line[] }, name: string): string | null {
  return valuesOf(answer.lines, name)[0] ?? null;
}

export interface RawClientOptions {
  readonly port: number;
  readonly host?: string;
  readonly localAddress?: string;
  /** Present: TLS with these options. `servername: ''` sends none. */
  readonly tls?: ConnectionOptions | undefined;
  /** Do not read until `resume` is called. */
  readonly paused?: boolean;
  /** Sent first, before TLS begins. */
  readonly preface?: string;
}

export class RawClient {
  readonly socket: Socket | TLSSocket;
  readonly #received = new ByteLog();
  readonly arrivals: { readonly at: number; readonly size: number }[] = [];
  finAt: number | null = null;
  closedAt: number | null = null;
  error: NodeJS.ErrnoException | null = null;
  #wake: (() => void)[] = [];

  readonly #tcp: Socket;

  private constructor(socket: Socket | TLSSocket, tcp: Socket) {
    this.socket = socket;
    this.#tcp = tcp;
    // With TLS on top, errors of the socket below are reported there.
    if (socket !== tcp) tcp.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      this.#received.append(chunk);
      this.arrivals.push({ at: performance.now(), size: chunk.length });
      this.#woke();
    });
    socket.on('end', () => {
      this.finAt = performance.now();
      this.#woke();
    });
    socket.on('error', (error) => {
      this.error = error;
      this.#woke();
    });
    socket.on('close', () => {
      this.closedAt = performance.now();
      this.#woke();
    });
  }

  static async connect(options: RawClientOptions): Promise<RawClient> {
    const { port, host = '127.0.0.1', tls } = options;
    const base = {
      port,
      host,
      ...(options.localAddress === undefined ? {} : { localAddress: options.localAddress }),
    };
    const tcp = connectTcp({ ...base, allowHalfOpen: true, noDelay: true });
    if (options.preface !== undefined) tcp.write(Buffer.from(options.preface, 'latin1'));
    const socket = tls === undefined ? tcp : connectTls({ ...tls, socket: tcp });
    const client = new RawClient(socket, tcp);
    if (options.paused === true) socket.pause();
    open.add(client);
    await new Promise<void>((resolve, reject) => {
      socket.once(tls === undefined ? 'connect' : 'secureConnect', resolve);
      socket.once('error', reject);
      socket.once('close', () => reject(new Error('closed before the connection was ready')));
    });
    return client;
  }

  /** What has not been taken by `readAnswer` yet. */
  get received(): Buffer {
    return this.#received.bytes;
  }

  set received(bytes: Buffer) {
    this.#received.set(bytes);
  }

  get receivedSize(): number {
    return this.#received.total;
  }

  write(bytes: string | Buffer): boolean {
    return this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  }

  /** Writes one byte a packet. */
  async drip(bytes: string, everyMs = 0): Promise<void> {
    for (const byte of Buffer.from(bytes, 'latin1')) {
      this.socket.write(Buffer.of(byte));
      await new Promise((resolve) => setTimeout(resolve, everyMs));
    }
  }

  /** Sends FIN. */
  fin(): void {
    this.socket.end();
  }

  /** RST; over TLS an end without close_notify: Node 26 crashes when the socket under TLS is reset. */
  reset(): void {
    if (this.socket === this.#tcp) this.#tcp.resetAndDestroy();
    else this.socket.destroy();
  }

  destroy(): void {
    this.socket.destroy();
    open.delete(this);
  }

  get ended(): boolean {
    return this.finAt !== null || this.closedAt !== null;
  }

  get text(): string {
    return this.received.toString('latin1');
  }

  /** Resolves at the next event of the socket. */
  #next(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve));
  }

  #woke(): void {
    for (const resolve of this.#wake.splice(0)) resolve();
  }

  async waitForText(text: string, timeoutMs = 5000): Promise<void> {
    await until(`"${text}" at the client`, () => this.received.includes(Buffer.from(text, 'latin1')), {
      timeoutMs,
      seen: () => this.text.slice(-300),
    });
  }

  /** Resolves when the peer ended or reset the connection. */
  async waitForEnd(timeoutMs = 5000): Promise<void> {
    await until('the connection to end', () => this.ended, { timeoutMs, seen: () => this.text.slice(-300) });
  }

  /** Sends a request and reads its answer. */
  async ask(bytes: string | Buffer, options: { method?: string; timeoutMs?: number } = {}): Promise<Answer> {
    this.write(bytes);
    const text = typeof bytes === 'string' ? bytes : bytes.toString('latin1');
    return this.readAnswer({ method: text.slice(0, text.indexOf(' ')), ...options });
  }

  /** Takes the next answer off the wire: complete, or incomplete when the connection ended first. */
  readAnswer(options: { method?: string; timeoutMs?: number } = {}): Promise<Answer> {
    const { method = 'GET', timeoutMs = 8000 } = options;
    return within(timeoutMs, `the answer (so far: ${JSON.stringify(this.text.slice(0, 200))})`, this.#read(method));
  }

  async #read(method: string): Promise<Answer> {
    const interim: Interim[] = [];
    for (;;) {
      const head = await this.#takeHead();
      const headAt = performance.now();
      const { first, lines } = splitHead(head);
      const match = /^HTTP\/1\.[01] (\d{3})(?: (.*))?$/s.exec(first);
      if (match === null) throw new Error(`not a status line: ${JSON.stringify(first)}`);
      const status = Number(match[1]);
      if (status >= 100 && status < 200 && status !== 101) {
        interim.push({ status, lines, at: headAt });
        continue;
      }
      const { body, trailers, complete } = await this.#readBody(method, status, lines);
      const endAt = performance.now();
      const reason = match[2] ?? '';
      return { status, reason, lines, interim, body, trailers, complete, headAt, endAt, head, resetCode: null };
    }
  }

  async #takeHead(): Promise<string> {
    for (;;) {
      const end = this.received.indexOf('\r\n\r\n');
      if (end >= 0) {
        const head = this.received.subarray(0, end + 4).toString('latin1');
        this.received = this.received.subarray(end + 4);
        return head;
      }
      if (this.ended) {
        const how = this.error === null ? 'closed' : (this.error.code ?? this.error.message);
        throw new Error(`connection ended (${how}) without an answer; received ${JSON.stringify(this.text)}`);
      }
      await this.#next();
    }
  }

  async #readBody(
    method: string,
    status: number,
    lines: readonly Line[],
  ): Promise<{ body: Buffer; trailers: readonly Line[]; complete: boolean }> {
    const none = { body: Buffer.alloc(0), trailers: [], complete: true };
    if (method === 'HEAD' || status === 204 || status === 304 || status === 101) return none;
    const encodings = valuesOf(lines, 'transfer-encoding');
    const lengths = valuesOf(lines, 'content-length');
    if (encodings.length > 0 && lengths.length > 0) throw new Error('answer with both framings');
    if (lengths.length > 1 || encodings.length > 1) throw new Error('answer with repeated framing fields');
    if (encodings.length > 0) return this.#readChunked();
    if (lengths.length === 1) {
      const length = Number(lengths[0]);
      while (this.#received.length < length && !this.ended) await this.#next();
      const body = Buffer.from(this.received.subarray(0, length));
      this.received = this.received.subarray(body.length);
      return { body, trailers: [], complete: body.length === length };
    }
    while (!this.ended) await this.#next();
    const body = this.received;
    this.received = Buffer.alloc(0);
    return { body, trailers: [], complete: this.finAt !== null && this.error === null };
  }

  async #readChunked(): Promise<{ body: Buffer; trailers: readonly Line[]; complete: boolean }> {
    const chunks: Buffer[] = [];
    const cut = (): { body: Buffer; trailers: readonly Line[]; complete: boolean } => ({
      body: Buffer.concat(chunks),
      trailers: [],
      complete: false,
    });
    for (;;) {
      const lineEnd = this.received.indexOf('\r\n');
      if (lineEnd < 0) {
        if (this.ended) return cut();
        await this.#next();
        continue;
      }
      const line = this.received.subarray(0, lineEnd).toString('latin1');
      if (!/^[0-9a-f]+$/i.test(line)) throw new Error(`bad chunk size line: ${JSON.stringify(line)}`);
      const size = Number.parseInt(line, 16);
      if (size === 0) {
        const trailers = await this.#readTrailers(lineEnd + 2);
        if (trailers === null) return cut();
        return { body: Buffer.concat(chunks), trailers, complete: true };
      }
      while (this.#received.length < lineEnd + 2 + size + 2 && !this.ended) await this.#next();
      chunks.push(Buffer.from(this.received.subarray(lineEnd + 2, lineEnd + 2 + size)));
      if (this.received.length < lineEnd + 2 + size + 2) return cut();
      const after = this.received.subarray(lineEnd + 2 + size, lineEnd + 4 + size).toString('latin1');
      if (after !== '\r\n') throw new Error(`chunk is followed by ${JSON.stringify(after)}`);
      this.received = this.received.subarray(lineEnd + 4 + size);
    }
  }

  async #readTrailers(from: number): Promise<readonly Line[] | null> {
    for (;;) {
      if (this.received.subarray(from, from + 2).toString('latin1') === '\r\n') {
        this.received = this.received.subarray(from + 2);
        return [];
      }
      const end = this.received.indexOf('\r\n\r\n', from);
      if (end >= 0) {
        const { lines } = splitHead(`\r\n${this.received.subarray(from, end).toString('latin1')}\r\n\r\n`);
        this.received = this.received.subarray(end + 4);
        return lines;
      }
      if (this.ended) return null;
      await this.#next();
    }
  }
}

const open = new Set<RawClient>();

/** Destroys every client that a test left open. */
export function closeRawClients(): void {
  for (const client of [...open]) client.destroy();
}

/** A request head with these lines; Host first. */
export function requestHead(method: string, target: string, lines: readonly Line[] = [], version = '1.1'): string {
  return `${method} ${target} HTTP/${version}\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
}
