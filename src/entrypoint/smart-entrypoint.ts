// One port for all: looks at the first bytes and hands the connection to whoever speaks that.
// Invariant: whoever gets the connection gets every byte of it, unchanged; what nobody may have is closed, counted by why,
// and no backend hears of it.
import type { DeadlineHolder } from '../base/deadlines.ts';
import { byRawFallback } from '../tcp/way.ts';
import type { Connection, Served, Speak } from './connection.ts';
import type { Refusal } from './entrypoint-metrics.ts';
import { openHttp1, openHttp2 } from './http-entrypoint.ts';
import { acceptTls, type MuxDeps } from './mux-entrypoint.ts';
import { type Sniffed, sniff, sniffMs } from './sniff.ts';
import { openTunnel } from './tunnel-opening.ts';

export function smartEntrypoint(deps: MuxDeps): Speak {
  return (connection) => new SniffPhase(connection, deps).start();
}

const nothing = Buffer.alloc(0);

class SniffPhase implements DeadlineHolder, Served {
  /** Nothing is in work before it is clear what. */
  readonly idle = true;
  deadlineAt = 0;
  deadlinePlace = -1;
  readonly #connection: Connection;
  readonly #deps: MuxDeps;
  #bytes: Buffer = nothing;

  constructor(connection: Connection, deps: MuxDeps) {
    this.#connection = connection;
    this.#deps = deps;
  }

  start(): void {
    const { deadlines } = this.#deps;
    const { socket } = this.#connection;
    this.deadlineAt = deadlines.in(sniffMs);
    deadlines.add(this);
    this.#connection.serve(this, false);
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('close', this.#release);
    socket.resume();
  }

  deadlineReached(): void {
    this.#refuse('sniff-timeout');
  }

  drain(): void {
    this.#connection.socket.destroy();
  }

  destroy(): void {
    this.#connection.socket.destroy();
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
    this.#judge(false);
  };

  readonly #onEnd = (): void => {
    if (this.#bytes.length === 0) this.#refuse('gone');
    else this.#judge(true);
  };

  #judge(ended: boolean): void {
    const sniffed = sniff(this.#bytes, ended);
    if (sniffed !== null) this.#handOver(sniffed);
  }

  #handOver(sniffed: Sniffed): void {
    const connection = this.#connection;
    const { socket } = connection;
    const deps = this.#deps;
    const leftMs = Math.max(0, this.deadlineAt - deps.deadlines.now);
    switch (sniffed) {
      case 'http1':
        this.#release();
        connection.accepted('http1');
        openHttp1(connection, socket, null, this.#bytes, deps);
        break;
      case 'h2c':
        this.#release();
        connection.accepted('h2c');
        openHttp2(connection, socket, null, this.#bytes, deps);
        break;
      case 'tls':
        this.#putBack();
        acceptTls(connection, leftMs, deps);
        break;
      case 'raw':
        this.#fallBack();
        break;
      case 'proxy':
      case 'malformed':
        this.#refuse(sniffed);
    }
  }

  #fallBack(): void {
    const connection = this.#connection;
    const { rawFallback } = connection.settingsNow;
    if (rawFallback === null) this.#refuse('no-fallback');
    else if (!rawFallback.admits(connection.clientAddress)) this.#refuse('raw-source');
    else {
      this.#release();
      connection.socket.pause();
      connection.staysUnder = (settings) => settings.rawFallback?.admits(connection.clientAddress) ?? false;
      // Its end may have been what decided, and nothing can be put back after that.
      const opening = { way: byRawFallback, spoken: 'raw', secure: null, serverName: '', early: this.#bytes } as const;
      openTunnel(connection, opening, this.#deps.tunnels);
    }
  }

  #putBack(): void {
    const { socket } = this.#connection;
    this.#release();
    socket.pause();
    socket.unshift(this.#bytes);
  }

  #refuse(why: Refusal): void {
    const { settings, socket, peerAddress } = this.#connection;
    this.#release();
    this.#connection.refused(why);
    this.#deps.log.debug('connection-refused', {
      entrypoint: settings.entrypoint.name,
      peer: peerAddress,
      reason: why,
    });
    socket.destroy();
  }

  readonly #release = (): void => {
    const { socket } = this.#connection;
    this.deadlineAt = 0;
    this.#deps.deadlines.remove(this);
    socket.removeListener('data', this.#onData);
    socket.removeListener('end', this.#onEnd);
    socket.removeListener('close', this.#release);
  };
}
