// Reads the PROXY header of a connection from a load balancer, before anything else of it is looked at.
// Invariant: without a whole, valid header within its time the connection is closed and never answered; with one, whoever
// speaks next gets every byte behind it and none of it.
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';
import type { Log } from '../base/log.ts';
import { ProxyHeaderReader } from '../tcp/proxy-header.ts';
import type { Connection, Served, Speak } from './connection.ts';
import { sniffMs } from './sniff.ts';

export class ProxyPhase implements DeadlineHolder, Served {
  readonly idle = true;
  deadlineAt = 0;
  deadlinePlace = -1;
  readonly #connection: Connection;
  readonly #speak: Speak;
  readonly #deadlines: Deadlines;
  readonly #log: Log;
  readonly #reader = new ProxyHeaderReader();

  constructor(connection: Connection, speak: Speak, deadlines: Deadlines, log: Log) {
    this.#connection = connection;
    this.#speak = speak;
    this.#deadlines = deadlines;
    this.#log = log;
  }

  start(): void {
    const { socket } = this.#connection;
    this.deadlineAt = this.#deadlines.in(sniffMs);
    this.#deadlines.add(this);
    this.#connection.serve(this, false);
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('close', this.#release);
  }

  deadlineReached(): void {
    this.#refuse('nothing whole in time');
  }

  drain(): void {
    this.#connection.socket.destroy();
  }

  destroy(): void {
    this.#connection.socket.destroy();
  }

  readonly #onData = (chunk: Buffer): void => {
    const result = this.#reader.push(chunk);
    if (result === null) return;
    if (result.kind === 'refused') {
      this.#refuse(result.detail);
      return;
    }
    const connection = this.#connection;
    const { socket } = connection;
    this.#release();
    socket.pause();
    if (result.rest.length > 0) socket.unshift(result.rest);
    connection.proxied = result.ends;
    this.#speak(connection);
  };

  readonly #onEnd = (): void => {
    this.#refuse('it ended first');
  };

  #refuse(detail: string): void {
    const { settings, peerAddress, socket } = this.#connection;
    this.#release();
    this.#connection.refused('proxy-expected');
    this.#log.warn('proxy-header-refused', { entrypoint: settings.entrypoint.name, peer: peerAddress, detail });
    socket.destroy();
  }

  readonly #release = (): void => {
    const { socket } = this.#connection;
    this.deadlineAt = 0;
    this.#deadlines.remove(this);
    socket.removeListener('data', this.#onData);
    socket.removeListener('end', this.#onEnd);
    socket.removeListener('close', this.#release);
  };
}
