// A backend for everything that customers of a soak do: answers, bodies, events, uploads, WebSockets, bytes, datagrams.
// Invariant: it breaks off only where a customer asked for that.
import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket, type Server as TcpServer } from 'node:net';
import { WebSocketServer } from 'ws';
import { UdpBackend } from '../support/udp.ts';

const block = Buffer.alloc(64 * 1024, 'mill ');

export class Mill {
  readonly #http: Server;
  readonly #sockets = new Set<Socket>();
  readonly #webSockets = new WebSocketServer({ noServer: true });

  private constructor(http: Server) {
    this.#http = http;
    http.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    });
    http.on('upgrade', (request, socket, head) => {
      this.#webSockets.handleUpgrade(request, socket, head, (client) => {
        client.on('error', () => {});
        client.on('message', (message: Buffer) => client.send(message, { binary: true }));
      });
    });
  }

  static async start(): Promise<Mill> {
    const http = createHttpServer({ keepAliveTimeout: 60_000 }, answer);
    const mill = new Mill(http);
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    return mill;
  }

  get address(): string {
    return `127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#http.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '/', 'http://mill');
  const size = Number(url.searchParams.get('size') ?? 0);
  response.on('error', () => {});
  request.on('error', () => {});
  switch (url.pathname) {
    case '/upload': {
      let seen = 0;
      request.on('data', (piece: Buffer) => {
        seen += piece.length;
      });
      request.on('end', () => response.end(String(seen)));
      return;
    }
    case '/events': {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      let n = 0;
      const timer = setInterval(() => {
        response.write(`data: ${n}\n\n`);
        if (++n < size) return;
        clearInterval(timer);
        response.end();
      }, 15);
      response.on('close', () => clearInterval(timer));
      return;
    }
    case '/die':
      response.writeHead(200, { 'Content-Length': size + 1 });
      response.write(block.subarray(0, size), () => response.destroy());
      return;
    case '/slow':
      setTimeout(() => response.end('slow'), 60);
      return;
    default:
      response.setHeader('Content-Length', size);
      send(response, size);
  }
}

function send(response: ServerResponse, left: number): void {
  if (left <= 0) {
    response.end();
    return;
  }
  const piece = left >= block.length ? block : block.subarray(0, left);
  const more = (): void => send(response, left - piece.length);
  if (response.write(piece)) setImmediate(more);
  else response.once('drain', more);
}

/** Gives every byte back. */
export async function startEcho(): Promise<{ address: string; stop(): void }> {
  const sockets = new Set<Socket>();
  const server: TcpServer = createTcpServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

export const startUdpEcho = (): Promise<UdpBackend> => UdpBackend.start();
