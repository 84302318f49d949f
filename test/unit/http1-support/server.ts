// Server connections on a real listener, with exchanges that the test plays by hand.

import type { AddressInfo } from 'node:net';
import { createServer, type Server } from 'node:net';
import { afterEach } from 'vitest';
import { type DeadlineHolder, Deadlines } from '../../../src/base/deadlines.ts';
import type { Fault } from '../../../src/base/fault.ts';
import { ServerConnection, type ServerLimits } from '../../../src/http1/server-connection.ts';
import { Fields } from '../../../src/message/fields.ts';
import type { ResponseHead } from '../../../src/message/head.ts';
import type { ClientStream, RequestReceiver, TlsFacts } from '../../../src/message/stream.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { closeRawClients, RawClient } from '../../support/raw-client.ts';

export const serverLimits: ServerLimits = {
  headerSize: 32 * 1024,
  headerCount: 100,
  targetSize: 8 * 1024,
  headerTimeoutMs: 10_000,
  keepAliveTimeoutMs: 60_000,
};

/** What one request did to its receiver, and the stream to answer it on. */
export class PlayedRequest implements RequestReceiver {
  readonly stream: ClientStream;
  body = '';
  bodySize = 0;
  ended = false;
  trailers: Fields | null = null;
  fault: Fault | null = null;
  writable = 0;
  finished = false;
  onData: ((chunk: Buffer) => void) | null = null;
  onWritable: (() => void) | null = null;

  constructor(stream: ClientStream) {
    this.stream = stream;
    stream.receiver = this;
  }

  get line(): string {
    return `${this.stream.head.method} ${this.stream.head.target}`;
  }

  /** Answers with this text, its length declared. */
  answer(text: string, status = 200, close = false): void {
    this.stream.sendHead(head(status, text.length), text === '', close);
    if (text === '') return;
    this.stream.sendData(Buffer.from(text, 'latin1'));
    this.stream.sendEnd(null);
  }

  requestData(chunk: Buffer): void {
    this.bodySize += chunk.length;
    if (this.bodySize < 100_000) this.body += chunk.toString('latin1');
    this.onData?.(chunk);
  }

  requestEnd(trailers: Fields | null): void {
    this.ended = true;
    this.trailers = trailers;
  }

  requestAborted(fault: Fault): void {
    this.fault = fault;
  }

  clientWritable(): void {
    this.writable++;
    this.onWritable?.();
  }

  clientFinished(): void {
    this.finished = true;
  }
}

export function head(status: number, bodyLength: number, fields = new Fields(), declaredLength = -1): ResponseHead {
  return { status, reason: status === 200 ? 'OK' : 'Other', fields, bodyLength, declaredLength };
}

/** Lets a test see who still waits for a deadline. */
class CountedDeadlines extends Deadlines {
  readonly holders = new Set<DeadlineHolder>();

  override add(holder: DeadlineHolder): void {
    this.holders.add(holder);
    super.add(holder);
  }

  override remove(holder: DeadlineHolder): void {
    this.holders.delete(holder);
    super.remove(holder);
  }
}

export interface PlayedServer {
  readonly port: number;
  readonly clock: HandClock;
  readonly deadlines: CountedDeadlines;
  readonly requests: PlayedRequest[];
  readonly refused: Fault[];
  readonly connections: ServerConnection[];
  closed: number;
  idleCloses: number;
  connect(paused?: boolean): Promise<RawClient>;
}

const servers: Server[] = [];
const connections: ServerConnection[] = [];

afterEach(async () => {
  closeRawClients();
  for (const connection of connections.splice(0)) connection.socket.destroy();
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

/** A listener whose connections hand their requests to `onRequest`. Time moves by hand. */
export async function playServer(
  onRequest: (request: PlayedRequest) => void = () => {},
  limits: Partial<ServerLimits> = {},
  tls: TlsFacts | null = null,
): Promise<PlayedServer> {
  const clock = new HandClock();
  const deadlines = new CountedDeadlines(clock);
  const all = { ...serverLimits, ...limits };
  const server = createServer({ noDelay: true });
  const played: PlayedServer = {
    get port() {
      return (server.address() as AddressInfo).port;
    },
    clock,
    deadlines,
    requests: [],
    refused: [],
    connections: [],
    closed: 0,
    idleCloses: 0,
    connect(paused = false) {
      return RawClient.connect({ port: played.port, paused });
    },
  };
  server.on('connection', (socket) => {
    const connection = new ServerConnection(socket, {
      facts: Object.freeze({
        entrypoint: 'web',
        peerAddress: '127.0.0.1',
        peerPort: socket.remotePort ?? 0,
        localAddress: '127.0.0.1',
        localPort: socket.localPort ?? 0,
        trustedPeer: false,
        tls,
      }),
      deadlines,
      limits: () => all,
      onRequest: (stream) => {
        const request = new PlayedRequest(stream);
        played.requests.push(request);
        onRequest(request);
      },
      answerFault: (fault) =>
        Buffer.from(
          `HTTP/1.1 ${fault.status} Refused\r\nConnection: close\r\nContent-Length: 4\r\n\r\n${fault.status}\n`,
        ),
      onRefused: (fault) => played.refused.push(fault),
      onIdleTimeout: () => {
        played.idleCloses++;
      },
      onClose: () => {
        played.closed++;
      },
    });
    played.connections.push(connection);
    connections.push(connection);
    connection.start(null);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return played;
}
