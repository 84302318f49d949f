// Bytes in both directions between a client and a backend that agreed to a WebSocket.
// Invariant: every byte passes once and in order; both sides end together: a half-close passes on and lingers for at most
// 30 s, a reset passes on as a reset. A close frame of ours is only ever put between two frames.
import type { Http2Stream } from 'node:http2';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import type { Clock, Timer } from '../base/clock.ts';
import { closeFrame, FrameTracker } from './ws-frames.ts';

export interface TunnelOwner {
  /** Bytes that just passed; either may be 0. */
  tunnelMoved(fromClient: number, fromBackend: number): void;
  /** Both sides are closed or given up. Called once. */
  tunnelEnded(): void;
}

const lingerMs = 30_000;
/** How long a frame may take to end, and then how long the client may take to answer our close frame. */
const closeMs = 1000;
/** The same for whoever may be here no longer: both times together stay well below a second. */
const revokeMs = 400;

export class Tunnel {
  readonly #client: Duplex;
  readonly #backend: Duplex;
  readonly #clock: Clock;
  readonly #owner: TunnelOwner;
  readonly #frames = new FrameTracker();
  #timer: Timer | null = null;
  #closeTimer: Timer | null = null;
  /** The close frame that waits for the current frame to end. */
  #pendingClose: Buffer | null = null;
  /** Our close frame is out: what the backend still sends has no place any more. */
  #closing = false;
  /** What the client sends is not for the app any more. */
  #revoked = false;
  #closed = 0;
  #ended = false;

  constructor(client: Duplex, backend: Duplex, clock: Clock, owner: TunnelOwner) {
    this.#client = client;
    this.#backend = backend;
    this.#clock = clock;
    this.#owner = owner;
    this.#join(client, backend, (chunk) => {
      if (this.#revoked) return true;
      owner.tunnelMoved(chunk.length, 0);
      return backend.write(chunk);
    });
    this.#join(backend, client, (chunk) => this.#fromBackend(chunk));
  }

  /** Tells the client to go (RFC 6455 §7.4), after `delayMs`: a fleet of clients should not come back at one moment. */
  close(code: number, reason: string, delayMs: number): void {
    if (this.#ended || this.#closeTimer !== null || this.#closing) return;
    this.#closeTimer = this.#clock.after(delayMs, () => this.#close(code, reason, closeMs));
  }

  /** The session that opened it has ended (RFC 6455 §7.4.1: policy violation): nothing from the client passes any more. */
  revoke(): void {
    if (this.#ended || this.#revoked) return;
    this.#revoked = true;
    this.#closeTimer?.cancel();
    if (this.#closing) this.#closeTimer = this.#clock.after(revokeMs, () => this.destroy());
    else this.#close(1008, 'session ended', revokeMs);
  }

  #close(code: number, reason: string, limitMs: number): void {
    this.#pendingClose = closeFrame(code, reason);
    this.#closeTimer = this.#clock.after(limitMs, () => this.destroy());
    if (this.#frames.boundary) this.#sendClose();
  }

  /** Ends both sides now. */
  destroy(): void {
    this.#client.destroy();
    this.#backend.destroy();
    this.#end();
  }

  #fromBackend(chunk: Buffer): boolean {
    if (this.#closing) return true;
    if (this.#pendingClose === null) {
      this.#frames.follow(chunk, 0, false);
      this.#owner.tunnelMoved(0, chunk.length);
      return this.#client.write(chunk);
    }
    const end = this.#frames.follow(chunk, 0, true);
    this.#owner.tunnelMoved(0, end);
    this.#client.write(end === chunk.length ? chunk : chunk.subarray(0, end));
    if (this.#frames.boundary) this.#sendClose();
    return true;
  }

  #sendClose(): void {
    const frame = this.#pendingClose;
    if (frame === null) return;
    this.#pendingClose = null;
    this.#closing = true;
    // A client that is being told to go already gets no second close frame. Its answer still reaches the backend.
    if (this.#frames.closed) this.#client.end();
    else this.#client.end(frame);
  }

  #join(from: Duplex, to: Duplex, pass: (chunk: Buffer) => boolean): void {
    let reset = false;
    from.on('data', (chunk: Buffer) => {
      if (!pass(chunk)) from.pause();
    });
    to.on('drain', () => from.resume());
    from.on('end', () => {
      if (!to.writableEnded) to.end();
      this.#linger();
    });
    from.on('error', () => {
      reset = true;
    });
    from.on('close', () => {
      if (reset || (isHttp2Stream(from) && from.rstCode !== 0) || !from.readableEnded) resetStream(to);
      else if (!to.writableEnded) to.end();
      if (++this.#closed === 2) this.#end();
      else this.#linger();
    });
    from.resume();
  }

  #linger(): void {
    this.#timer ??= this.#clock.after(lingerMs, () => this.destroy());
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#timer?.cancel();
    this.#closeTimer?.cancel();
    this.#owner.tunnelEnded();
  }
}

/** Ends a stream so that its peer cannot take it for a proper end. */
export function resetStream(stream: Duplex): void {
  if (stream.destroyed) return;
  // `close` would put END_STREAM in front of the reset.
  if (isHttp2Stream(stream)) stream.destroy(new Error('reset'));
  else if (stream instanceof Socket && !(stream instanceof TLSSocket)) stream.resetAndDestroy();
  else stream.destroy();
}

/** node:http2 does not export its classes. */
function isHttp2Stream(stream: Duplex): stream is Http2Stream {
  return 'rstCode' in stream;
}
