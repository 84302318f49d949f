// Messages to a WebSocket that echoes, one at a time (RFC 6455).
// Invariant: the handshake is checked before the first message; an answer is one whole message.
import { createHash, randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { Fault } from '../base/fault.ts';
import type { ClientConnection } from '../http1/client-connection.ts';
import { Fields } from '../message/fields.ts';
import type { ResponseHead } from '../message/head.ts';
import type { BackendReceiver } from '../message/stream.ts';
import { dialHttp1 } from './dial.ts';
import { requestHead } from './http1-lane.ts';
import { errorWord, type Lane, type LaneHost } from './lane.ts';
import { FrameReader, maskedFrame } from './websocket-messages.ts';

const acceptSuffix = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

export class WebSocketLane implements Lane {
  dueAt = 0;
  readonly #host: LaneHost;
  readonly #message: Buffer;
  #connection: ClientConnection | null = null;
  #stream: Duplex | null = null;
  #turn = 0;

  constructor(host: LaneHost) {
    this.#host = host;
    this.#message = maskedFrame(host.plan.body);
  }

  begin(): void {
    const turn = ++this.#turn;
    if (this.#stream === null) this.#connect(turn);
    else this.#stream.write(this.#message);
  }

  abandon(): void {
    this.#turn++;
    this.#connection?.destroy();
    this.#connection = null;
    this.#stream = null;
  }

  close(): void {
    this.abandon();
  }

  #connect(turn: number): void {
    dialHttp1(this.#host, this, {
      wanted: () => turn === this.#turn,
      opened: (connection) => {
        this.#connection = connection;
        new Handshake(this.#host, connection, {
          opened: (stream) => this.#opened(stream, turn),
          failed: (why) => this.#fail(why, turn),
        }).send();
      },
      closed: () => {},
    });
  }

  #opened(stream: Duplex, turn: number): void {
    if (turn !== this.#turn) {
      stream.destroy();
      return;
    }
    this.#stream = stream;
    const reader = new FrameReader();
    const broken = (why: string): void => {
      if (this.#stream === stream) this.#fail(why, this.#turn);
    };
    stream.on('data', (chunk: Buffer) => {
      this.#host.received(chunk.length);
      const messages = reader.read(chunk);
      if (reader.closed) broken('closed by the target');
      else for (let i = 0; i < messages; i++) this.#host.answered(this, 0);
    });
    stream.on('error', (error) => broken(errorWord(error)));
    stream.on('close', () => broken('closed by the target'));
    // It was paused when it was handed over.
    stream.resume();
    stream.write(this.#message);
  }

  #fail(why: string, turn: number): void {
    if (turn !== this.#turn || this.#connection === null) return;
    this.abandon();
    this.#host.failed(this, why);
  }
}

interface HandshakeEnd {
  opened(stream: Duplex): void;
  failed(why: string): void;
}

class Handshake implements BackendReceiver {
  readonly #host: LaneHost;
  readonly #connection: ClientConnection;
  readonly #end: HandshakeEnd;
  readonly #key = randomBytes(16).toString('base64');

  constructor(host: LaneHost, connection: ClientConnection, end: HandshakeEnd) {
    this.#host = host;
    this.#connection = connection;
    this.#end = end;
  }

  send(): void {
    const fields = new Fields();
    for (const [name, value] of this.#host.plan.fields.entries()) fields.add(name, value);
    fields.add('Sec-WebSocket-Key', this.#key);
    fields.add('Sec-WebSocket-Version', '13');
    this.#connection.open(this).sendHead({ ...requestHead(this.#host), fields }, true);
  }

  upgraded(head: ResponseHead, stream: Duplex): void {
    const expected = createHash('sha1')
      .update(this.#key + acceptSuffix)
      .digest('base64');
    if (head.fields.getNamed('sec-websocket-accept') === expected) this.#end.opened(stream);
    else {
      stream.destroy();
      this.#end.failed('wrong handshake');
    }
  }

  responseHead(head: ResponseHead): void {
    this.#end.failed(`answered ${head.status} to the handshake`);
  }

  responseFailed(fault: Fault): void {
    this.#end.failed(fault.code === 'upstream-bad-response' ? 'malformed' : 'reset');
  }

  backendReady(): void {}
  responseInformation(): void {}
  responseData(): void {}
  responseEnd(): void {}
  backendWritable(): void {}
  responseFlush(): void {}
}
