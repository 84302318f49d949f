// Requests side by side on one HTTP/2 connection, by node:http2.
// Invariant: an answer is complete only at the close of a stream without an error code (RFC 9113 §8.1).
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2';
import { dial } from './dial.ts';
import { fieldsToHeaders } from './h2-headers.ts';
import { errorWord, type Lane, type LaneHost } from './lane.ts';

export class Http2Connection {
  readonly #host: LaneHost;
  #session: ClientHttp2Session | null = null;
  #waiting: ((session: ClientHttp2Session | null, why: string) => void)[] = [];
  #closed = false;

  constructor(host: LaneHost) {
    this.#host = host;
  }

  lanes(count: number): readonly Lane[] {
    return Array.from({ length: count }, () => new Http2Lane(this.#host, this));
  }

  /** A session that takes requests, now or when it is connected; null and why not. */
  session(done: (session: ClientHttp2Session | null, why: string) => void): void {
    const session = this.#session;
    if (session !== null && !session.closed && !session.destroyed) {
      done(session, '');
      return;
    }
    this.#waiting.push(done);
    if (this.#waiting.length === 1) this.#connect();
  }

  close(): void {
    this.#closed = true;
    this.#session?.destroy();
  }

  #connect(): void {
    const { plan } = this.#host;
    dial({ ...plan, host: plan.host }, 'h2', (error, socket, reads) => {
      if (error !== null || this.#closed) {
        socket.destroy();
        this.#settle(null, error === null ? 'closed' : errorWord(error));
        return;
      }
      // The session reads its socket by itself.
      if (reads !== null) reads.taker = { take: (chunk) => socket.push(chunk), holdsChunk: true };
      this.#host.connected();
      const scheme = plan.tls === null ? 'http' : 'https';
      const session = connect(`${scheme}://${plan.authority}`, {
        createConnection: () => socket,
        settings: { enablePush: false, initialWindowSize: 1 << 20 },
      });
      session.on('error', () => {});
      session.on('connect', () => session.setLocalWindowSize(16 << 20));
      session.on('close', () => {
        if (this.#session === session) this.#session = null;
      });
      this.#session = session;
      this.#settle(session, '');
    });
  }

  #settle(session: ClientHttp2Session | null, why: string): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const done of waiting) done(session, why);
  }
}

class Http2Lane implements Lane {
  dueAt = 0;
  readonly #host: LaneHost;
  readonly #connection: Http2Connection;
  readonly #headers: Record<string, string>;
  #stream: ClientHttp2Stream | null = null;
  #turn = 0;

  constructor(host: LaneHost, connection: Http2Connection) {
    this.#host = host;
    this.#connection = connection;
    this.#headers = fieldsToHeaders(host.plan);
  }

  begin(): void {
    const turn = ++this.#turn;
    this.#connection.session((session, why) => {
      if (turn !== this.#turn) return;
      if (session === null) this.#host.failed(this, why);
      else this.#send(session, turn);
    });
  }

  abandon(): void {
    this.#turn++;
    this.#stream?.close(constants.NGHTTP2_CANCEL);
    this.#stream = null;
  }

  close(): void {
    this.abandon();
    this.#connection.close();
  }

  #send(session: ClientHttp2Session, turn: number): void {
    const { body } = this.#host.plan;
    const stream = session.request(this.#headers, { endStream: body.length === 0 });
    this.#stream = stream;
    let status = 0;
    stream.on('response', (headers) => {
      status = Number(headers[':status']);
    });
    stream.on('data', (chunk: Buffer) => this.#host.received(chunk.length));
    stream.on('error', () => {});
    stream.on('close', () => {
      if (turn !== this.#turn) return;
      this.#stream = null;
      if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) this.#host.failed(this, 'reset');
      else if (status === 0) this.#host.failed(this, 'cut short');
      else this.#host.answered(this, status);
    });
    if (body.length > 0) stream.end(body);
  }
}
