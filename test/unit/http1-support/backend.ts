// A backend that says what the test tells it, and a client connection to it.
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { afterEach } from 'vitest';
import type { Fault } from '../../../src/base/fault.ts';
import { ClientConnection } from '../../../src/http1/client-connection.ts';
import type { Fields } from '../../../src/message/fields.ts';
import { Fields as FieldsClass } from '../../../src/message/fields.ts';
import type { RequestHead, ResponseHead } from '../../../src/message/head.ts';
import type { BackendReceiver, BackendStream } from '../../../src/message/stream.ts';
import { until } from '../../support/wait.ts';

/** What one exchange heard from its backend. */
export class PlayedExchange implements BackendReceiver {
  stream!: BackendStream;
  readonly interim: number[] = [];
  head: ResponseHead | null = null;
  body = '';
  bodySize = 0;
  ended = false;
  trailers: Fields | null = null;
  fault: Fault | null = null;
  tunnel: Duplex | null = null;
  writable = 0;
  flushes = 0;
  onData: (() => void) | null = null;
  onEnd: (() => void) | null = null;

  backendReady(stream: BackendStream): void {
    this.stream = stream;
  }

  responseInformation(status: number): void {
    this.interim.push(status);
  }

  responseHead(head: ResponseHead): void {
    if (this.head !== null) throw new Error('two heads');
    this.head = head;
  }

  responseData(chunk: Buffer): void {
    this.bodySize += chunk.length;
    if (this.bodySize < 100_000) this.body += chunk.toString('latin1');
    this.onData?.();
  }

  responseEnd(trailers: Fields | null): void {
    this.#over();
    this.ended = true;
    this.trailers = trailers;
    this.onEnd?.();
  }

  responseFailed(fault: Fault): void {
    this.#over();
    this.fault = fault;
  }

  upgraded(head: ResponseHead, stream: Duplex): void {
    this.#over();
    this.head = head;
    this.tunnel = stream;
  }

  backendWritable(): void {
    this.writable++;
  }

  responseFlush(): void {
    this.flushes++;
  }

  get over(): boolean {
    return this.ended || this.fault !== null || this.tunnel !== null;
  }

  #over(): void {
    if (this.over) throw new Error('a second terminal event');
  }
}

export function request(method = 'GET', parts: Partial<RequestHead> = {}): RequestHead {
  return {
    method,
    target: '/',
    version: 11,
    authority: 'a.test',
    otherAuthority: null,
    fields: FieldsClass.of(['Host', 'a.test']),
    bodyLength: 0,
    upgrade: '',
    expectContinue: false,
    acceptsTrailers: false,
    ...parts,
  };
}

export interface PlayedBackend {
  readonly connection: ClientConnection;
  /** The proxy's end. */
  readonly socket: Socket;
  /** The backend's end. */
  readonly peer: Socket;
  /** What the backend received. */
  received(): string;
  idles: number;
  closed: number;
  /** Begins an exchange; with a head, sends it as a request without a body. */
  open(head?: RequestHead): PlayedExchange;
  say(bytes: string | Buffer): void;
  waitFor(text: string): Promise<void>;
}

const servers: Server[] = [];
const sockets: Socket[] = [];

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

export async function playBackend(): Promise<PlayedBackend> {
  const server = createServer({ allowHalfOpen: true, noDelay: true });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
  const socket = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', noDelay: true });
  await new Promise<void>((resolve) => socket.once('connect', resolve));
  const peer = await accepted;
  sockets.push(socket, peer);
  let received = '';
  peer.on('error', () => {});
  peer.on('data', (chunk: Buffer) => {
    received += chunk.toString('latin1');
  });
  const played: PlayedBackend = {
    connection: new ClientConnection(socket, {
      address: 'backend:1',
      limits: () => ({ headerSize: 32 * 1024, headerCount: 100, targetSize: 8 * 1024 }),
      onIdle: () => {
        played.idles++;
      },
      onClose: () => {
        played.closed++;
      },
    }),
    socket,
    peer,
    received: () => received,
    idles: 0,
    closed: 0,
    open(head) {
      const exchange = new PlayedExchange();
      exchange.stream = played.connection.open(exchange);
      if (head !== undefined) exchange.stream.sendHead(head, head.bodyLength === 0);
      return exchange;
    },
    say(bytes) {
      peer.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
    },
    waitFor: (text) => until(text, () => received.includes(text), { seen: () => received.slice(-300) }).then(() => {}),
  };
  return played;
}
