// R: a raw TCP backend that keeps the exact bytes of every accepted socket, with accept, FIN and reset times, and
// answers with scripted bytes.
// Invariant: it never repairs or re-orders anything; what a test reads here is what the proxy put on the wire.
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { ByteLog } from './byte-log.ts';
import { until } from './wait.ts';

export type Line = readonly [name: string, value: string];

/** Splits a raw head into its first line and its field lines, exactly as sent. */
export function splitHead(head: string): { first: string; lines: Line[] } {
  const rows = head.replace(/\r\n\r\n$/, '').split('\r\n');
  const lines = rows.slice(1).map((row): Line => {
    const colon = row.indexOf(':');
    return [row.slice(0, colon), row.slice(colon + 1).trim()];
  });
  return { first: rows[0] ?? '', lines };
}

export function valuesOf(lines: readonly Line[], name: string): string[] {
  const lower = name.toLowerCase();
  return lines.filter(([each]) => each.toLowerCase() === lower).map(([, value]) => value);
}

/** One request as it stands on the wire, and the means to answer it. */
export class Exchange {
  readonly connection: RecordedConnection;
  /** The exact head, latin-1, blank line included. */
  readonly head: string;
  readonly method: string;
  readonly target: string;
  readonly lines: readonly Line[];
  readonly receivedAt = performance.now();
  /** Un-chunked, as far as it has arrived. */
  readonly content: ByteLog;
  trailers: readonly Line[] = [];
  bodyComplete = false;
  /** The scripted answer is complete: the socket may stay open and idle. */
  answered = false;
  #whole: (() => void)[] = [];

  constructor(connection: RecordedConnection, head: string, keep: number) {
    this.connection = connection;
    this.content = new ByteLog(keep);
    this.head = head;
    const { first, lines } = splitHead(head);
    const [method = '', target = ''] = first.split(' ');
    this.method = method;
    this.target = target;
    this.lines = lines;
  }

  values(name: string): string[] {
    return valuesOf(this.lines, name);
  }

  get body(): Buffer {
    return this.content.bytes;
  }

  get bodySize(): number {
    return this.content.total;
  }

  value(name: string): string | null {
    return this.values(name)[0] ?? null;
  }

  /** Sends a piece of an answer; strings are latin-1. */
  send(bytes: string | Buffer): this {
    this.connection.send(bytes);
    return this;
  }

  /** Sends a whole answer. */
  reply(bytes: string | Buffer): this {
    this.answered = true;
    return this.send(bytes);
  }

  /** A plain 200 with this body. */
  ok(body: string | Buffer = 'ok', extra = ''): this {
    const bytes = Buffer.from(body);
    const head = `HTTP/1.1 200 OK\r\n${extra}Content-Length: ${bytes.length}\r\n\r\n`;
    return this.reply(Buffer.concat([Buffer.from(head, 'latin1'), this.method === 'HEAD' ? Buffer.alloc(0) : bytes]));
  }

  /** What was sent so far is the whole answer. */
  complete(): this {
    this.answered = true;
    return this;
  }

