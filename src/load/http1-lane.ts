// Requests one after the other on an HTTP/1.1 connection that is kept alive as long as the target likes.
// Invariant: a connection that closed while idle is made anew with the next request, and is no failure.
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Fault } from '../base/fault.ts';
import { ClientConnection } from '../http1/client-connection.ts';
import type { RequestHead, ResponseHead } from '../message/head.ts';
import type { BackendReceiver, BackendStream } from '../message/stream.ts';
import { dial } from './dial.ts';
import { errorWord, type Lane, type LaneHost } from './lane.ts';

const headLimits = { headerSize: 256 * 1024, headerCount: 1000, targetSize: 64 * 1024 };

export class Http1Lane implements Lane, BackendReceiver {
  dueAt = 0;
  readonly #host: LaneHost;
  readonly #head: RequestHead;
  #connection: ClientConnection | null = null;
  #socket: Socket | null = null;
  #stream: BackendStream | null = null;
  #status = 0;
  #closed = false;
  /** Rises with every request: what comes late from an earlier one is void. */
  #turn = 0;

  constructor(host: LaneHost) {
    this.#host = host;
    this.#head = requestHead(host);
  }

  begin(): void {
    this.#turn++;
    if (this.#connection?.idle) this.#send(this.#connection);
    else this.#connect(this.#turn);
  }

  abandon(): void {
    this.#turn++;
    // After this the stream says nothing more.
    this.#stream?.abort();
    this.#socket?.destroy();
    this.#stream = null;
    this.#socket = null;
    this.#connection = null;
  }

  close(): void {
    this.#closed = true;
    this.abandon();
  }

  #connect(turn: number): void {
    dial(this.#host.plan, 'http/1.1', (error, socket, reads) => {
      if (this.#closed || turn !== this.#turn) {
        socket.destroy();
        return;
      }
      if (error !== null) {
        this.#host.failed(this, errorWord(error));
        return;
      }
      this.#host.connected();
      this.#socket = socket;
      const connection = new ClientConnection(socket, {
        address: this.#host.plan.authority,
        reads,
        limits: () => headLimits,
        onIdle: () => {},
        onClose: (closed) => {
          if (this.#connection === closed) this.#connection = null;
        },
      });
      this.#connection = connection;
      this.#send(connection);
    });
  }

  #send(connection: ClientConnection): void {
    const { body } = this.#host.plan;
    const stream = connection.open(this);
    this.#stream = stream;
    stream.sendHead(this.#head, body.length === 0);
    if (body.length === 0) return;
    stream.sendData(body);
    stream.sendEnd(null);
  }

  // ---- BackendReceiver -------------------------------------------------------------------------------------------

  backendReady(): void {}

  responseInformation(): void {}

  responseHead(head: ResponseHead): void {
    this.#status = head.status;
  }

  responseData(chunk: Buffer): void {
    this.#host.received(chunk.length);
  }

  responseEnd(): void {
    this.#stream = null;
    this.#host.answered(this, this.#status);
  }

  responseFailed(fault: Fault): void {
    this.#stream = null;
    this.#connection = null;
    const words = { 'upstream-reset': 'reset', 'upstream-cut': 'cut short', 'upstream-bad-response': 'malformed' };
    this.#host.failed(this, words[fault.code as keyof typeof words] ?? fault.code);
  }

  upgraded(_head: ResponseHead, stream: Duplex): void {
    stream.destroy();
    this.#host.failed(this, 'malformed');
  }

  backendWritable(): void {}

  responseFlush(): void {}
}

/** The head that every request of a lane begins with. */
export function requestHead({ plan }: LaneHost): RequestHead {
  return {
    method: plan.method,
    target: plan.target,
    version: 11,
    authority: plan.authority,
    otherAuthority: null,
    fields: plan.fields,
    bodyLength: plan.protocol === 'websocket' ? 0 : plan.body.length,
    upgrade: plan.protocol === 'websocket' ? 'websocket' : '',
    expectContinue: false,
    acceptsTrailers: false,
  };
}
