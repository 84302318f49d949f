// Requests one after the other on an HTTP/1.1 connection that is kept alive as long as the target likes.
// Invariant: a connection that closed while idle is made anew with the next request, and is no failure.
import type { Duplex } from 'node:stream';
import type { Fault } from '../base/fault.ts';
import type { ClientConnection } from '../http1/client-connection.ts';
import type { RequestHead, ResponseHead } from '../message/head.ts';
import type { BackendReceiver, BackendStream } from '../message/stream.ts';
import { dialHttp1 } from './dial.ts';
import type { Lane, LaneHost } from './lane.ts';

export class Http1Lane implements Lane, BackendReceiver {
  dueAt = 0;
  readonly #host: LaneHost;
  readonly #head: RequestHead;
  #connection: ClientConnection | null = null;
  #stream: BackendStream | null = null;
  #status = 0;
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
    this.#connection?.destroy();
    this.#stream = null;
    this.#connection = null;
  }

  close(): void {
    this.abandon();
  }

  #connect(turn: number): void {
    dialHttp1(this.#host, this, {
      wanted: () => turn === this.#turn,
      opened: (connection) => {
        this.#connection = connection;
        this.#send(connection);
      },
      closed: (connection) => {
        if (this.#connection === connection) this.#connection = null;
      },
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