  /** Resolves when the request's body has arrived completely. */
  whole(): Promise<void> {
    if (this.bodyComplete) return Promise.resolve();
    return new Promise((resolve) => this.#whole.push(resolve));
  }

  bodyArrived(): void {
    this.bodyComplete = true;
    for (const resolve of this.#whole.splice(0)) resolve();
  }
}

export class RecordedConnection {
  readonly socket: Socket;
  readonly acceptedAt = performance.now();
  finAt: number | null = null;
  resetAt: number | null = null;
  closedAt: number | null = null;
  readonly exchanges: Exchange[] = [];
  readonly #raw: ByteLog;
  readonly #bytes: ByteLog;
  /** Called for bytes after an upgrade, before the recorder's own `onRaw`. */
  onRaw: ((chunk: Buffer) => void) | null = null;
  readonly #recorder: Recorder;
  #pending: Buffer = Buffer.alloc(0);
  /** An upgrade request waits for its answer: what comes meanwhile is not HTTP. */
  #upgrading = false;
  #tunnel = false;
  #current: Exchange | null = null;
  /** Bytes of content still to come, or the state of a chunked body. */
  #left = 0;
  #chunked = false;
  #inTrailers = false;

  constructor(recorder: Recorder, socket: Socket) {
    this.#recorder = recorder;
    this.#raw = new ByteLog(recorder.keep);
    this.#bytes = new ByteLog(recorder.keep);
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => this.#data(chunk));
    socket.on('end', () => {
      this.finAt = performance.now();
      if (recorder.finOnFin) socket.end();
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNRESET') this.resetAt = performance.now();
    });
    socket.on('close', () => {
      this.closedAt = performance.now();
    });
  }

  get open(): boolean {
    return this.closedAt === null;
  }

  /** Bytes after an upgrade request's head, or everything when the recorder does not parse. */
  get raw(): Buffer {
    return this.#raw.bytes;
  }

  /** Every byte received since the last reset, up to the recorder's bound. */
  get bytes(): Buffer {
    return this.#bytes.bytes;
  }

  /** Forgets what was recorded. */
  forget(): void {
    this.exchanges.length = 0;
    this.#raw.set(Buffer.alloc(0));
    this.#bytes.set(Buffer.alloc(0));
  }

  get recorderName(): string {
    return this.#recorder.name;
  }

  /** Closed, or waiting for a next request with every earlier one answered. */
  get idle(): boolean {
    return !this.open || (!this.#tunnel && this.#current === null && this.exchanges.every((each) => each.answered));
  }

  send(bytes: string | Buffer): boolean {
    if (!this.socket.writable) return false;
    if (this.#upgrading) {
      const status = /^HTTP\/1\.1 (101|[2-9]\d\d)/.exec(
        typeof bytes === 'string' ? bytes : bytes.toString('latin1', 0, 12),
      )?.[1];
      this.#tunnel = status === '101';
      this.#upgrading = status === undefined;
    }
    return this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  }

  fin(): void {
    this.socket.end();
  }

  reset(): void {
    this.socket.resetAndDestroy();
  }

  #data(chunk: Buffer): void {
    this.#bytes.append(chunk);
    if (this.#tunnel || this.#upgrading || !this.#recorder.parse) {
      this.#rawData(chunk);
      return;
    }
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    while (this.#step());
  }

  #rawData(chunk: Buffer): void {
    this.#raw.append(chunk);
    this.onRaw?.(chunk);
    this.#recorder.onRaw(this, chunk);
  }

  /** Takes one step of the message off `#pending`; false: more bytes are needed. */
  #step(): boolean {
    const current = this.#current;
    if (current === null) {
      const end = this.#pending.indexOf('\r\n\r\n');
      if (end < 0) return false;
      const head = this.#pending.subarray(0, end + 4).toString('latin1');
      this.#pending = this.#pending.subarray(end + 4);
      this.#begin(new Exchange(this, head, this.#recorder.keep));
      return true;
    }
    if (!this.#chunked) {
      const part = this.#pending.subarray(0, this.#left);
      if (part.length === 0) return false;
      this.#content(current, part);
      this.#pending = this.#pending.subarray(part.length);
      this.#left -= part.length;
      if (this.#left === 0) this.#end(current);
      return true;
    }
    if (this.#left > 0) {
      const part = this.#pending.subarray(0, this.#left);
      if (part.length === 0) return false;
      this.#pending = this.#pending.subarray(part.length);
      this.#left -= part.length;
      // The two bytes behind each chunk are counted in `#left`.
      const content = part.subarray(0, Math.max(0, part.length - Math.max(0, 2 - this.#left)));
      this.#content(current, content);
      return true;
    }
    if (this.#inTrailers) {
      const whole = this.#pending.subarray(0, 2).toString('latin1') === '\r\n' ? 0 : this.#pending.indexOf('\r\n\r\n');
      if (whole < 0 || this.#pending.length < 2) return false;
      const text = whole === 0 ? '' : this.#pending.subarray(0, whole).toString('latin1');
      this.#pending = this.#pending.subarray(whole === 0 ? 2 : whole + 4);
      if (text !== '') current.trailers = splitHead(`\r\n${text}\r\n\r\n`).lines;
      this.#end(current);
      return true;
    }
    const lineEnd = this.#pending.indexOf('\r\n');
    if (lineEnd < 0) return false;
    const size = Number.parseInt(this.#pending.subarray(0, lineEnd).toString('latin1'), 16);
    this.#pending = this.#pending.subarray(lineEnd + 2);
    if (size === 0) this.#inTrailers = true;
    else this.#left = size + 2;
    return true;
  }

  #begin(exchange: Exchange): void {
    this.exchanges.push(exchange);
    this.#recorder.exchanges.push(exchange);
    this.#recorder.use(this);
    if (exchange.values('upgrade').length > 0) {
      this.#upgrading = true;
      exchange.bodyArrived();
      this.#recorder.script(exchange);
      const rest = this.#pending;
      this.#pending = Buffer.alloc(0);
      if (rest.length > 0) this.#rawData(rest);
      return;
    }
    this.#chunked = exchange.values('transfer-encoding').length > 0;
    this.#inTrailers = false;
    this.#left = this.#chunked ? 0 : Number(exchange.value('content-length') ?? 0);
    if (this.#chunked || this.#left > 0) this.#current = exchange;
    else exchange.bodyArrived();
    this.#recorder.script(exchange);
  }

  #content(exchange: Exchange, part: Buffer): void {
    exchange.content.append(part);
    this.#recorder.onContent(exchange, part);
  }

  #end(exchange: Exchange): void {
    this.#current = null;
    exchange.bodyArrived();
  }
}

export interface RecorderOptions {
  /** Appears in the default answer, so that a test sees who answered. */
  readonly name?: string;
  readonly host?: string;
  readonly port?: number;
  /** Serve TLS instead of plain TCP. */
  readonly tls?: { readonly key: string; readonly cert: string; readonly ca?: string; readonly alpn?: string[] };
  /** Understand HTTP/1.1 requests; false: raw bytes only. */
  readonly parse?: boolean;
}

export class Recorder {
  readonly name: string;
  port = 0;
  readonly host: string;
  /** Bytes kept for each record; counts go on beyond it. */
  keep = 1024 * 1024;
  parse: boolean;
  /** Answer a FIN with a FIN. */
  finOnFin = true;
  /** Accepted or used since the last reset. */
  connections: RecordedConnection[] = [];
  exchanges: Exchange[] = [];
  /** Called for each request head. */
  script: (exchange: Exchange) => void = Recorder.plain;
  /** Called for each accepted socket. */
  accepted: (connection: RecordedConnection) => void = () => {};
  /** Called for request content as it arrives. */
  onContent: (exchange: Exchange, part: Buffer) => void = () => {};
  /** Called for bytes after an upgrade, or for all bytes when not parsing. */
  onRaw: (connection: RecordedConnection, chunk: Buffer) => void = () => {};
  readonly #parked = new Set<RecordedConnection>();
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;

  private constructor(options: RecorderOptions) {
    this.name = options.name ?? 'R';
    this.host = options.host ?? '127.0.0.1';
    this.parse = options.parse ?? true;
    const take = (socket: Socket): void => {
      const connection = new RecordedConnection(this, socket);
      this.connections.push(connection);
      this.accepted(connection);
    };
    this.#server =
      options.tls === undefined
        ? createServer({ allowHalfOpen: true, noDelay: true }, take)
        : createTlsServer(
            {
              key: options.tls.key,
              cert: options.tls.cert,
              allowHalfOpen: true,
              ...(options.tls.alpn === undefined ? {} : { ALPNProtocols: options.tls.alpn }),
              ...(options.tls.ca === undefined
                ? {}
                : { ca: options.tls.ca, requestCert: true, rejectUnauthorized: true }),
            },
            take,
          );
    // A handshake that fails is the test's business, not a crash of the kit.
    this.#server.on('tlsClientError', () => {});
    // Half-open as it is, the socket under a failed handshake would outlive the client's end of it.
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  static async start(options: RecorderOptions = {}): Promise<Recorder> {
    const recorder = new Recorder(options);
    await recorder.listen(options.port ?? 0);
    return recorder;
  }

  /** The default script: a plain 200 once the whole body has arrived. */
  static plain(exchange: Exchange): void {
    void exchange.whole().then(() => exchange.ok(exchange.connection.recorderName));
  }

  async listen(port: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, this.host, resolve);
    });
    this.port = (this.#server.address() as { port: number }).port;
  }

  get address(): string {
    return this.host.includes(':') ? `[${this.host}]:${this.port}` : `${this.host}:${this.port}`;
  }

  get open(): RecordedConnection[] {
    return this.connections.filter((connection) => connection.open);
  }

  get last(): Exchange {
    const exchange = this.exchanges.at(-1);
    if (exchange === undefined) throw new Error(`${this.name} has seen no request`);
    return exchange;
  }

  /** Every byte ever received, latin-1. */
  get text(): string {
    return this.connections.map((connection) => connection.bytes.toString('latin1')).join('');
  }

  async waitForExchange(count = 1): Promise<Exchange> {
    await until(`request ${count} at ${this.name}`, () => this.exchanges.length >= count);
    return this.exchanges[count - 1]!;
  }

  /** Passes when no socket is left that is neither closed nor idle. */
  async backToIdle(timeoutMs = 3000): Promise<void> {
    await until(`sockets of ${this.name} to be idle`, () => this.connections.every((each) => each.idle), {
      timeoutMs,
      seen: () => this.connections.filter((each) => !each.idle).map((each) => each.exchanges.map((e) => e.target)),
    });
  }

  /** A connection that was idle at the last reset is in use again. */
  use(connection: RecordedConnection): void {
    if (this.#parked.delete(connection)) this.connections.push(connection);
  }

  /** Forgets records and scripts; keeps listening. Idle sockets stay open, and count again once they are used. */
  reset(): void {
    for (const connection of this.connections) {
      if (!connection.open) continue;
      connection.forget();
      this.#parked.add(connection);
    }
    this.connections = [];
    this.exchanges = [];
    this.script = Recorder.plain;
    this.accepted = () => {};
    this.onContent = () => {};
    this.onRaw = () => {};
    this.finOnFin = true;
  }

  /** Closes the listener and every socket. */
  async close(): Promise<void> {
    for (const connection of [...this.connections, ...this.#parked]) connection.socket.destroy();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}
